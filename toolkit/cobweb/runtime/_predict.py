"""Predict a run: the real engine on the states that are known, with a clock that only counts.

No host is asked. An object without a known state is taken to be in the state that its check will
most likely find; every transition takes one unit of time unless a duration is known.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cobweb.engine import (
    CheckEnded,
    Effect,
    Engine,
    LockGranted,
    LockReleased,
    StartCheck,
    StartTransition,
    StateFound,
    TransitionEnded,
)
from cobweb.model import UNKNOWN, CobId, Graph, State
from cobweb.plugin import PlannedStep
from cobweb.runtime._result import Wait, ending_of

__all__ = ["Prediction", "predict"]

Duration = Callable[[CobId, State, State], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a run would do: `steps` by start time, `waits` where it would not get through.

    `down_s` is how long each object that is in its preferred state now would be out of it.
    """

    steps: tuple[PlannedStep, ...]
    waits: tuple[Wait, ...]
    down_s: Mapping[CobId, float]
    seconds: float


@dataclass(slots=True)
class _Clock:
    """The running of a prediction: what ends when, and who was let through by whom."""

    engine: Engine
    found: Mapping[CobId, State]
    duration: Duration
    now: float = 0.0
    cause: CobId | None = None
    number: int = 0
    ends: list[tuple[float, int, CobId, str]] = field(default_factory=list)
    steps: list[PlannedStep] = field(default_factory=list)
    enabled: dict[CobId, dict[CobId, float]] = field(default_factory=dict)
    left: dict[CobId, float] = field(default_factory=dict)
    down: dict[CobId, float] = field(default_factory=dict)
    last_end: dict[CobId, float] = field(default_factory=dict)

    def push(self, cob: CobId, kind: str, after_s: float) -> None:
        self.number += 1
        heapq.heappush(self.ends, (self.now + after_s, self.number, cob, kind))


def predict(
    graph: Graph,
    engine: Engine,
    known: Mapping[CobId, State],
    found: Mapping[CobId, State],
    duration: Duration = lambda _cob, _source, _dest: 1.0,
) -> Prediction:
    """Return what `engine` (new, unused) would do from the `known` states.

    `found` is what a check is taken to find where the state is not known.
    """
    clock = _Clock(engine=engine, found=found, duration=duration)
    _note_down(graph, clock, {**found, **known})
    _carry(graph, clock, engine.start(known))
    while clock.ends:
        clock.now, _, cob, kind = heapq.heappop(clock.ends)
        if kind == "check":
            _carry(graph, clock, engine.step(CheckEnded(cob=cob, state=found[cob])))
        else:
            clock.last_end[cob] = clock.now
            clock.cause = cob
            _carry(graph, clock, engine.step(TransitionEnded(cob=cob, ok=True)))
    for cob, since in clock.left.items():
        clock.down[cob] = clock.down.get(cob, 0.0) + clock.now - since
    _, waits = ending_of(engine, interrupted=False)
    return Prediction(
        steps=tuple(clock.steps), waits=waits, down_s=dict(clock.down), seconds=clock.now
    )


def _note_down(graph: Graph, clock: _Clock, states: Mapping[CobId, State]) -> None:
    """Objects that are up now are watched for the time that they are not."""
    for cob, state in states.items():
        if state == graph.cobs[cob].type.preferred:
            clock.down[cob] = 0.0


def _carry(graph: Graph, clock: _Clock, effects: Iterable[Effect]) -> None:
    for effect in effects:
        match effect:
            case StartCheck(cob=cob):
                clock.push(cob, "check", 0.0)
            case StartTransition(cob=cob):
                _start(graph, clock, effect)
            case StateFound(cob=cob, state=state) if state != UNKNOWN:
                _watch(graph, clock, cob, state)
            case LockGranted(cob=cob, holder=holder):
                clock.enabled.setdefault(holder, {})[cob] = clock.last_end.get(cob, -1.0)
            case LockReleased(cob=cob, holder=holder):
                # What gave its lock back made way: the locked object waited for it.
                clock.enabled.setdefault(cob, {})[holder] = clock.last_end.get(holder, -1.0)
            case _:
                pass


def _start(graph: Graph, clock: _Clock, effect: StartTransition) -> None:
    cob, step = effect.cob, effect.transition
    length = clock.duration(cob, step.source, step.dest)
    if step.source == graph.cobs[cob].type.preferred and cob in clock.down:
        clock.left.setdefault(cob, clock.now)
    enabled = clock.enabled.pop(cob, {})
    if clock.cause is not None and clock.cause != cob:
        # Whose end set this off: it gave a lock, gave one back, or made room in a limit.
        enabled[clock.cause] = clock.now
    locked = {on for on, _ in effect.locks}
    waited = sorted(
        (-end, on) for on, end in enabled.items() if end >= 0.0 and (on in locked or end > 0.0)
    )
    clock.steps.append(
        PlannedStep(
            cob=cob,
            source=step.source,
            dest=step.dest,
            start_s=clock.now,
            end_s=clock.now + length,
            waits_for=tuple(on for _, on in waited),
        )
    )
    clock.push(cob, "transition", length)


def _watch(graph: Graph, clock: _Clock, cob: CobId, state: State) -> None:
    if state == graph.cobs[cob].type.preferred and cob in clock.left:
        clock.down[cob] = clock.down.get(cob, 0.0) + clock.now - clock.left.pop(cob)
