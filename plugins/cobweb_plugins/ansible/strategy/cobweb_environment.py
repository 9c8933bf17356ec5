# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuses vaulted values in the `environment` of tasks, in whatever executor.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. Ansible writes the environment of a task on command lines: that of ssh on
this machine, that of a shell on the host, where every user reads it. The private part that it leans
on is `Task._post_validate_environment`, where the environment gets its final value.
"""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible.playbook.task import Task

__all__ = ["guard_environment"]

REFUSAL = (
    "the `environment` of this task uses a vaulted value, which would stand on command lines of "
    "this machine and of the host: hand it over by an argument of the module, as `stdin` of "
    "`command` and `shell`, or by a file with `mode: '0600'`"
)
UNKNOWN = (
    "with this version of ansible-core it is not known whether the `environment` of this task uses "
    "a vaulted value: write no templates there, or use ansible-core 2.19"
)


def guard_environment() -> None:
    """Have tasks refuse it from now on, in this process and its forks; may be called again.

    Where Ansible does not tell what a template uses, all templates there are refused.
    """
    usual = Task._post_validate_environment
    if getattr(usual, "guards", False):
        return
    try:
        from cobweb_plugins.ansible.strategy.cobweb_vaulted import VaultUse
    except ImportError:
        watch = None
    else:
        watch = VaultUse

    def judged(task: Any, attr: Any, value: Any, templar: Any) -> Any:
        if watch is None:
            if not _is_written_out(value):
                raise AnsibleError(UNKNOWN)
            return usual(task, attr, value, templar)
        with watch() as use:
            made = usual(task, attr, value, templar)
        if use.shows(made, templar.available_variables):
            raise AnsibleError(REFUSAL)
        return made

    judged.guards = True  # type: ignore[attr-defined]  # a mark of our own
    Task._post_validate_environment = judged


def _is_written_out(value: Any) -> bool:
    """Say whether there is nothing but texts without templates, and numbers."""
    if isinstance(value, dict):
        return all(map(_is_written_out, value.values()))
    if isinstance(value, list):
        return all(map(_is_written_out, value))
    return isinstance(value, int | float) or (isinstance(value, str) and "{" not in value)
