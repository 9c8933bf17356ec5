"""The planners of tasks: conformance, the paper's figures, and how close `event` comes."""

from __future__ import annotations

import heapq
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import NONE, Schedule, TaskGraph, TaskGraphBuilder
from cobweb.testing import NamedCheck, TaskPlannerCase, task_planner_checks
from cobweb.testing._task_planner_checks import random_tasks
from cobweb_plugins.planner import EventPlanner, StagesPlanner
from tests.support.least_seconds import least_seconds


@pytest.mark.parametrize("check", task_planner_checks(TaskPlannerCase(make=EventPlanner)), ids=str)
def test_event_conforms(check: NamedCheck) -> None:
    check()


@pytest.mark.parametrize("check", task_planner_checks(TaskPlannerCase(make=StagesPlanner)), ids=str)
def test_stages_conforms(check: NamedCheck) -> None:
    check()


def _sources_by_hand(graph: TaskGraph) -> list[list[int]]:
    """Return the stages as the paper says it: take the sources, until all tasks are gone."""
    joins = [v for v in range(len(graph)) if graph.node[v] == NONE]
    waits = {v: set(graph.waits(v)) for v in range(len(graph))}
    for join in joins:  # what waits for a join waits for all that the join waits for
        for before in waits.values():
            if join in before:
                before.remove(join)
                before.update(waits[join])
        del waits[join]
    stages: list[list[int]] = []
    while waits:
        sources = [v for v, before in waits.items() if not before & waits.keys()]
        for source in sources:
            del waits[source]
        while sources:  # one task of a node in a stage
            stage: dict[int, int] = {}
            for task in sources:
                stage.setdefault(graph.node[task], task)
            stages.append(sorted(stage.values()))
            sources = [task for task in sources if task not in stage.values()]
    return stages


@given(st.integers(0, 10_000))
def test_stages_are_the_sources_of_what_is_left(seed: int) -> None:
    graph = random_tasks(seed)
    stages = StagesPlanner().schedule(graph).stages
    assert [list(stage) for stage in stages] == _sources_by_hand(graph)


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_a_stage_begins_when_the_one_before_is_over(seed: int, workers: int) -> None:
    graph = random_tasks(seed)
    plan = StagesPlanner().schedule(graph, workers)
    now = 0.0
    for stage in plan.stages:
        assert min(plan.start_s[task] for task in stage) == now
        free = [now] * workers
        for task in sorted(stage, key=lambda task: -graph.seconds[task]):
            heapq.heapreplace(free, free[0] + graph.seconds[task])
        now = max(plan.end_s[task] for task in stage)
        assert now == pytest.approx(max(free))
    assert plan.makespan_s == now


@given(st.integers(0, 10_000), st.sampled_from([None, 1, 2, 3]))
def test_event_leaves_no_task_waiting_that_could_start(seed: int, workers: int | None) -> None:
    graph = random_tasks(seed)
    plan = EventPlanner().schedule(graph, workers)
    tasks = graph.tasks()
    for task in tasks:
        ready = max((plan.end_s[wait] for wait in graph.waits(task)), default=0.0)
        busy = [t for t in tasks if plan.start_s[t] < plan.end_s[t] and t != task]
        moments = {ready, *(plan.end_s[t] for t in busy)}
        for moment in sorted(m for m in moments if ready <= m < plan.start_s[task]):
            at_work = [t for t in busy if plan.start_s[t] <= moment < plan.end_s[t]]
            own = any(graph.node[t] == graph.node[task] for t in at_work)
            assert own or len(at_work) == workers


@given(st.integers(0, 10_000))
def test_one_worker_loses_no_time(seed: int) -> None:
    graph = random_tasks(seed)
    for planner in (EventPlanner(), StagesPlanner()):
        assert planner.schedule(graph, 1).makespan_s == pytest.approx(sum(graph.seconds))


def test_the_heaviest_starts_first_and_of_equals_the_first() -> None:
    builder = TaskGraphBuilder(["a", "b"])
    light, twin = builder.task(0, "x"), builder.task(0, "x")
    heavy = builder.task(0, "x")
    builder.task(1, "x", seconds=5, after=[heavy])
    plan = EventPlanner().schedule(builder.build())
    assert [plan.start_s[task] for task in (heavy, light, twin)] == [0, 1, 2]
    assert plan.stages == ((heavy,), (light, 3), (twin,))
    assert plan.critical_path == (heavy, 3)
    assert plan.makespan_s == 6


def test_workers_take_the_heaviest_of_all_nodes() -> None:
    builder = TaskGraphBuilder(["a", "b", "c"])
    tasks = [builder.task(node, "x", seconds=node + 1) for node in range(3)]
    plan = EventPlanner().schedule(builder.build(), 1)
    assert [plan.start_s[task] for task in tasks] == [5, 3, 0]


def _counts(plan: Schedule) -> Counter[int]:
    return Counter(len(stage) for stage in plan.stages)


def test_a_chain_of_many_thousand_tasks_needs_no_deep_stack() -> None:
    builder = TaskGraphBuilder(["a", "b"])
    at: tuple[int, ...] = ()
    for number in range(20_000):
        at = (builder.join([builder.task(number % 2, "x", after=at)]),)
    graph = builder.build()
    for planner in (EventPlanner(), StagesPlanner()):
        plan = planner.schedule(graph)
        assert plan.makespan_s == least_seconds(graph) == 20_000
        assert _counts(plan) == {1: 20_000}
        assert len(plan.critical_path) == 20_000
