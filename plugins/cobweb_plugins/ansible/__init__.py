"""Ansible as the hand of Cobweb: two executors, an inventory adapter, the command `install`.

`ansible` keeps one warmed ansible-playbook process and forks lanes from it, so that no transition
pays the start of a process; `ansible-plain` starts one ansible-playbook per job and uses public
interfaces only. docs/executor-ansible.md says how both work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cobweb.plugin import Adapter, Executor, hookimpl

if TYPE_CHECKING:
    import click

__all__ = [
    "cobweb_interface",
    "cobweb_register_adapters",
    "cobweb_register_commands",
    "cobweb_register_executors",
]

cobweb_interface = 1


@hookimpl
def cobweb_register_executors() -> Sequence[type[Executor]]:
    """Return the executors `ansible` and `ansible-plain`."""
    from cobweb_plugins.ansible._executors import AnsibleLanes, AnsiblePlain  # on demand

    return [AnsibleLanes, AnsiblePlain]


@hookimpl
def cobweb_register_adapters() -> Sequence[type[Adapter]]:
    """Return the adapter `ansible-inventory`."""
    from cobweb_plugins.ansible._adapter import AnsibleInventory  # on demand

    return [AnsibleInventory]


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `install`."""
    from cobweb_plugins.ansible._install._command import command  # on demand

    return [command]
