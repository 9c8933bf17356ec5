"""The built-in plugin `cluster`: a catalog, clusters made from its templates, and their life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb.plugin import hookimpl
from cobweb_plugins.cluster._join import Join
from cobweb_plugins.cluster._section import CatalogSection, ClustersSection, TenantsSection
from cobweb_plugins.cluster._service_type import ServiceCheck

if TYPE_CHECKING:
    import click

__all__ = ["cobweb_register_commands", "cobweb_register_sections", "cobweb_register_types"]

cobweb_interface = 1


@hookimpl
def cobweb_register_sections() -> list[type[CatalogSection | ClustersSection | TenantsSection]]:
    """Register `catalog`, `clusters` and `tenants`."""
    return [CatalogSection, ClustersSection, TenantsSection]


@hookimpl
def cobweb_register_types() -> list[type[Join | ServiceCheck]]:
    """Register `join` and `cluster-service`."""
    return [Join, ServiceCheck]


@hookimpl
def cobweb_register_commands() -> list[click.Command]:
    """Register `cluster` and `import`."""
    from cobweb_plugins.cluster._groups import cluster, import_command

    return [cluster, import_command]
