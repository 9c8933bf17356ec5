"""What `cobweb show catalog` shows: templates with all that they are based on, no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cobweb.plugin import Plugins, secret_fields
from cobweb_plugins.cluster._catalog_read import read_catalog
from cobweb_plugins.cluster._merge import merged_template

HIDDEN = "(secret)"
SECRET_WORDS = ("password", "secret", "token")
"""Fields of a provider that nobody knows are secret if their names have one of these in them."""


def shown_catalog(sections: Mapping[str, Any], plugins: Plugins) -> dict[str, Any]:
    """Return the catalog of a site; ModelError where it, or a cluster, is wrong."""
    read_catalog(sections)
    catalog = dict(sections.get("catalog") or {})
    templates = catalog.get("templates") or {}
    if templates:
        catalog["templates"] = {name: merged_template(name, templates) for name in templates}
    if "providers" in catalog:
        catalog["providers"] = {
            name: _without_secrets(said, plugins) for name, said in catalog["providers"].items()
        }
    return catalog


def _without_secrets(provider: Mapping[str, Any], plugins: Plugins) -> dict[str, Any]:
    fields = provider.get("fields")
    if not fields:
        return dict(provider)
    known = plugins.providers.get(provider["type"])
    if known is None:
        secret = {key for key in fields if any(word in key.lower() for word in SECRET_WORDS)}
    else:
        secret = set(secret_fields(known.fields))
    shown = {
        key: HIDDEN if key in secret and isinstance(value, str) and value else value
        for key, value in fields.items()
    }
    return {**provider, "fields": shown}
