"""From clusters with pinned layouts to hosts and change objects; nobody writes a COB by hand.

Each node is a host `CLUSTER-NUMBER` with the object `node`, the machine itself, and an object per
service on it. What a service needs of another is asked of a join on the host named after the
cluster, so that n nodes that need m cost n + m. A name is defined once for all clusters of the
site: what differs is in variables of hosts and groups.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobweb.model import Expansion
from cobweb_plugins.cluster._catalog import Catalog, HardwareType, ImageType, Service
from cobweb_plugins.cluster._join import Join
from cobweb_plugins.cluster._lock import LockedCluster, LockedNode
from cobweb_plugins.cluster._macros import ClusterView, expand_macros, functions
from cobweb_plugins.cluster._section import NODE
from cobweb_plugins.cluster._service_type import RUNNING, service_type, type_name
from cobweb_plugins.cluster._template import Resolved

NO_HOST = "cobweb_cluster_has_no_host"
"""The connection of a cluster's own host: no task can be run on what is no machine."""

NOWHERE = "nowhere"
"""A group without hosts: where an optional need asks for nothing."""

HERE = "{{ cluster_name }}"
_GOALS = {"started": "started", "stopped": "initialized"}
_STOPS = {"started": "initialized", "outdated": "stale", "obsolete": "shelved"}
_SELF = re.compile(r"%[^%\s]*self[^%\s]*%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A cluster as it is asked for, and the nodes that are pinned for it."""

    resolved: Resolved
    locked: LockedCluster

    @property
    def name(self) -> str:
        """The cluster's name, which is that of its host."""
        return self.resolved.cluster.name

    def services(self) -> tuple[str, ...]:
        """Return the services that are on some node, sorted."""
        return tuple(
            sorted({name for node in self.locked.nodes.values() for name in node.services})
        )


def host_of_node(cluster: str, number: int) -> str:
    """Return the name of a node's host."""
    return f"{cluster}-{number}"


def group_of(cluster: str, service: str = "nodes") -> str:
    """Return the name of a group of a cluster's nodes; Ansible knows no `-` in such names."""
    return f"{cluster}_{service}".replace("-", "_").replace(".", "_")


def compile_clusters(catalog: Catalog, layouts: Iterable[Layout], site_dir: Path) -> Expansion:
    """Return hosts, objects and types of clusters; the same for the same layouts."""
    clusters = sorted(layouts, key=lambda each: each.name)
    if not clusters:
        return Expansion()
    views = {each.name: view_of(each) for each in clusters}
    used = sorted({name for each in clusters for name in each.services()})
    return Expansion(
        inventory=_inventory(catalog, clusters, views),
        cobs=_cobs(catalog, clusters, used),
        limits=dict(_limits(clusters)),
        types={type_name(name): service_type(catalog.services[name], site_dir) for name in used},
        functions=_functions(clusters, views),
    )


# Hosts and their variables.


def _inventory(
    catalog: Catalog, clusters: Iterable[Layout], views: Mapping[str, ClusterView]
) -> dict[str, Any]:
    hosts: dict[str, Any] = {}
    groups: dict[str, Any] = {"clusters": {"hosts": hosts}, NOWHERE: {}}
    for each in clusters:
        common = {"cluster_name": each.name, "cluster_group": group_of(each.name)[: -len("_nodes")]}
        hosts[each.name] = {**common, "ansible_connection": NO_HOST}
        groups |= _groups(catalog, each, views[each.name], common)
    return groups


def _groups(
    catalog: Catalog, layout: Layout, view: ClusterView, common: Mapping[str, str]
) -> dict[str, Any]:
    cluster, provider = layout.resolved.cluster, layout.resolved.provider
    values = _Values(catalog, layout, view)
    nodes = {
        host_of_node(layout.name, number): {
            **_node_variables(catalog, provider.name, number, node),
            **values.of_node(number, node),
        }
        for number, node in layout.locked.nodes.items()
    }
    variables = {
        **common,
        "cluster_id": layout.locked.id or layout.name,
        "cluster_goal": _GOALS[cluster.state],
        "cluster_restarts": cluster.restarts,
        "cluster_tenant": cluster.tenant or "",
        "node_provider": {"name": provider.name, "type": provider.type},
        **values.of_cluster(),
        **_stops(layout),
    }
    groups: dict[str, Any] = {group_of(layout.name): {"hosts": nodes, "vars": variables}}
    for service in layout.services():
        members = (host_of_node(layout.name, each) for each in layout.locked.having(service))
        groups[group_of(layout.name, service)] = {"hosts": dict.fromkeys(members)}
    return groups


def _node_variables(
    catalog: Catalog, provider: str, number: int, node: LockedNode
) -> dict[str, Any]:
    hardware = catalog.hardwaretypes[node.hardwaretype]
    image = catalog.imagetypes[node.imagetype]
    own = {"cores": hardware.cores, "memory_mb": hardware.memory_mb}
    return {
        "node_number": number,
        "node_services": list(node.services),
        "node_hardware": _of_type(hardware, provider, own),
        "node_image": _of_type(image, provider, {"user": image.user}),
    }


def _of_type(it: HardwareType | ImageType, provider: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a provider is told of a type: its name, its own and the provider's words."""
    return {"name": it.name, **own, **it.providers.get(provider, {})}


class _Values:
    """The configuration and the fields that each service gets, macros expanded.

    What is the same on all nodes is a variable of the cluster's group; what asks for the node
    itself is one of each host.
    """

    def __init__(self, catalog: Catalog, layout: Layout, view: ClusterView) -> None:
        self._view = view
        self._own: dict[str, dict[str, Any]] = {}
        self._shared: dict[str, Any] = {}
        for name in layout.services():
            for what, value in _parts(catalog.services[name], layout.resolved).items():
                key = _variable(what, name)
                if _SELF.search(json.dumps(value)):
                    self._own.setdefault(name, {})[key] = value
                else:
                    self._shared[key] = expand_macros(value, view)

    def of_cluster(self) -> dict[str, Any]:
        """Return the variables that all nodes share."""
        return self._shared

    def of_node(self, number: int, node: LockedNode) -> dict[str, Any]:
        """Return the variables of one node."""
        return {
            key: expand_macros(value, self._view, number)
            for name in node.services
            for key, value in self._own.get(name, {}).items()
        }


def _variable(what: str, service: str) -> str:
    """Return the name of the variable that has a part of a service's spec."""
    return f"{what}_of_{service}".replace("-", "_").replace(".", "_")


def _parts(service: Service, resolved: Resolved) -> dict[str, Any]:
    """Return what the spec of a service is made of, for one cluster."""
    keys = resolved.config if service.config is None else service.config
    return {
        "version": resolved.cluster.versions.get(service.name, service.version),
        "config": {key: value for key, value in resolved.config.items() if key in keys},
        "fields": {key: dict(it.fields) for key, it in service.actions.items() if it.fields},
    }


# Objects and their needs.


def _cobs(catalog: Catalog, clusters: list[Layout], used: list[str]) -> dict[str, dict[str, Any]]:
    on_all = ":".join(group_of(each.name) for each in clusters)
    having = {name: [each.name for each in clusters if name in each.services()] for name in used}
    needs = {
        name: [*_needs(name, clusters), *_removal(name, [catalog.services[it] for it in used])]
        for name in used
    }
    cobs = {NODE: _node(on_all, used)}
    for name in used:
        cobs[name] = _service(catalog.services[name], having[name], needs[name])
    joins = {need["cob"] for each in needs.values() for need in each if "on" in need}
    for join in sorted(joins):
        service, _, kind = join.rpartition(".")
        cobs[join] = _join(service, kind, having[service])
    return cobs


def _node(on: str, used: Iterable[str]) -> dict[str, Any]:
    """Return the machine: it goes when nothing is on it any more."""
    return {
        "type": NODE,
        "on": on,
        "spec": {
            "provider": "{{ node_provider }}",
            "owner": "{{ cluster_id }}",
            "cluster": "{{ cluster_name }}",
            "tenant": "{{ cluster_tenant }}",
            "number": "{{ node_number }}",
            "hardware": "{{ node_hardware }}",
            "image": "{{ node_image }}",
        },
        "needs": [
            {"when": "* -> absent", "cob": name, "state": "absent", "optional": True}
            for name in used
        ],
    }


def _service(
    service: Service, having: Iterable[str], needs: list[dict[str, Any]]
) -> dict[str, Any]:
    name = service.name
    return {
        "type": type_name(name),
        "on": ":".join(group_of(cluster, name) for cluster in having),
        "machine": NODE,
        "want": "{{ cluster_goal }}",
        "spec": {
            "service": name,
            "restarts": "{{ cluster_restarts }}",
            "version": f"{{{{ {_variable('version', name)} }}}}",
            "config": f"{{{{ {_variable('config', name)} }}}}",
            "fields": f"{{{{ {_variable('fields', name)} }}}}",
        },
        "needs": needs,
    }


def _needs(name: str, clusters: Iterable[Layout]) -> Iterator[dict[str, Any]]:
    """Yield what a service needs of its node, and of joins of others where these are.

    What requires it at run time is stopped before it, always on the same node; where that is asked
    of all nodes of the cluster, `stops_before` says. What only uses it is so in the latter case.
    """
    yield {"when": "absent -> installed", "cob": NODE, "state": "bootstrapped"}
    having = [each for each in clusters if name in each.services()]
    needs = [each.resolved.needs[name] for each in having]
    for other in sorted({other for each in needs for other in each.install}):
        yield _of_join("absent -> installed", f"{other}.present", HERE)
    for other in sorted({other for each in needs for other in each.runtime}):
        yield _of_join("configured -> initialized", f"{other}.started", HERE)
        yield _of_join("initialized -> started", f"{other}.started", HERE)
    for other in sorted({user for each in having for user in users_of(each, name)}):
        is_bound = any(_binds(each, name, other) for each in having)
        for state in RUNNING:
            when = f"{state} -> {_STOPS[state]}"
            if is_bound:
                yield {"when": when, "cob": other, "state": "stopped", "optional": True}
            kind = _kind_of_stop(state)
            if any(stops_before(each, name, other, kind) for each in having):
                where = f"{{{{ {_variable(kind, f'{name}_after_{other}')} }}}}"
                yield _of_join(when, f"{other}.stopped", where)


def _removal(name: str, services: Iterable[Service]) -> Iterator[dict[str, Any]]:
    """Yield that what was installed on top of a service, on the same node, is removed before it."""
    for each in services:
        if name in each.install_requires:
            need = {"when": "* -> absent", "cob": each.name, "state": "absent"}
            yield {**need, "optional": True}


def _stops(layout: Layout) -> dict[str, str]:
    """Return the variables of a cluster that say which stops wait for others on all its nodes."""
    return {
        _variable(kind, f"{name}_after_{user}"): layout.name
        if stops_before(layout, name, user, kind)
        else NOWHERE
        for name in layout.services()
        for user in users_of(layout, name)
        for kind in ("stop", "change")
    }


def _kind_of_stop(state: str) -> str:
    """Return what a stop is for: a service that is `started` goes, an older one is changed."""
    return "stop" if state == "started" else "change"


def users_of(layout: Layout, name: str) -> list[str]:
    """Return the services on a cluster that require or use another one at run time, sorted."""
    there = layout.services()
    return sorted(other for other in there if name in layout.resolved.needs[other].runtime)


def _binds(layout: Layout, name: str, user: str) -> bool:
    """Say whether a service on a cluster requires another one at run time."""
    return user in layout.services() and name in layout.resolved.needs[user].binding


def stops_before(layout: Layout, name: str, user: str, kind: str) -> bool:
    """Say whether a service stops on no node before its user has stopped on all of them.

    A stop of the whole cluster goes that way, as in the paper. Elsewhere what only uses a service
    goes on without it. A service that is on one node only is as good as the whole of it. One of
    several that goes leaves the others, so users on other nodes go on; so they do where they, or
    the service, may not be unavailable as a whole.
    """
    if layout.resolved.cluster.state == "stopped":
        return True
    if not _binds(layout, name, user):
        return False
    rules = layout.resolved.template.rules
    stays_up = user in rules and rules[user].max_unavailable is not None
    is_rolling = name in rules and rules[name].max_unavailable is not None
    is_single = len(layout.locked.having(name)) == 1
    return not stays_up and (is_single or (kind == "change" and not is_rolling))


def _of_join(when: str, join: str, where: str) -> dict[str, Any]:
    return {"when": when, "cob": join, "on": where, "state": "up", "optional": True}


def _join(service: str, kind: str, having: Iterable[str]) -> dict[str, Any]:
    group = group_of("{{ cluster_group }}", service)
    return {
        "type": Join.name,
        "on": ":".join(having),
        "needs": [{"when": "up", "cob": service, "on": group, "state": kind}],
    }


def _limits(clusters: Iterable[Layout]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield how many nodes of a cluster may be without a service at once."""
    for each in clusters:
        for name in each.services():
            rule = each.resolved.template.rules.get(name)
            if rule and rule.max_unavailable is not None:
                limit = {"on": group_of(each.name, name), "cob": name, "group": "running"}
                yield f"{each.name}.{name}", {**limit, "max": rule.max_unavailable}


# What templates can ask.


def view_of(layout: Layout) -> ClusterView:
    """Return what macros know of a cluster."""
    locked = layout.locked
    return ClusterView(
        name=layout.name,
        owner=layout.resolved.cluster.owner,
        nodes={number: host_of_node(layout.name, number) for number in locked.nodes},
        services={name: locked.having(name) for name in layout.services()},
    )


def _functions(
    clusters: Iterable[Layout], views: Mapping[str, ClusterView]
) -> dict[str, Callable[..., Any]]:
    """Return the macros as functions of the host that a template is rendered for."""
    homes: dict[str, tuple[ClusterView, int | None]] = {}
    for each in clusters:
        view = views[each.name]
        homes[each.name] = (view, None)
        homes |= {host: (view, number) for number, host in view.nodes.items()}
    return functions(homes)
