"""How close `event` comes to the lower bound on the graphs of docs/planners.md; simulated time."""

from __future__ import annotations

import pytest

from benchmarks._task_graphs import cluster_tasks, with_times
from cobweb_plugins.cluster._tasks import Operation
from cobweb_plugins.planner import EventPlanner, StagesPlanner
from tests.support.least_seconds import least_seconds

NODES = 1000


@pytest.mark.full("large plans, many times")
@pytest.mark.parametrize(
    ("operation", "cluster", "spread", "workers"),
    [
        (Operation.CREATE, "alike", 0.3, None),
        (Operation.CREATE, "alike", 0.3, 50),
        (Operation.CREATE, "roles", 0.3, None),
        (Operation.CREATE, "roles", 0.8, 50),
        (Operation.RESTART, "roles", 0.3, 50),
        (Operation.RESTART, "roles", 0.8, 50),
    ],
)
def test_event_is_within_5_percent(
    operation: Operation, cluster: str, spread: float, workers: int | None
) -> None:
    graph = with_times(cluster_tasks(cluster, NODES, operation), spread)
    least = least_seconds(graph, workers)
    by_event = EventPlanner().schedule(graph, workers).makespan_s
    by_stages = StagesPlanner().schedule(graph, workers).makespan_s
    assert least <= by_event * (1 + 1e-9)
    assert by_event <= 1.05 * least
    assert by_stages > by_event * (2 if workers is None else 1)


def test_joins_keep_the_graph_linear() -> None:
    graph = cluster_tasks("alike", NODES, Operation.CREATE)
    assert len(graph.tasks()) == NODES * (3 + 4 * 30)
    assert len(graph.before) < 3 * len(graph)
