"""Planning tasks of nodes: what it costs, and how long the cluster takes by event and by stages."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from graphlib import TopologicalSorter

from benchmarks._row import Row, cost, peak_mib
from benchmarks._task_graphs import CLUSTERS, cluster_tasks, with_times
from cobweb.model import NONE, TaskGraph
from cobweb_plugins.cluster._tasks import Operation
from cobweb_plugins.planner import EventPlanner, StagesPlanner
from tests.support.least_seconds import least_seconds

__all__ = ["measure"]

NODES = {"full": 1000, "small": 50}
MANY_NODES = {"full": 8130, "small": 100}
"""With 30 services on each: a million tasks."""

WORKERS = (None, 50)
SPREADS = (0.3, 0.8)
WITHIN = 1.05


def measure(size: str) -> Iterator[Row]:
    """Yield CPU seconds and memory of planning, then makespans beside their lower bound."""
    yield from _many(MANY_NODES[size])
    yield from _thousand(NODES[size])
    yield from _makespans(NODES[size])


def _many(nodes: int) -> Iterator[Row]:
    with cost() as built:
        graph = with_times(cluster_tasks("alike", nodes, Operation.CREATE), SPREADS[0])
    tasks = len(graph.tasks())
    gc.collect()
    with cost() as event:
        EventPlanner().schedule(graph)
    yield Row(
        what=f"event: {tasks:,} tasks of {nodes:,} nodes, CPU",
        value=event.cpu_s,
        target=10,
        note=f"{len(graph):,} vertices, {len(graph.before):,} edges; made in {built.cpu_s:.1f} s",
    )
    yield Row(what=f"event: {tasks:,} tasks, peak", value=peak_mib(), unit="MiB", target=500)
    with cost() as stages:
        StagesPlanner().schedule(graph)
    yield Row(
        what=f"stages: {tasks:,} tasks, CPU",
        value=stages.cpu_s,
        peer="event",
        peer_value=event.cpu_s,
        target=10,
    )


def _thousand(nodes: int) -> Iterator[Row]:
    with cost() as built:
        graph = cluster_tasks("alike", nodes, Operation.CREATE)
    with cost() as sorted_:
        levels = _levels(graph)
    for planner in (EventPlanner(), StagesPlanner()):
        with cost() as planned:
            planner.schedule(graph)
        yield Row(
            what=f"{planner.name}: plan of {nodes:,} nodes x 30 services, CPU",
            value=built.cpu_s + planned.cpu_s,
            peer="levels by graphlib, with joins",
            peer_value=sorted_.cpu_s,
            target=2,
            note=f"from the layout to the schedule; {levels} levels",
        )


def _levels(graph: TaskGraph) -> int:
    """Return how many levels the tasks have, by the standard library."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for vertex in range(len(graph)):
        sorter.add(vertex, *graph.waits(vertex))
    sorter.prepare()
    levels = 0
    while sorter.is_active():
        ready = sorter.get_ready()
        levels += any(graph.node[vertex] != NONE for vertex in ready)
        sorter.done(*ready)
    return levels


def _makespans(nodes: int) -> Iterator[Row]:
    for operation in (Operation.CREATE, Operation.RESTART):
        for cluster in CLUSTERS:
            bare = cluster_tasks(cluster, nodes, operation)
            for spread in SPREADS:
                graph = with_times(bare, spread)
                for workers in WORKERS:
                    least = least_seconds(graph, workers)
                    by_event = EventPlanner().schedule(graph, workers).makespan_s
                    by_stages = StagesPlanner().schedule(graph, workers).makespan_s
                    who = "any number of" if workers is None else str(workers)
                    yield Row(
                        what=f"makespan: {operation} {cluster}, spread {spread}, {who} workers",
                        value=by_event / least,
                        unit="x",
                        peer="stages",
                        peer_value=by_stages / least,
                        target=WITHIN,
                        note="in lower bounds; log-normal times, see docs/planners.md",
                    )
