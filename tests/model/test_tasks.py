"""Graphs of tasks: what the builder refuses, and chains beside a search through all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import (
    NONE,
    Schedule,
    TaskGraph,
    TaskGraphBuilder,
    chain_seconds,
    longest_chain,
)
from tests.support.least_seconds import least_seconds

SECONDS = (0.0, 0.5, 1.0, 3.0)
NODES = ("a", "b", "c")


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    builder = TaskGraphBuilder(NODES)
    for number in range(draw(st.integers(0, 12))):
        after = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        if draw(st.booleans()):
            seconds = draw(st.sampled_from(SECONDS))
            builder.task(draw(st.integers(0, 2)), "work", seconds=seconds, after=sorted(after))
        else:
            builder.join(sorted(after))
    return builder.build()


def _chains(graph: TaskGraph, vertex: int) -> list[list[int]]:
    """Return all chains that begin with a vertex."""
    after = [other for other in range(len(graph)) if vertex in graph.waits(other)]
    return [[vertex]] + [[vertex, *chain] for other in after for chain in _chains(graph, other)]


def _tasks(graph: TaskGraph, chain: list[int]) -> list[int]:
    return [vertex for vertex in chain if graph.node[vertex] != NONE]


def _length(graph: TaskGraph, chain: list[int]) -> float:
    return sum(graph.seconds[vertex] for vertex in chain)


@given(graphs())
def test_the_longest_chains_are_those_of_a_search(graph: TaskGraph) -> None:
    chains = [_chains(graph, vertex) for vertex in range(len(graph))]
    lengths = [max(_length(graph, chain) for chain in of) for of in chains]
    assert chain_seconds(graph) == lengths
    found = list(longest_chain(graph, lengths))
    assert _length(graph, found) == max(lengths, default=0)
    assert found in [[], *(_tasks(graph, chain) for of in chains for chain in of)]


def test_a_graph_without_vertices_has_no_chain() -> None:
    graph = TaskGraphBuilder(NODES).build()
    assert len(graph) == 0
    assert longest_chain(graph, chain_seconds(graph)) == ()
    assert least_seconds(graph) == least_seconds(graph, 2) == 0
    assert Schedule(start_s=[], end_s=[], stages=(), critical_path=()).makespan_s == 0


def test_of_equal_chains_the_one_with_lower_numbers_is_taken() -> None:
    builder = TaskGraphBuilder(NODES)
    first, second = builder.task(0, "work"), builder.task(1, "work")
    builder.task(0, "work", after=[second])
    builder.task(1, "work", after=[first])
    graph = builder.build()
    assert longest_chain(graph, chain_seconds(graph)) == (first, 3)


def test_names_and_waits_are_those_that_were_given() -> None:
    builder = TaskGraphBuilder(NODES)
    create = builder.task(2, "create", seconds=5)
    start = builder.task(2, "start", "web", after=(create,))
    join = builder.join([create, start])
    last = builder.task(1, "start", "app", after=iter([join]))
    graph = builder.build()
    assert [graph.names(task) for task in graph.tasks()] == [
        ("c", "create", None),
        ("c", "start", "web"),
        ("b", "start", "app"),
    ]
    assert [list(graph.waits(vertex)) for vertex in range(4)] == [[], [0], [0, 1], [2]]
    assert (list(graph.seconds), graph.tasks()) == ([5.0, 1.0, 0.0, 1.0], [create, start, last])


@pytest.mark.parametrize("after", [[1], [0, 7], [-1], [0, -1]])
def test_a_wait_for_what_is_not_there_is_refused_and_changes_nothing(after: list[int]) -> None:
    builder = TaskGraphBuilder(NODES)
    builder.task(0, "work")
    with pytest.raises(ValueError, match="earlier ones only"):
        builder.task(0, "work", after=after)
    with pytest.raises(ValueError, match="earlier ones only"):
        builder.join(after)
    graph = builder.build()
    assert (len(graph), list(graph.first), list(graph.before)) == (1, [0, 0], [])


@pytest.mark.parametrize("node", [-1, 3])
def test_a_node_that_is_not_there_is_refused_and_changes_nothing(node: int) -> None:
    builder = TaskGraphBuilder(NODES)
    with pytest.raises(ValueError, match=f"there is no node {node}"):
        builder.task(node, "work")
    assert len(builder.build()) == 0


def test_no_schedule_is_faster_than_a_chain_a_node_or_all_workers() -> None:
    builder = TaskGraphBuilder(NODES)
    first = builder.task(0, "work", seconds=4)
    builder.task(1, "work", seconds=4, after=[builder.join([first])])
    assert least_seconds(builder.build()) == 8
    builder = TaskGraphBuilder(NODES)
    for node in (0, 0, 0, 1, 2):
        builder.task(node, "work", seconds=4)
    graph = builder.build()
    assert [least_seconds(graph, workers) for workers in (None, 2, 1)] == [12, 12, 20]


def test_no_schedule_is_faster_than_what_a_node_must_await_and_what_awaits_it() -> None:
    builder = TaskGraphBuilder(NODES)
    late = builder.task(1, "work", seconds=3)
    first = builder.task(0, "work", seconds=2)
    second = builder.task(0, "work", seconds=2, after=[late])
    builder.task(2, "work", seconds=5, after=[first])
    builder.task(1, "work", seconds=5, after=[second])
    assert least_seconds(builder.build()) == 10


def test_a_task_may_be_paused_for_one_that_more_has_to_wait_for() -> None:
    """One after the other, the node would be done with both only at 6, and all at 16."""
    builder = TaskGraphBuilder(NODES)
    builder.task(0, "work", seconds=4)
    early = builder.task(1, "work", seconds=1)
    urgent = builder.task(0, "work", seconds=2, after=[early])
    builder.task(2, "work", seconds=10, after=[urgent])
    assert least_seconds(builder.build()) == 13


@given(graphs(), st.sampled_from([None, 1, 2]))
def test_the_bound_is_between_its_parts_and_one_after_the_other(
    graph: TaskGraph, workers: int | None
) -> None:
    least = least_seconds(graph, workers)
    work = [0.0] * len(NODES)
    for task in graph.tasks():
        work[graph.node[task]] += graph.seconds[task]
    parts = [*chain_seconds(graph), *work, sum(work) / workers if workers else 0]
    assert max(parts) - 1e-9 <= least <= sum(work) + 1e-9
