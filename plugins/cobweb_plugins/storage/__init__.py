"""The adapter `storage`: the objects of a storage cluster, made from a small data model."""

from __future__ import annotations

from cobweb.plugin import Generator, hookimpl
from cobweb_plugins.storage._generator import StorageCluster

__all__ = ["StorageCluster", "cobweb_register_adapters"]

cobweb_interface = 1


@hookimpl
def cobweb_register_adapters() -> list[type[Generator]]:
    """Register the adapter."""
    return [StorageCluster]
