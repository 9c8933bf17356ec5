"""Templates over templates, configuration over configuration.

Mappings are merged key by key; anything else, lists as well, is replaced by what comes over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VAULT_KEY = "__ansible_vault"
"""The only key of a vaulted value's mark, which is never merged."""

OWN_KEYS = ("description", "extends", "includes")
"""What a template does not have from another."""


def merged(below: Any, above: Any) -> Any:
    """Return plain data with `above` over `below`; neither is changed."""
    if not (_is_mapping(below) and _is_mapping(above)):
        return above
    both = {key: merged(value, above[key]) for key, value in below.items() if key in above}
    return {**below, **above, **both}


def merged_template(name: str, templates: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template's words over those of what it includes, over those of what it extends.

    Names must be right and without circles.
    """
    return _merged_template(name, templates, {})


def _merged_template(
    name: str, templates: Mapping[str, Any], done: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    if name not in done:
        own = templates[name]
        below: Any = {}
        for each in (*([own["extends"]] if own.get("extends") else []), *own.get("includes", ())):
            inherited = _merged_template(each, templates, done)
            below = merged(below, {k: v for k, v in inherited.items() if k not in OWN_KEYS})
        done[name] = merged(below, own)
    return done[name]


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and VAULT_KEY not in value
