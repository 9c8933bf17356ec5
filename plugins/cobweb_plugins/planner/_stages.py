"""The planner `stages`: predicted steps grouped by what they wait for, and list scheduling.

A step is in the first stage after all steps that it waits for: those of `waits_for`, and the one
before it of the same object. The critical path is followed backwards from the step that ends last,
each time to the one that it waited for longest. Priorities are bottom levels, the weights of
critical-path list scheduling (T. C. Hu, 1961): the longest chain of objects that wait for this one.
All is linear in steps and needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from cobweb.model import ANY, CobId, Graph, TransitionNeed
from cobweb.plugin import PlannedStep, Stages

ROUNDING_S = 1e-9
"""Ends and starts that differ by less are the same moment."""


class StagesPlanner:
    """The default `Planner`."""

    name: ClassVar[str] = "stages"

    def stages(self, graph: Graph, steps: Sequence[PlannedStep]) -> Stages:
        """Group steps into stages, sorted by id within one, and find the critical path."""
        del graph
        ordered = sorted(steps, key=lambda step: step.start_s)
        before = _waits(ordered)
        numbers: list[int] = []
        for waits in before:
            numbers.append(1 + max((numbers[wait] for wait in waits), default=-1))
        stages: list[list[PlannedStep]] = [[] for _ in range(max(numbers, default=-1) + 1)]
        for step, number in zip(ordered, numbers, strict=True):
            stages[number].append(step)
        return Stages(
            stages=tuple(tuple(sorted(stage, key=_by_start)) for stage in stages),
            critical_path=_critical_path(ordered, before),
        )

    def priorities(self, graph: Graph) -> Mapping[CobId, float]:
        """Return for each object the number of objects in the longest chain that it begins.

        A chain follows needs of a transition into a preferred state on an object's preferred state,
        the ones that order a start from nothing. Where such needs form a circle, the need that
        closes it is left out.
        """
        dependents: dict[CobId, list[CobId]] = {cob: [] for cob in sorted(graph.cobs)}
        for need in graph.needs:
            if isinstance(need, TransitionNeed) and _orders_start(graph, need):
                dependents[need.on].append(need.cob)
        weights: dict[CobId, float] = {}
        for cob in dependents:
            _weigh(cob, dependents, weights)
        return weights


def _by_start(step: PlannedStep) -> tuple[float, CobId]:
    return (step.start_s, step.cob)


def _waits(ordered: Sequence[PlannedStep]) -> list[tuple[int, ...]]:
    """Return for each step the indices of the steps it waited for, all before it."""
    past: dict[CobId, list[int]] = {}
    waits: list[tuple[int, ...]] = []
    for index, step in enumerate(ordered):
        found = (_last_ended(ordered, past, cob, step) for cob in (*step.waits_for, step.cob))
        waits.append(tuple(wait for wait in found if wait is not None))
        past.setdefault(step.cob, []).append(index)
    return waits


def _last_ended(
    ordered: Sequence[PlannedStep],
    past: Mapping[CobId, Sequence[int]],
    cob: CobId,
    step: PlannedStep,
) -> int | None:
    ended = (
        i for i in reversed(past.get(cob, ())) if ordered[i].end_s <= step.start_s + ROUNDING_S
    )
    return next(ended, None)


def _critical_path(
    ordered: Sequence[PlannedStep], before: Sequence[tuple[int, ...]]
) -> tuple[PlannedStep, ...]:
    if not ordered:
        return ()
    indices = [max(range(len(ordered)), key=lambda i: ordered[i].end_s)]
    while waits := before[indices[-1]]:
        indices.append(max(waits, key=lambda i: ordered[i].end_s))
    return tuple(ordered[index] for index in reversed(indices))


def _orders_start(graph: Graph, need: TransitionNeed) -> bool:
    into_preferred = need.dest in (ANY, graph.cobs[need.cob].type.preferred)
    return into_preferred and need.state == graph.cobs[need.on].type.preferred


def _weigh(
    root: CobId, dependents: Mapping[CobId, Sequence[CobId]], weights: dict[CobId, float]
) -> None:
    """Give `root` and all that it reaches a weight, depth first and without recursion."""
    if root in weights:
        return
    way: list[tuple[CobId, Iterator[CobId]]] = [(root, iter(dependents[root]))]
    on_way = {root}
    while way:
        cob, rest = way[-1]
        ahead = next((d for d in rest if d not in weights and d not in on_way), None)
        if ahead is not None:
            way.append((ahead, iter(dependents[ahead])))
            on_way.add(ahead)
            continue
        weights[cob] = 1.0 + max((weights.get(d, 0.0) for d in dependents[cob]), default=0.0)
        on_way.discard(cob)
        way.pop()
