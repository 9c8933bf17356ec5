"""Ansible as the hand of Cobweb: two executors, an inventory adapter, commands over SSH, `install`.

`ansible` keeps one warmed ansible-playbook process and forks lanes from it, so that no transition
pays the start of a process; `ansible-plain` starts one ansible-playbook per job and uses public
interfaces only. docs/executor-ansible.md says how both work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.plugin import Adapter, Executor, Extension, hookimpl

if TYPE_CHECKING:
    import click

__all__ = [
    "cobweb_interface",
    "cobweb_register_adapters",
    "cobweb_register_commands",
    "cobweb_register_executors",
    "cobweb_register_extensions",
]

cobweb_interface = 1


class SshKind:
    """Commands over SSH as the inventory describes the way, and on this machine (`local`).

    It is at the point `command_channel`, which docs/plugins/write-a-command-channel.md describes.
    """

    point: ClassVar[str] = "command_channel"
    name: ClassVar[str] = "ssh"
    rank: ClassVar[int] = 100
    width: ClassVar[int] = 64

    @asynccontextmanager
    async def open(self, site: Any) -> AsyncIterator[Any]:
        """Return the channel to the hosts of a site, a `cobweb.api.Site`."""
        from cobweb_plugins.ansible._command_channel import SshChannel  # on demand

        yield SshChannel(site)


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


@hookimpl
def cobweb_register_extensions() -> Sequence[type[Extension]]:
    """Register the command channel `ssh`."""
    return [SshKind]
