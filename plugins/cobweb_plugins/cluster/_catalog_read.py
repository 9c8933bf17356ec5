"""From the sections `catalog`, `clusters` and `tenants` to values.

The sections fit their schemas (schemas/sections); all else that is wrong with them is found by
`_catalog_checks.py`, all at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cobweb.errors import ModelError
from cobweb_plugins.cluster._catalog import (
    Action,
    Automator,
    Catalog,
    Cluster,
    Compatibility,
    Defaults,
    HardwareType,
    ImageType,
    Lease,
    Provider,
    Quantities,
    Rule,
    Service,
    Template,
    Tenant,
)
from cobweb_plugins.cluster._catalog_checks import catalog_problems
from cobweb_plugins.cluster._merge import merged_template
from cobweb_plugins.cluster._problems import seconds
from cobweb_plugins.cluster._request_checks import cluster_problems

Raw = Mapping[str, Any]
TIMEOUT = "1800s"


def read_catalog(sections: Raw) -> Catalog:
    """Return the catalog of a site from its sections by name; a missing section is empty.

    ModelError has all problems at once; the first key of each path is a section.
    """
    raw, clusters, tenants = (
        sections.get(name) or {} for name in ("catalog", "clusters", "tenants")
    )
    problems = list(catalog_problems(raw))
    if not problems:
        problems = list(cluster_problems(raw, clusters, tenants))
    if problems:
        raise ModelError(problems)
    automators = {
        name: Automator(name=name, **said) for name, said in _table(raw, "automators").items()
    }
    templates = _table(raw, "templates")
    return Catalog(
        providers={
            name: Provider(name=name, **said) for name, said in _table(raw, "providers").items()
        },
        hardwaretypes={
            name: HardwareType(name=name, **said)
            for name, said in _table(raw, "hardwaretypes").items()
        },
        imagetypes={
            name: ImageType(name=name, **said) for name, said in _table(raw, "imagetypes").items()
        },
        automators=automators,
        services={
            name: _service(name, said, automators) for name, said in _table(raw, "services").items()
        },
        templates={name: _template(name, merged_template(name, templates)) for name in templates},
        clusters={name: _cluster(name, said) for name, said in clusters.items()},
        tenants={name: Tenant(name=name, **said) for name, said in tenants.items()},
    )


def _table(raw: Raw, kind: str) -> Raw:
    found: Raw = raw.get(kind) or {}
    return found


def _service(name: str, said: Raw, automators: Mapping[str, Automator]) -> Service:
    needs = said.get("dependencies") or {}
    install, runtime = needs.get("install") or {}, needs.get("runtime") or {}
    return Service(
        name=name,
        version=said.get("version", ""),
        config=tuple(said["config"]) if "config" in said else None,
        provides=tuple(needs.get("provides", ())),
        conflicts=tuple(needs.get("conflicts", ())),
        install_requires=tuple(install.get("requires", ())),
        install_uses=tuple(install.get("uses", ())),
        runtime_requires=tuple(runtime.get("requires", ())),
        runtime_uses=tuple(runtime.get("uses", ())),
        actions={
            action: _action(action, words, automators)
            for action, words in (said.get("actions") or {}).items()
        },
        description=said.get("description", ""),
    )


def _action(name: str, said: Raw, automators: Mapping[str, Automator]) -> Action:
    by = automators.get(said.get("automator", ""))
    return Action(
        name=name,
        tasks=by.tasks if by else said.get("tasks", ""),
        role=by.role if by else said.get("role", ""),
        automator=by.name if by else "",
        fields=said.get("fields") or {},
        timeout_s=seconds(said.get("timeout", TIMEOUT)),
        attempts=said.get("attempts", 3),
    )


def _template(name: str, said: Raw) -> Template:
    constraints = said.get("constraints") or {}
    size, layout = constraints.get("size") or {}, constraints.get("layout") or {}
    lease = said.get("lease") or {}
    return Template(
        name=name,
        extends=said.get("extends", ""),
        includes=tuple(said.get("includes", ())),
        defaults=_defaults(said.get("defaults") or {}),
        compatibility=Compatibility(**_tuples(said.get("compatibility") or {})),
        size_min=size.get("min", 1),
        size_max=size.get("max"),
        mustcoexist=tuple(tuple(group) for group in layout.get("mustcoexist", ())),
        cantcoexist=tuple(tuple(group) for group in layout.get("cantcoexist", ())),
        rules={name: _rule(rule) for name, rule in (constraints.get("services") or {}).items()},
        locked=tuple(said.get("locked", ())),
        lease=Lease(**{f"{key}_s": seconds(value) for key, value in lease.items()}),
        links=tuple((link["label"], link["url"]) for link in said.get("links", ())),
        description=said.get("description", ""),
    )


def _defaults(said: Raw) -> Defaults:
    return Defaults(
        services=tuple(said.get("services", ())),
        provider=said.get("provider") or None,
        hardwaretype=said.get("hardwaretype") or None,
        imagetype=said.get("imagetype") or None,
        config=said.get("config") or {},
    )


def _rule(said: Raw) -> Rule:
    quantities = Quantities(**(said.get("quantities") or {}))
    kinds = {kind: said.get(kind, ()) for kind in ("hardwaretypes", "imagetypes")}
    return Rule(
        quantities=quantities,
        max_unavailable=said.get("max_unavailable"),
        **_tuples(kinds),
    )


def _tuples(said: Raw) -> dict[str, tuple[str, ...]]:
    return {key: tuple(value) for key, value in said.items()}


def _cluster(name: str, said: Raw) -> Cluster:
    plain = {key: value for key, value in said.items() if key not in ("services", "lease")}
    services, lease = said.get("services"), said.get("lease") or {}
    return Cluster(
        name=name,
        services=None if services is None else tuple(services),
        lease_created=lease.get("created"),
        lease_expires=lease.get("expires"),
        **plain,
    )
