"""Predicted steps grouped by what they wait for, the critical path through them, and priorities.

A step is in the first stage after all steps that it waits for: those of `waits_for`, and the one
before it of the same object. The critical path is followed backwards from the step that ends last,
each time to the one that it waited for longest. Priorities are bottom levels, the weights of
critical-path list scheduling (T. C. Hu, 1961): the longest chain of objects that wait for this one.
All is linear in steps and needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from cobweb.model import ANY, CobId, Graph, TransitionNeed
from cobweb.plugin import PlannedStep, Stages

_BY_START = attrgetter("start_s", "cob")

ROUNDING_S = 1e-9
"""Ends and starts that differ by less are the same moment."""


def step_stages(steps: Sequence[PlannedStep]) -> Stages:
    """Group steps into stages, sorted by start and id within one, and find the critical path."""
    ordered = sorted(steps, key=attrgetter("start_s"))
    stages: list[list[PlannedStep]] = []
    numbers: list[int] = []
    latest: list[int | None] = []
    for step, before in zip(ordered, _waits(ordered), strict=True):
        number = 1 + max([numbers[wait] for wait in before], default=-1)
        numbers.append(number)
        latest.append(_latest(ordered, before))
        if number == len(stages):
            stages.append([])
        stages[number].append(step)
    return Stages(
        stages=tuple(tuple(sorted(stage, key=_BY_START)) for stage in stages),
        critical_path=_critical_path(ordered, latest),
    )


def start_priorities(graph: Graph) -> Mapping[CobId, float]:
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


def _waits(ordered: Sequence[PlannedStep]) -> Iterator[list[int]]:
    """Yield for each step the indices of the steps it waited for, all before it."""
    ends = [step.end_s for step in ordered]
    past: dict[CobId, list[int]] = {}
    for index, step in enumerate(ordered):
        start_s = step.start_s + ROUNDING_S
        waits = []
        for cob in (*step.waits_for, step.cob):
            for before in reversed(past.get(cob, ())):
                if ends[before] <= start_s:
                    waits.append(before)
                    break
        yield waits
        past.setdefault(step.cob, []).append(index)


def _latest(ordered: Sequence[PlannedStep], before: Sequence[int]) -> int | None:
    if len(before) > 1:
        return max(before, key=lambda i: ordered[i].end_s)
    return before[0] if before else None


def _critical_path(
    ordered: Sequence[PlannedStep], latest: Sequence[int | None]
) -> tuple[PlannedStep, ...]:
    """Return the way back from the step that ends last; `latest` is what each waited for."""
    at = max(range(len(ordered)), key=lambda i: ordered[i].end_s, default=None)
    path: list[PlannedStep] = []
    while at is not None:
        path.append(ordered[at])
        at = latest[at]
    return tuple(reversed(path))


def _orders_start(graph: Graph, need: TransitionNeed) -> bool:
    into_preferred = need.dest in (ANY, graph.cobs[need.cob].type.preferred)
    needed = graph.cobs[need.on].type
    return into_preferred and needed.preferred in needed.members(need.state)


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
