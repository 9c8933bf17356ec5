"""The planner `stages` on the example of Coopr's paper: layout {s1, s3} once and {s2} four times.

s3 depends on s1 and s2. In the paper's last figure the four `configure s2` stand one stage later
than the paper's rule ("all sources are one stage, then no two tasks of a node") puts them; there
are nine stages either way.
"""

from __future__ import annotations

import pytest

from cobweb.model import TaskGraph, TaskGraphBuilder
from cobweb_plugins.planner import EventPlanner, StagesPlanner

ACTIONS = ("install", "configure", "initialize", "start")
S2 = range(1, 5)
FIGURE = [
    {(node, "create", None) for node in range(5)},
    {(0, "install", "s1"), *((node, "install", "s2") for node in S2)},
    {(0, "install", "s3")},
    {(0, "configure", "s1"), *((node, "configure", "s2") for node in S2)},
    {(0, "configure", "s3")},
    {(0, "initialize", "s1"), *((node, "initialize", "s2") for node in S2)},
    {(0, "start", "s1"), *((node, "start", "s2") for node in S2)},
    {(0, "initialize", "s3")},
    {(0, "start", "s3")},
]


def _paper(*, joins: bool) -> TaskGraph:
    """Return the figure's graph, with joins or with each edge between two services."""
    builder = TaskGraphBuilder([f"node{number}" for number in range(1, 6)])
    at: dict[tuple[int, str], int] = {}
    created = [builder.task(node, "create") for node in range(5)]
    for name, nodes in (("s1", [0]), ("s2", S2), ("s3", [0])):
        waits: tuple[int, ...] = ()
        if name == "s3":
            waits = tuple(
                at[node, other]
                for other in ("s1", "s2")
                for node in range(5)
                if (node, other) in at
            )
            waits = (builder.join(waits),) if joins else waits
        for node in nodes:
            last = created[node]
            for action in ACTIONS:
                after = (last, *(waits if action in ("initialize", "start") else ()))
                last = builder.task(node, action, name, after=after)
            at[node, name] = last
    return builder.build()


@pytest.mark.parametrize("joins", [False, True], ids=["edges", "joins"])
def test_the_stages_are_those_of_the_paper(joins: bool) -> None:  # noqa: FBT001  # a parameter
    graph = _paper(joins=joins)
    plan = StagesPlanner().schedule(graph)
    stages = [
        {(graph.node[task], *graph.names(task)[1:]) for task in stage} for stage in plan.stages
    ]
    assert stages == FIGURE
    assert plan.makespan_s == len(FIGURE)


def test_by_event_no_node_waits_for_the_stage_of_another() -> None:
    graph = _paper(joins=True)
    plan = EventPlanner().schedule(graph)
    start = {graph.names(task): plan.start_s[task] for task in graph.tasks()}
    assert start["node2", "configure", "s2"] == 2
    assert start["node2", "start", "s2"] == 4
    assert plan.makespan_s == 9  # node 1 has nine tasks to do
