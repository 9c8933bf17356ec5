"""The conformance kit for planners: each broken promise is caught by the check named for it."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from cobweb.model import (
    CobId,
    Graph,
)
from cobweb.plugin import PlannedStep, Stages
from cobweb.testing import (
    NamedCheck,
    PlannerCase,
    check_planner,
    planner_checks,
)

Failing = Callable[[Iterable[NamedCheck]], set[str]]


class OneByOne:
    """A planner that puts every step into a stage of its own, in the order of their starts."""

    name: ClassVar[str] = "one-by-one"

    def stages(self, graph: Graph, steps: Sequence[PlannedStep]) -> Stages:
        del graph
        ordered = sorted(steps, key=lambda step: step.start_s)
        return Stages(stages=tuple((step,) for step in ordered), critical_path=self.path(ordered))

    def path(self, ordered: Sequence[PlannedStep]) -> tuple[PlannedStep, ...]:
        if not ordered:
            return ()
        by_cob = {step.cob: step for step in ordered}
        path = [max(ordered, key=lambda step: step.end_s)]
        while path[-1].waits_for:
            path.append(by_cob[path[-1].waits_for[0]])
        return tuple(reversed(path))

    def priorities(self, graph: Graph) -> Mapping[CobId, float]:
        return dict.fromkeys(graph.cobs, 1.0)


class DropsSteps(OneByOne):
    def stages(self, graph: Graph, steps: Sequence[PlannedStep]) -> Stages:
        planned = super().stages(graph, steps)
        return replace(planned, stages=planned.stages[1:])


class OneStage(OneByOne):
    def stages(self, graph: Graph, steps: Sequence[PlannedStep]) -> Stages:
        return replace(super().stages(graph, steps), stages=(tuple(steps),) if steps else ())


class ShortPath(OneByOne):
    def path(self, ordered: Sequence[PlannedStep]) -> tuple[PlannedStep, ...]:
        return super().path(ordered)[-1:]


class EmptyStage(OneByOne):
    def stages(self, graph: Graph, steps: Sequence[PlannedStep]) -> Stages:
        planned = super().stages(graph, steps)
        return replace(planned, stages=((), *planned.stages))


class ForgetsSome(OneByOne):
    def priorities(self, graph: Graph) -> Mapping[CobId, float]:
        return dict.fromkeys(list(graph.cobs)[1:], 1.0)


class NotANumber(OneByOne):
    def priorities(self, graph: Graph) -> Mapping[CobId, float]:
        return dict.fromkeys(graph.cobs, float("nan"))


def test_a_good_planner_passes_all_checks() -> None:
    check_planner(PlannerCase(make=OneByOne))


@pytest.mark.parametrize(
    ("make", "caught"),
    [
        (DropsSteps, "every_step_is_in_one_stage"),
        (EmptyStage, "every_step_is_in_one_stage"),
        (EmptyStage, "nothing_to_do_has_no_stages"),
        (OneStage, "waits_are_in_earlier_stages"),
        (ShortPath, "critical_path_is_a_chain_to_the_end"),
        (ForgetsSome, "every_object_has_a_priority"),
        (ForgetsSome, "circles_are_tolerated"),
        (NotANumber, "every_object_has_a_priority"),
    ],
)
def test_a_planner_that_breaks_a_promise_is_caught(
    make: type[OneByOne], caught: str, failing: Failing
) -> None:
    assert caught in failing(planner_checks(PlannerCase(make=make)))


class Breaks(OneByOne):
    def priorities(self, graph: Graph) -> Mapping[CobId, float]:
        raise KeyError(next(iter(graph.cobs)))


def test_a_planner_that_raises_does_not_end_the_other_checks() -> None:
    with pytest.raises(AssertionError) as caught:
        check_planner(PlannerCase(make=Breaks))
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "every_object_has_a_priority",
        "circles_are_tolerated",
    ]
    assert all("raised KeyError" in line for line in lines)
