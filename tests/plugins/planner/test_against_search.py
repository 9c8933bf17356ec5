"""The planner agrees with a dumb second implementation that tries every chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import Cob, CobId, CobType, Graph, Nothing, Transition, TransitionNeed
from cobweb.plugin import PlannedStep
from cobweb_plugins.planner import EventPlanner

TYPE = CobType(
    name="mark",
    states=("down", "up"),
    preferred="up",
    remove="down",
    check=Nothing(),
    transitions=(Transition(source="down", dest="up", action=Nothing()),),
)
NAMES = [CobId(f"h/{letter}") for letter in "abcdefgh"]
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=20)


def _graph(pairs: Sequence[tuple[CobId, CobId]]) -> Graph:
    needs = tuple(
        TransitionNeed(cob=cob, source="down", dest="up", on=on, state="up") for cob, on in pairs
    )
    return Graph(cobs={name: Cob(id=name, type=TYPE) for name in NAMES}, needs=needs)


def _longest(cob: CobId, dependents: Mapping[CobId, set[CobId]]) -> int:
    return 1 + max((_longest(other, dependents) for other in dependents[cob]), default=0)


@given(PAIRS)
def test_without_circles_a_priority_is_the_longest_chain(
    pairs: list[tuple[CobId, CobId]],
) -> None:
    forward = [(max(a, b), min(a, b)) for a, b in pairs if a != b]
    dependents = {name: {cob for cob, on in forward if on == name} for name in NAMES}
    wanted = {name: float(_longest(name, dependents)) for name in NAMES}
    assert EventPlanner().priorities(_graph(forward)) == wanted


@given(PAIRS)
def test_with_circles_every_priority_is_within_bounds(pairs: list[tuple[CobId, CobId]]) -> None:
    weights = EventPlanner().priorities(_graph(pairs))
    assert set(weights) == set(NAMES)
    assert all(1 <= weight <= len(NAMES) for weight in weights.values())


@st.composite
def runs(draw: st.DrawFn) -> list[PlannedStep]:
    """Draw the steps of a run: each object may move several times, one move after the other."""
    steps: list[PlannedStep] = []
    for _ in range(draw(st.integers(0, 12))):
        cob = draw(st.sampled_from(NAMES[:4]))
        waits = draw(st.lists(st.sampled_from(steps), max_size=3)) if steps else []
        own = [step for step in steps if step.cob == cob]
        start_s = max([step.end_s for step in (*waits, *own)], default=0.0)
        order = sorted(waits, key=lambda step: -step.end_s)
        steps.append(
            PlannedStep(
                cob=cob,
                source="down",
                dest="up",
                start_s=start_s,
                end_s=start_s + draw(st.integers(1, 5)),
                waits_for=tuple(dict.fromkeys(step.cob for step in order)),
            )
        )
    return steps


def _before(step: PlannedStep, steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Return for each object that a step waits for, itself included, its last step before it."""
    found = []
    for cob in {*step.waits_for, step.cob}:
        past = [s for s in steps if s.cob == cob and s.end_s <= step.start_s]
        found += [max(past, key=lambda s: s.end_s)] if past else []
    return found


def _stage(step: PlannedStep, steps: Sequence[PlannedStep]) -> int:
    return 1 + max((_stage(wait, steps) for wait in _before(step, steps)), default=-1)


@given(runs())
def test_a_stage_is_the_longest_chain_of_waits(steps: list[PlannedStep]) -> None:
    result = EventPlanner().stages(_graph([]), steps)
    for number, stage in enumerate(result.stages):
        assert [_stage(step, steps) for step in stage] == [number] * len(stage)
    assert sum(map(len, result.stages)) == len(steps)


@given(runs())
def test_the_critical_path_goes_back_along_the_latest_ends(steps: list[PlannedStep]) -> None:
    path = EventPlanner().stages(_graph([]), steps).critical_path
    assert bool(path) == bool(steps)
    for after, before in zip(reversed(path), list(reversed(path))[1:], strict=False):
        latest = max(step.end_s for step in _before(after, steps))
        assert before in _before(after, steps)
        assert before.end_s == latest
    if path:
        assert path[-1].end_s == max(step.end_s for step in steps)
        assert not _before(path[0], steps)
