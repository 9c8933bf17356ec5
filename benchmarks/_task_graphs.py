"""Clusters of 30 services that depend on each other, and how long their tasks take, from seeds."""

from __future__ import annotations

import random
from array import array
from collections.abc import Mapping
from dataclasses import replace

from cobweb.model import NONE, TaskGraph
from cobweb_plugins.cluster._tasks import Operation, ServiceWork, tasks_of
from cobweb_plugins.cluster._template import ServiceNeeds

SERVICES = 30
DEPENDS = 0.1
"""How likely a service needs each of those before it."""

ROLES = (0.02, 0.06, 0.15, 0.4, 1.0)
"""Where the nodes are five roles of six services each: up to which part of them each role goes."""

CLUSTERS = ("alike", "roles")
"""All services on every node, or the nodes in five roles."""

MEDIAN_S: Mapping[str, float] = {
    "create": 60,
    "confirm": 30,
    "bootstrap": 45,
    "install": 40,
    "configure": 5,
    "initialize": 10,
    "start": 6,
    "stop": 4,
}
OF_KINDS = 0.5
"""The sigma of the log-normal times of an action between services."""


def cluster_tasks(cluster: str, nodes: int, operation: Operation) -> TaskGraph:
    """Return the tasks of an operation on a cluster of `CLUSTERS`, each one second long."""
    services = _services()
    names = list(services)
    per_role = len(names) // len(ROLES)
    there = {}
    for number in range(nodes):
        role = next(place for place, part in enumerate(ROLES) if number < part * nodes)
        own = names[role * per_role : (role + 1) * per_role]
        there[f"n{number}"] = names if cluster == "alike" else own
    return tasks_of(there, services, operation)


def with_times(graph: TaskGraph, spread: float, seed: int = 1) -> TaskGraph:
    """Return the graph with log-normal times; `spread` is the sigma between nodes."""
    source = random.Random(seed)  # noqa: S311  # no secret
    kinds: dict[tuple[int, int], float] = {}
    seconds = array("d")
    for node, action, service in zip(graph.node, graph.action, graph.service, strict=True):
        if node == NONE:
            seconds.append(0.0)
            continue
        if (action, service) not in kinds:
            median = MEDIAN_S[graph.actions[action]]
            kinds[action, service] = median * source.lognormvariate(0, OF_KINDS)
        seconds.append(kinds[action, service] * source.lognormvariate(0, spread))
    return replace(graph, seconds=seconds)


def _services() -> dict[str, ServiceWork]:
    source = random.Random(1)  # noqa: S311  # no secret
    names = [f"s{number:02}" for number in range(SERVICES)]
    actions = ("install", "configure", "initialize", "start", "stop")
    services = {}
    for number, name in enumerate(names):
        runtime = tuple(other for other in names[:number] if source.random() < DEPENDS)
        needs = ServiceNeeds(install=runtime[:1], runtime=runtime, binding=runtime)
        services[name] = ServiceWork(actions=actions, needs=needs)
    return services
