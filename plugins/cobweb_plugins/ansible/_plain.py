"""The executor `ansible-plain`: one ansible-playbook per job, on public interfaces.

The one exception are the guards of `vars/cobweb_none.py`.

Slower (a second and more of processor time per job) and plainer: for versions of ansible-core that
the executor `ansible` was not tested with.
"""

from __future__ import annotations

from typing import ClassVar

from cobweb_plugins.ansible._playbooks import PlaybookExecutor
from cobweb_plugins.ansible._runner import installed_version


class AnsiblePlainExecutor(PlaybookExecutor):
    """Runs task files and roles through Ansible, each play in a process of its own."""

    name: ClassVar[str] = "ansible-plain"

    def _check_installed(self) -> None:
        installed_version()

    def _dispatch(self) -> None:
        self._dispatch_plays()
        while self._queue and len(self._runs) < self._setting.parallel:
            self._start_run(self._queue.popleft())

    def _hear(self) -> None:
        for connection, hello in self._hub.take_hellos():
            self._greet(connection, hello)
        self._hear_runs()
