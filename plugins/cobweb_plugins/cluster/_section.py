"""The sections `catalog`, `clusters` and `tenants` of a site; `clusters` stands for its hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from cobweb.model import Expansion
from cobweb.plugin import ExpandContext, Plugins, data_dir

NODE = "node"
"""The name of the object that is the machine itself, and of its type."""


def _schema(name: str) -> Mapping[str, Any]:
    path = data_dir("schemas") / "sections" / f"{name}.schema.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


class CatalogSection:
    """Providers, types of hardware and images, services and templates of clusters."""

    name: ClassVar[str] = "catalog"
    schema: ClassVar[Mapping[str, Any]] = _schema("catalog")

    def expand(self, sections: Mapping[str, Any], _context: ExpandContext) -> Expansion:
        """Return what all nodes share; it is the clusters that stand for hosts.

        Finds what is wrong with it.
        """
        if ClustersSection.name not in sections:
            from cobweb_plugins.cluster._catalog_read import read_catalog

            read_catalog(sections)
        return Expansion(shared={NODE: {"providers": _provider_fields(sections)}})

    @staticmethod
    def show(sections: Mapping[str, Any], plugins: Plugins) -> Mapping[str, Any]:
        """Return what `cobweb show catalog` shows."""
        from cobweb_plugins.cluster._show import shown_catalog

        return shown_catalog(sections, plugins)


class TenantsSection:
    """Who has clusters, and how much of them."""

    name: ClassVar[str] = "tenants"
    schema: ClassVar[Mapping[str, Any]] = _schema("tenants")


class ClustersSection:
    """The clusters: their nodes are hosts of the site, with objects for services and machines."""

    name: ClassVar[str] = "clusters"
    schema: ClassVar[Mapping[str, Any]] = _schema("clusters")

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return hosts and objects of all clusters; solves nothing, for layouts are pinned."""
        from cobweb_plugins.cluster._expand import expand_clusters

        return expand_clusters(sections, context)


def _provider_fields(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of each provider by name; a node's job asks for those of its own."""
    providers = (sections.get(CatalogSection.name) or {}).get("providers") or {}
    return {name: dict(said.get("fields") or {}) for name, said in providers.items()}
