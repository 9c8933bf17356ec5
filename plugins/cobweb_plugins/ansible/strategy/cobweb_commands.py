# SPDX-License-Identifier: GPL-3.0-or-later
"""Has all commands of a job start through the guard of job marks, in whatever executor.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. The private parts that it leans on: `ActionBase._low_level_execute_command`
where Ansible hands a command to a connection, before `become` and the shell are put around it, and
`TaskExecutor._execute_internal`, which has the cause of a failure before it becomes a result.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleError
from ansible.executor.task_executor import TaskExecutor
from ansible.plugins.action import ActionBase

from cobweb_plugins.ansible._job_marks import JOB_VARIABLE, guarded
from cobweb_plugins.ansible._results import TOO_MUCH

__all__ = ["guard_commands", "has_posix_shell"]

NO_SHELLS = ("network_cli", "netconf", "httpapi")
"""Connections to devices whose command line is no shell."""


def guard_commands() -> None:
    """Have commands start so from now on, in this process and its forks; may be called again.

    The mark is the attribute `cobweb_mark` of the connection, else that of the process; "" for a
    command that starts as it is.
    """
    usual = ActionBase._low_level_execute_command
    if getattr(usual, "guards", False):
        return

    def start(  # the interface of Ansible
        action: Any,
        cmd: str,
        sudoable: bool = True,  # noqa: FBT001, FBT002  # the interface of Ansible
        in_data: bytes | None = None,
        executable: Any = None,
        *arguments: Any,
        **more: Any,
    ) -> Any:
        connection = action._connection
        mark = getattr(connection, "cobweb_mark", os.environ.get(JOB_VARIABLE, ""))
        shell = action._play_context.executable if executable is None else executable
        if mark and cmd and has_posix_shell(connection):
            cmd = guarded(cmd, mark, shell or ("/bin/sh" if connection.become else ""))
        return usual(action, cmd, sudoable, in_data, executable, *arguments, **more)

    start.guards = True  # type: ignore[attr-defined]  # a mark of our own
    ActionBase._low_level_execute_command = start
    TaskExecutor._execute_internal = _telling(TaskExecutor._execute_internal)


def _telling(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Have a task that has run out of memory say so; Ansible would give no reason."""

    def execute(*arguments: Any) -> Any:
        with contextlib.suppress(MemoryError):  # whose frames hold what the host said
            return usual(*arguments)
        raise AnsibleError(TOO_MUCH)

    return execute


def has_posix_shell(connection: Any) -> bool:
    """Say whether commands of a connection go to a POSIX shell."""
    shell = getattr(getattr(connection, "_shell", None), "SHELL_FAMILY", "")
    return shell == "sh" and connection.transport not in NO_SHELLS
