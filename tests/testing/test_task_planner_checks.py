"""The conformance kit for planners of tasks: each broken promise is caught by its check."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

import pytest

from cobweb.model import NONE, Schedule, TaskGraph, chain_seconds, longest_chain
from cobweb.testing import NamedCheck, TaskPlannerCase, check_task_planner, task_planner_checks

Failing = Callable[[Iterable[NamedCheck]], set[str]]


class OneByOne:
    """A planner that does one task after the other, each a stage."""

    name: ClassVar[str] = "one-by-one"

    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        del workers
        now, starts, ends = 0.0, [], []
        for seconds in tasks.seconds:
            starts.append(now)
            now += seconds
            ends.append(now)
        stages = tuple((task,) for task in tasks.tasks())
        path = longest_chain(tasks, chain_seconds(tasks))
        return Schedule(start_s=starts, end_s=ends, stages=stages, critical_path=path)


class AtOnce(OneByOne):
    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        return replace(plan, start_s=[0.0] * len(tasks), end_s=list(tasks.seconds))


class NoTime(OneByOne):
    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        return replace(plan, end_s=plan.start_s)


class OneStage(OneByOne):
    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        return replace(plan, stages=(tuple(tasks.tasks()),))


class Backwards(OneByOne):
    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        return replace(plan, stages=plan.stages[::-1])


class WithJoins(OneByOne):
    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        joins = tuple((v,) for v in range(len(tasks)) if tasks.node[v] == NONE)
        return replace(plan, stages=plan.stages + joins)


class EmptyStage(OneByOne):
    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        return replace(plan, stages=(*plan.stages, ()))


class ShortPath(OneByOne):
    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        return replace(plan, critical_path=plan.critical_path[1:])


class Jumps(OneByOne):
    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        return replace(plan, critical_path=plan.critical_path[::-1])


class Dawdles(OneByOne):
    calls: ClassVar[list[int]] = []

    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        plan = super().schedule(tasks, workers)
        self.calls.append(1)
        late = float(len(self.calls))
        starts, ends = ([at + late for at in times] for times in (plan.start_s, plan.end_s))
        return replace(plan, start_s=starts, end_s=ends)


class Nameless(OneByOne):
    name = ""


def test_a_good_planner_passes_all_checks() -> None:
    check_task_planner(TaskPlannerCase(make=OneByOne))


@pytest.mark.parametrize(
    ("make", "caught"),
    [
        (Nameless, "satisfies_the_protocol"),
        (NoTime, "a_task_takes_its_time"),
        (AtOnce, "nothing_starts_before_what_it_waits_for"),
        (AtOnce, "a_node_does_one_task_at_a_time"),
        (AtOnce, "workers_do_one_task_at_a_time"),
        (WithJoins, "every_task_is_in_one_stage"),
        (EmptyStage, "every_task_is_in_one_stage"),
        (EmptyStage, "no_tasks_need_no_time"),
        (OneStage, "stages_keep_waits_and_nodes_apart"),
        (Backwards, "stages_keep_waits_and_nodes_apart"),
        (ShortPath, "critical_path_is_a_longest_chain"),
        (Jumps, "critical_path_is_a_longest_chain"),
        (Dawdles, "the_same_tasks_get_the_same_schedule"),
    ],
)
def test_a_planner_that_breaks_a_promise_is_caught(
    make: type[OneByOne], caught: str, failing: Failing
) -> None:
    assert caught in failing(task_planner_checks(TaskPlannerCase(make=make)))
