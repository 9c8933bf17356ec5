"""What no cluster of a catalog can ask for, and what a tenant may not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from cobweb_plugins.cluster._merge import merged, merged_template
from cobweb_plugins.cluster._problems import Path, Problem, named

Raw = Mapping[str, Any]
RESERVED = ("all", "clusters", "localhost", "nowhere", "ungrouped")
"""What clusters cannot be called: hosts are named like them, and these are groups of every site."""
NUMBERED = re.compile(r"(.+)-[0-9]+")
NAMES = (
    ("services", "service", "services"),
    ("provider", "provider", "providers"),
    ("hardwaretype", "hardware type", "hardwaretypes"),
    ("imagetype", "image type", "imagetypes"),
)
"""Key of a cluster, what it names, where the catalog has these."""


def cluster_problems(catalog: Raw, clusters: Raw, tenants: Raw) -> Iterator[Problem]:
    """Yield all problems of the sections `clusters` and `tenants`; the catalog is sound."""
    templates = catalog.get("templates") or {}
    for name, said in clusters.items():
        path: Path = ("clusters", name)
        if name in RESERVED:
            yield path, f"a cluster cannot be named `{name}`", "give it another name"
        like = NUMBERED.fullmatch(name)
        if like and like[1] in clusters:
            message = f"`{name}` is the name of a node of the cluster `{like[1]}`"
            yield path, message, "give it a name that does not end in a number"
        for key, kind, table in NAMES:
            yield from named((*path, key), kind, said.get(key), catalog.get(table) or {})
        for service in said.get("versions") or {}:
            at = (*path, "versions", service)
            yield from named(at, "service", service, catalog.get("services") or {})
        yield from named((*path, "tenant"), "tenant", said.get("tenant"), tenants)
        yield from _lease((*path, "lease"), said.get("lease") or {})
        yield from named((*path, "template"), "template", said["template"], templates)
        if said["template"] in templates:
            whole = merged_template(said["template"], templates)
            yield from _size(path, said, whole)
            yield from _locked(path, said, whole)
    yield from _quotas(clusters, tenants)


def _lease(path: Path, lease: Raw) -> Iterator[Problem]:
    for key, value in lease.items():
        try:
            known = value is None or datetime.fromisoformat(value).tzinfo is not None
        except ValueError:
            known = False
        if not known:
            hint = "as in 2030-01-31T12:00:00+00:00"
            yield (*path, key), f"`{value}` is no date and time with a time zone", hint


def _size(path: Path, said: Raw, template: Raw) -> Iterator[Problem]:
    size = (template.get("constraints") or {}).get("size") or {}
    least, most, nodes = size.get("min", 1), size.get("max"), said["nodes"]
    if nodes < least or (most is not None and nodes > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        bounds = f"exactly {least}" if least == most else bounds
        message = f"`{path[1]}` has {nodes} nodes, its template `{said['template']}` {bounds}"
        yield (*path, "nodes"), message, "see `constraints.size` of the template"


def _locked(path: Path, said: Raw, template: Raw) -> Iterator[Problem]:
    """Yield what a cluster says otherwise than its template, which has locked it."""
    defaults = template.get("defaults") or {}
    for locked in template.get("locked") or ():
        keys = locked.split(".")
        known, asked = _value(defaults, keys), _value(said, keys)
        if asked is None or _same(asked, known, defaults=keys[0]):
            continue
        message = f"`{locked}` is locked by the template `{said['template']}`"
        yield (*path, *keys), message, "leave it out; an administrator can change the template"


def _value(said: Any, keys: list[str]) -> Any:
    for key in keys:
        if not isinstance(said, Mapping) or key not in said:
            return None
        said = said[key]
    return said


def _same(asked: Any, known: Any, *, defaults: str) -> bool:
    if defaults == "services":
        return set(asked) == set(known or ())
    return bool(merged(known, asked) == known)


def _quotas(clusters: Raw, tenants: Raw) -> Iterator[Problem]:
    for name, limits in tenants.items():
        own = {it: said for it, said in clusters.items() if said.get("tenant") == name}
        has = {"clusters": len(own), "nodes": sum(said["nodes"] for said in own.values())}
        for key, count in has.items():
            if count > limits.get(key, count):
                message = f"the tenant `{name}` has {count} {key}, its limit is {limits[key]}"
                yield ("tenants", name, key), message, f"its clusters: {', '.join(own)}"
