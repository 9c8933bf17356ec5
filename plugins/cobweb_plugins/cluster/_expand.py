"""From clusters with their pinned layouts to hosts and objects of a site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cobweb.errors import CobwebError, ModelError
from cobweb.model import Expansion
from cobweb.plugin import ExpandContext
from cobweb_plugins.cluster._catalog import Catalog
from cobweb_plugins.cluster._catalog_read import read_catalog
from cobweb_plugins.cluster._compile import Layout, compile_clusters, group_of
from cobweb_plugins.cluster._lock import LOCK_FILE, LockedCluster, read_lock
from cobweb_plugins.cluster._pin import request_digest
from cobweb_plugins.cluster._problems import Problem
from cobweb_plugins.cluster._template import Resolved, resolve


def expand_clusters(sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
    """Return hosts and objects of all clusters; ModelError with all problems."""
    catalog = read_catalog(sections)
    resolved = resolve_all(catalog)
    try:
        locked = read_lock(context.read(LOCK_FILE))
    except (CobwebError, OSError, ValueError) as error:
        hint = error.hint if isinstance(error, CobwebError) else ""
        text = error.message if isinstance(error, CobwebError) else f"{LOCK_FILE}: {error}"
        raise ModelError([(("clusters",), text, hint)]) from error
    layouts, problems = [], []
    for name, each in resolved.items():
        found = list(_stale(name, each, locked.get(name)))
        problems += found
        if not found:
            layouts.append(Layout(resolved=each, locked=locked[name]))
    problems += _missing_actions(catalog, layouts, context)
    problems += _quotas(catalog, layouts)
    problems += _same_groups(layouts)
    if problems:
        raise ModelError(problems)
    return compile_clusters(catalog, layouts, context.site_dir)


def resolve_all(catalog: Catalog) -> dict[str, Resolved]:
    """Return all clusters with what their templates say; ModelError with the problems of all."""
    problems: list[Problem] = []
    resolved = {}
    for name, cluster in catalog.clusters.items():
        try:
            resolved[name] = resolve(catalog, cluster)
        except ModelError as error:
            problems += error.problems
    if problems:
        raise ModelError(problems)
    return resolved


def _stale(name: str, resolved: Resolved, locked: LockedCluster | None) -> Iterator[Problem]:
    hint = f"run `cobweb cluster sync {name}`, which lays it out and shows what changes"
    if locked is None:
        yield ("clusters", name), f"the cluster `{name}` has no layout in {LOCK_FILE}", hint
    elif locked.request != request_digest(resolved):
        message = f"the layout of `{name}` in {LOCK_FILE} is that of another request or template"
        yield ("clusters", name), message, hint


def _missing_actions(
    catalog: Catalog, layouts: list[Layout], context: ExpandContext
) -> Iterator[Problem]:
    """Yield the actions of services in use that nothing carries out."""
    used = {name: each.name for each in reversed(layouts) for name in each.services()}
    for name, cluster in sorted(used.items()):
        for action in catalog.services[name].actions.values():
            path = ("catalog", "services", name, "actions", action.name)
            if not action.tasks and not action.role:
                message = f"nothing carries out `{action.name}` of `{name}`, which `{cluster}` has"
                yield path, message, "define its automator under `catalog.automators`"
            elif action.tasks and context.read(action.tasks) is None:
                message = f"there is no file {action.tasks}"
                yield (*path, "tasks"), message, "paths of tasks are relative to the site"


def _same_groups(layouts: list[Layout]) -> Iterator[Problem]:
    """Yield the clusters that have a group of another one: `a` with `b-c`, and `a-b` with `c`."""
    owners: dict[str, str] = {}
    for each in layouts:
        for service in ("nodes", *each.services()):
            group = group_of(each.name, service)
            owner = owners.setdefault(group, each.name)
            if owner != each.name:
                message = f"the clusters `{owner}` and `{each.name}` both have a group `{group}`"
                yield ("clusters", each.name), message, "give one of them another name"


def _quotas(catalog: Catalog, layouts: list[Layout]) -> Iterator[Problem]:
    """Yield the tenants whose nodes have more cores than they may have in all."""
    cores: dict[str, float] = {}
    for each in layouts:
        tenant = each.resolved.cluster.tenant
        if tenant is not None:
            cores[tenant] = cores.get(tenant, 0) + sum(
                catalog.hardwaretypes[node.hardwaretype].cores_at(each.resolved.provider.name)
                for node in each.locked.nodes.values()
            )
    for name, count in sorted(cores.items()):
        most = catalog.tenants[name].cores
        if most is not None and count > most:
            message = f"the tenant `{name}` has {count:g} cores, its limit is {most:g}"
            yield ("tenants", name, "cores"), message, "remove nodes, or raise the limit"
