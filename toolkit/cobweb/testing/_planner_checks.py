"""Conformance checks for planners, on graphs and predicted steps that the kit makes from seeds."""

from __future__ import annotations

import itertools
import math
import random  # noqa: TID251  # each case is made from its own seed
from collections.abc import Callable
from dataclasses import dataclass

from cobweb.model import Cob, CobId, CobType, Graph, Nothing, Transition, TransitionNeed, cob_id
from cobweb.plugin import Kind, PlannedStep, Planner, Stages
from cobweb.testing._checks import Kit, expect, satisfies

SEEDS = range(20)
TYPE = CobType(
    name="mark",
    states=("down", "up"),
    preferred="up",
    remove="down",
    check=Nothing(),
    transitions=(
        Transition(source="down", dest="up", action=Nothing()),
        Transition(source="up", dest="down", action=Nothing()),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerCase:
    """What the kit needs to try a planner: how to make one."""

    make: Callable[[], Planner]


def random_steps(seed: int, count: int = 30) -> tuple[Graph, tuple[PlannedStep, ...]]:
    """Return a graph without circles and the steps of its start, as a run would predict them."""
    source = random.Random(seed)  # noqa: S311  # no secret
    cobs = [cob_id(f"h{n % 5}", f"c{n:02}") for n in range(count)]
    steps: list[PlannedStep] = []
    needs: list[TransitionNeed] = []
    for number, cob in enumerate(cobs):
        waits = source.sample(steps, k=min(number, source.randint(0, 3)))
        start_s = max((step.end_s for step in waits), default=0.0)
        steps.append(
            PlannedStep(
                cob=cob,
                source="down",
                dest="up",
                start_s=start_s,
                end_s=start_s + source.randint(1, 9),
                waits_for=tuple(s.cob for s in sorted(waits, key=lambda s: (-s.end_s, s.cob))),
            )
        )
        needs += [_need(cob, wait.cob) for wait in waits]
    return _graph(cobs, needs), tuple(sorted(steps, key=lambda step: (step.start_s, step.cob)))


def every_step_is_in_one_stage(case: PlannerCase) -> None:
    """The stages hold every predicted step once, and no stage is empty."""
    for seed in SEEDS:
        steps, stages = _plan(case, seed)
        held = [step for stage in stages.stages for step in stage]
        expect(sorted(held, key=_key) == sorted(steps, key=_key), f"seed {seed}: steps differ")
        expect(all(stages.stages), f"seed {seed}: a stage is empty")


def waits_are_in_earlier_stages(case: PlannerCase) -> None:
    """A step's stage comes after the stages of all that it waits for."""
    for seed in SEEDS:
        steps, stages = _plan(case, seed)
        number = {step.cob: n for n, stage in enumerate(stages.stages) for step in stage}
        for stage in stages.stages:
            for step in stage:
                late = [
                    wait
                    for wait in step.waits_for
                    if number.get(wait, len(steps)) >= number[step.cob]
                ]
                expect(not late, f"seed {seed}: {step.cob} is not after {', '.join(late)}")


def critical_path_is_a_chain_to_the_end(case: PlannerCase) -> None:
    """The critical path goes along `waits_for`, from a step that waits for none to the last end."""
    for seed in SEEDS:
        steps, stages = _plan(case, seed)
        path = stages.critical_path
        expect(path, f"seed {seed}: the critical path is empty")
        expect(not path[0].waits_for, f"seed {seed}: it begins with a step that waits")
        for before, after in itertools.pairwise(path):
            expect(
                before.cob in after.waits_for, f"seed {seed}: {after.cob} waits not for its like"
            )
        expect(path[-1].end_s == max(s.end_s for s in steps), f"seed {seed}: it ends too early")


def nothing_to_do_has_no_stages(case: PlannerCase) -> None:
    """Without steps there are no stages and no critical path."""
    stages = case.make().stages(_graph([], []), ())
    expect(not stages.stages and not stages.critical_path, f"no steps gave {stages}")


def every_object_has_a_priority(case: PlannerCase) -> None:
    """priorities() gives every object of the graph a finite number, the same each time."""
    for seed in SEEDS:
        graph, _ = random_steps(seed)
        weights = case.make().priorities(graph)
        expect(set(weights) == set(graph.cobs), f"seed {seed}: objects without a priority")
        expect(all(map(math.isfinite, weights.values())), f"seed {seed}: a weight is not finite")
        expect(weights == case.make().priorities(graph), f"seed {seed}: two calls differ")


def circles_are_tolerated(case: PlannerCase) -> None:
    """Needs that form a circle, also of one object with itself, end in priorities all the same."""
    cobs = [cob_id("h", name) for name in ("a", "b", "c")]
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")]
    needs = [_need(cob_id("h", cob), cob_id("h", on)) for cob, on in pairs]
    weights = case.make().priorities(_graph(cobs, needs))
    expect(set(weights) == set(cobs), f"a circle gave {dict(weights)}")


_KIT = Kit(
    always=[
        satisfies(Kind.PLANNERS),
        every_step_is_in_one_stage,
        waits_are_in_earlier_stages,
        critical_path_is_a_chain_to_the_end,
        nothing_to_do_has_no_stages,
        every_object_has_a_priority,
        circles_are_tolerated,
    ],
)
planner_checks, check_planner = _KIT.checks, _KIT.check


def _plan(case: PlannerCase, seed: int) -> tuple[tuple[PlannedStep, ...], Stages]:
    graph, steps = random_steps(seed)
    return steps, case.make().stages(graph, steps)


def _graph(cobs: list[CobId], needs: list[TransitionNeed]) -> Graph:
    ordered = tuple(sorted(needs, key=str))
    return Graph(cobs={cob: Cob(id=cob, type=TYPE) for cob in sorted(cobs)}, needs=ordered)


def _need(cob: CobId, on: CobId) -> TransitionNeed:
    return TransitionNeed(cob=cob, source="down", dest="up", on=on, state="up")


def _key(step: PlannedStep) -> tuple[CobId, float]:
    return (step.cob, step.start_s)
