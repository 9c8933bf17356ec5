"""The built-in plugin `providers`: the COB type `node`, and nodes out of a pool of given hosts."""

from __future__ import annotations

from cobweb.plugin import hookimpl
from cobweb_plugins.providers._node import Node
from cobweb_plugins.providers._static import Static

__all__ = ["cobweb_register_adapters", "cobweb_register_types"]

cobweb_interface = 1


@hookimpl
def cobweb_register_types() -> list[type[Node]]:
    """Register `node`."""
    return [Node]


@hookimpl
def cobweb_register_adapters() -> list[type[Static]]:
    """Register `static`."""
    return [Static]
