"""Conformance checks for planners of tasks, on graphs that the kit makes from seeds."""

from __future__ import annotations

import itertools
import math
import random  # noqa: TID251  # each case is made from its own seed
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cobweb.model import NONE, Schedule, TaskGraph, TaskGraphBuilder, chain_seconds
from cobweb.plugin import Kind, TaskPlanner
from cobweb.testing._checks import Kit, expect, satisfies

SEEDS = range(20)
WORKERS = (None, 1, 2, 5)
TOLERANCE_S = 1e-9
JOIN_OF = 5
"""One of so many vertices is a join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlannerCase:
    """What the kit needs to try a planner of tasks: how to make one."""

    make: Callable[[], TaskPlanner]


def random_tasks(seed: int, count: int = 40) -> TaskGraph:
    """Return tasks of five nodes, and joins; some take no time."""
    source = random.Random(seed)  # noqa: S311  # no secret
    builder = TaskGraphBuilder([f"n{number}" for number in range(5)])
    for number in range(count):
        after = source.sample(range(number), k=min(number, source.randint(0, 3)))
        if source.randrange(JOIN_OF) == 0:
            builder.join(after)
        else:
            builder.task(
                source.randrange(5),
                "work",
                f"s{number}",
                seconds=source.choice((0.0, 0.1, 1.0, 2.5, 9.0)),
                after=after,
            )
    return builder.build()


def a_task_takes_its_time(case: TaskPlannerCase) -> None:
    """Each vertex has a start, not before 0, and an end that is its seconds later; joins too."""
    for told, tasks, plan in _plans(case):
        sizes = {len(plan.start_s), len(plan.end_s), len(tasks)}
        expect(sizes == {len(tasks)}, f"{told}: not a start and an end for each vertex")
        for vertex, seconds in enumerate(tasks.seconds):
            start, end = plan.start_s[vertex], plan.end_s[vertex]
            fits = start >= 0 and math.isclose(end - start, seconds, abs_tol=TOLERANCE_S)
            expect(fits, f"{told}: vertex {vertex} of {seconds:g} s is from {start:g} to {end:g}")


def nothing_starts_before_what_it_waits_for(case: TaskPlannerCase) -> None:
    """A vertex starts when all that it waits for is over, or later."""
    for told, tasks, plan in _plans(case):
        for vertex in range(len(tasks)):
            early = [w for w in tasks.waits(vertex) if plan.end_s[w] > plan.start_s[vertex]]
            expect(not early, f"{told}: vertex {vertex} starts before the end of {early}")


def a_node_does_one_task_at_a_time(case: TaskPlannerCase) -> None:
    """No two tasks of a node overlap."""
    for told, tasks, plan in _plans(case):
        for number, node in enumerate(tasks.nodes):
            mine = [t for t in tasks.tasks() if tasks.node[t] == number]
            most = _most_at_once(plan, mine)
            expect(most <= 1, f"{told}: {node} does {most} tasks at once")


def workers_do_one_task_at_a_time(case: TaskPlannerCase) -> None:
    """There are never more tasks at once than workers."""
    for seed in SEEDS:
        tasks = random_tasks(seed)
        for workers in filter(None, WORKERS):
            most = _most_at_once(case.make().schedule(tasks, workers), tasks.tasks())
            expect(most <= workers, f"seed {seed}: {most} tasks at once by {workers} workers")


def every_task_is_in_one_stage(case: TaskPlannerCase) -> None:
    """The stages hold every task once and no join, and no stage is empty."""
    for told, tasks, plan in _plans(case):
        held = sorted(task for stage in plan.stages for task in stage)
        expect(held == tasks.tasks(), f"{told}: the stages hold other tasks")
        expect(all(plan.stages), f"{told}: a stage is empty")


def stages_keep_waits_and_nodes_apart(case: TaskPlannerCase) -> None:
    """A stage has one task of a node, and none that waits for another of it or of a later one."""
    for told, tasks, plan in _plans(case):
        after = [0] * len(tasks)
        number = {task: n for n, stage in enumerate(plan.stages, 1) for task in stage}
        for vertex in range(len(tasks)):
            earliest = max((after[wait] for wait in tasks.waits(vertex)), default=0)
            after[vertex] = number.get(vertex, earliest)
            if tasks.node[vertex] != NONE:
                expect(after[vertex] > earliest, f"{told}: task {vertex} is in too early a stage")
        for stage in plan.stages:
            nodes = [tasks.node[task] for task in stage]
            expect(len(nodes) == len(set(nodes)), f"{told}: a stage has two tasks of a node")


def critical_path_is_a_longest_chain(case: TaskPlannerCase) -> None:
    """The critical path has tasks that wait for each other, and no chain takes longer."""
    for told, tasks, plan in _plans(case):
        longest = max(chain_seconds(tasks))
        length = math.fsum(tasks.seconds[task] for task in plan.critical_path)
        expect(math.isclose(length, longest, abs_tol=TOLERANCE_S), f"{told}: {length} s long")
        for before, after in itertools.pairwise(plan.critical_path):
            expect(_leads(tasks, before, after), f"{told}: {after} does not wait for {before}")


def the_same_tasks_get_the_same_schedule(case: TaskPlannerCase) -> None:
    """Two planners give the same tasks the same schedule."""
    for (told, _, plan), (_, _, again) in zip(_plans(case), _plans(case), strict=True):
        expect(_lists(plan) == _lists(again), f"{told}: two calls differ")


def no_tasks_need_no_time(case: TaskPlannerCase) -> None:
    """Without tasks there are no stages and no critical path."""
    plan = case.make().schedule(TaskGraphBuilder([]).build(), None)
    expect(not plan.stages and not plan.critical_path, f"no tasks gave {plan}")
    expect(plan.makespan_s == 0, f"no tasks take {plan.makespan_s:g} s")


_KIT = Kit(
    always=[
        satisfies(Kind.PLANNERS),
        a_task_takes_its_time,
        nothing_starts_before_what_it_waits_for,
        a_node_does_one_task_at_a_time,
        workers_do_one_task_at_a_time,
        every_task_is_in_one_stage,
        stages_keep_waits_and_nodes_apart,
        critical_path_is_a_longest_chain,
        the_same_tasks_get_the_same_schedule,
        no_tasks_need_no_time,
    ],
)
task_planner_checks, check_task_planner = _KIT.checks, _KIT.check


def _plans(case: TaskPlannerCase) -> Iterator[tuple[str, TaskGraph, Schedule]]:
    for seed in SEEDS:
        tasks = random_tasks(seed)
        for workers in WORKERS:
            yield f"seed {seed}, {workers} workers", tasks, case.make().schedule(tasks, workers)


def _most_at_once(plan: Schedule, tasks: list[int]) -> int:
    """Return how many of some tasks overlap at most; those without length overlap nothing."""
    longer = [task for task in tasks if plan.end_s[task] > plan.start_s[task]]
    moments = [(plan.start_s[task], 1) for task in longer]
    moments += [(plan.end_s[task], -1) for task in longer]
    return max(itertools.accumulate(change for _, change in sorted(moments)), default=0)


def _leads(tasks: TaskGraph, before: int, after: int) -> bool:
    """Say whether one task waits for another, directly or through joins."""
    waits = list(tasks.waits(after))
    for wait in waits:  # grows while it is gone through
        if tasks.node[wait] == NONE:
            waits += tasks.waits(wait)
    return before in waits


def _lists(plan: Schedule) -> tuple[object, ...]:
    return (list(plan.start_s), list(plan.end_s), plan.stages, plan.critical_path)
