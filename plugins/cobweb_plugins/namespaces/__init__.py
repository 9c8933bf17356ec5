"""The built-in plugin `namespaces`: a provider whose machines are namespaces of this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb.plugin import hookimpl

if TYPE_CHECKING:
    from cobweb_plugins.namespaces._provider import Namespaces

__all__ = ["cobweb_register_adapters"]

cobweb_interface = 1


@hookimpl
def cobweb_register_adapters() -> list[type[Namespaces]]:
    """Register `namespaces`."""
    from cobweb_plugins.namespaces._provider import Namespaces

    return [Namespaces]
