"""Predict a run: the real engines on the states that are known, with a clock that only counts.

No host is asked. An object without a known state is taken to be in the state that its check will
most likely find; every transition takes one unit of time unless a duration is known. Nothing fails
but work of which it is known that it cannot be done any more.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from cobweb.engine import (
    CheckEnded,
    Effect,
    Input,
    LimitPaused,
    LimitResumed,
    LockGranted,
    LockReleased,
    LockRequested,
    StartCheck,
    StartTransition,
    StateDoubted,
    StateFound,
    TransitionEnded,
    WaitKind,
)
from cobweb.model import UNKNOWN, CobId, Graph, Missing, State
from cobweb.plugin import PlannedStep
from cobweb.runtime._acts import Act, Opening, SoFar
from cobweb.runtime._machines import Machines, Verdict
from cobweb.runtime._result import Wait

__all__ = ["Prediction", "at_rest", "predict"]

Duration = Callable[[CobId, State, State], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a run would do: `steps` by start time, `waits` where it would not get through.

    `down_s` is how long each object that is in its preferred state now would be out of it,
    `switches` are the groups of hosts that would switch together, in order.
    """

    steps: tuple[PlannedStep, ...]
    waits: tuple[Wait, ...]
    down_s: Mapping[CobId, float]
    seconds: float
    switches: tuple[tuple[str, ...], ...] = ()


@dataclass(slots=True, kw_only=True)
class _Clock:
    """The running of a prediction: what ends when, and who was let through by whom.

    `ends` are the ends by time, in the order in which they were begun, `times` a heap of the times.
    `down` is how long each watched object was out of its preferred state, `left` since when those
    are that are out of it now. `failed` says of objects why their work cannot be done.
    """

    act: Act
    duration: Duration
    now: float = 0.0
    cause: CobId | None = None
    times: list[float] = field(default_factory=list)
    ends: dict[float, list[Input]] = field(default_factory=dict)
    steps: list[PlannedStep] = field(default_factory=list)
    enabled: dict[CobId, dict[CobId, float]] = field(default_factory=dict)
    left: dict[CobId, float] = field(default_factory=dict)
    down: dict[CobId, float] = field(default_factory=dict)
    last_end: dict[CobId, float] = field(default_factory=dict)
    machines: Machines = field(init=False)
    failed: dict[CobId, str] = field(default_factory=dict)

    def push(self, end: Input, after_s: float) -> None:
        """Have something end after a time; what ends at the same time keeps its order."""
        time = self.now + after_s
        if time in self.ends:
            self.ends[time].append(end)
        else:
            self.ends[time] = [end]
            heapq.heappush(self.times, time)


def at_rest(graph: Graph, known: Mapping[CobId, State]) -> Prediction | None:
    """Return what `predict` says where all is known to be as preferred; None where it is not.

    No object requests anything then, so no engine is needed to find out that nothing happens.
    """
    if any(known.get(cob) != it.preferred for cob, it in graph.cobs.items()):
        return None
    return Prediction(steps=(), waits=(), down_s=dict.fromkeys(graph.cobs, 0.0), seconds=0.0)


def predict(
    acts: Iterable[Opening],
    duration: Duration = lambda _cob, _source, _dest: 1.0,
) -> Prediction:
    """Return what the acts of a run would do if nothing failed that can be done.

    Where a chain of waits ends at work that cannot, its last link says why in `detail`.
    """
    clock: _Clock | None = None
    waits: list[Wait] = []
    switches: list[tuple[str, ...]] = []
    for opening in acts:
        act = opening(SoFar() if clock is None else _left(clock, waits))
        if act is None:
            continue
        if clock is None:
            clock = _Clock(act=act, duration=duration)
        clock.act = act
        if act.supersedes:
            waits.clear()
        told = (data for kind, data in act.told if kind == "generation.switch")
        switches += [tuple(data["hosts"]) for data in told]
        _play(clock)
        waits += act.judge(act.engine)
    if clock is None:
        return Prediction(steps=(), waits=(), down_s={}, seconds=0.0)
    for cob, since in clock.left.items():
        clock.down[cob] = clock.down.get(cob, 0.0) + clock.now - since
    return Prediction(
        steps=tuple(clock.steps),
        waits=tuple(_explained(wait, clock.failed) for wait in waits),
        down_s=dict(clock.down),
        seconds=clock.now,
        switches=tuple(switches),
    )


def _explained(wait: Wait, failed: Mapping[CobId, str]) -> Wait:
    """Return why an object waits, with why the work at the end of the chain cannot be done."""
    chain = tuple(
        replace(link, detail=failed[link.cob]) if link.kind is WaitKind.FAILED else link
        for link in wait.chain
    )
    return replace(wait, chain=chain)


def _left(clock: _Clock, waits: Sequence[Wait]) -> SoFar:
    """Return what the acts so far leave."""
    act = clock.act
    return SoFar(
        states=act.engine.states(),
        contents=act.contents,
        locks=act.engine.locks(),
        canaries=act.engine.canaries(),
        failed=frozenset(clock.failed),
        waits=tuple(waits),
    )


def _play(clock: _Clock) -> None:
    """Go through one act."""
    act, engine, begin = clock.act, clock.act.engine, len(clock.steps)
    last = clock.cause
    clock.cause = None
    _note_down(clock)
    clock.machines = Machines(act.graph, engine)
    _carry(clock, engine.start(act.known, act.held))
    while clock.times:
        clock.now = clock.times[0]
        for end in clock.ends[clock.now]:  # grows while it is gone through
            if isinstance(end, TransitionEnded):
                clock.last_end[end.cob] = clock.now
                clock.cause = end.cob
            elif isinstance(end, CheckEnded) and end.cob in clock.last_end:
                clock.cause = end.cob  # a canary, for which others have waited
            clock.machines.ended(end)
            if effects := engine.step(end):
                _carry(clock, effects)
            while clock.machines and (doubt := clock.machines.next()):
                _carry(clock, engine.step(StateDoubted(cob=doubt[1])))
        del clock.ends[heapq.heappop(clock.times)]
    if last is not None:
        _after(clock, begin, last)


def _after(clock: _Clock, begin: int, last: CobId) -> None:
    """Note that what an act begins with waits for what ended the act before."""
    for number, step in enumerate(clock.steps[begin:], begin):
        if not step.waits_for:
            clock.steps[number] = replace(step, waits_for=(last,))


def _note_down(clock: _Clock) -> None:
    """Objects that are up now are watched for the time that they are not."""
    act = clock.act
    for cob, state in chain(act.found.items(), act.known.items()):
        if cob not in clock.left and state == act.graph.cobs[cob].preferred:
            clock.down.setdefault(cob, 0.0)


def _carry(clock: _Clock, effects: Iterable[Effect]) -> None:
    """Take effects in; the kinds of which there are most come first."""
    for effect in effects:
        if isinstance(effect, LockRequested):
            continue
        if isinstance(effect, LockGranted):
            _enable(clock, effect.holder, effect.cob)
        elif isinstance(effect, LockReleased):
            # What gave its lock back made way: the locked object waited for it.
            _enable(clock, effect.cob, effect.holder)
        elif isinstance(effect, StateFound):
            if effect.cob in clock.left:
                _watch(clock, effect)
        elif isinstance(effect, StartTransition):
            _start(clock, effect)
        elif isinstance(effect, StartCheck):
            clock.machines.began(effect.cob)
            clock.push(CheckEnded(cob=effect.cob, state=_found(clock, effect.cob)), 0.0)
        elif isinstance(effect, LimitPaused):
            clock.push(LimitResumed(limit=effect.limit), effect.pause_s)


def _found(clock: _Clock, cob: CobId) -> State | None:
    """Return what a check of an object will find, None where it cannot be made."""
    act = clock.act
    check = act.graph.cobs[cob].type.check
    if isinstance(check, Missing):
        clock.failed[cob] = check.message
        return None
    if clock.machines.machine_of(cob) and clock.machines.verdict(cob) is Verdict.AWAY:
        return act.graph.cobs[cob].type.remove
    state = act.engine.state(cob)
    return act.found[cob] if state == UNKNOWN else state


def _enable(clock: _Clock, cob: CobId, by: CobId) -> None:
    """Note who let an object through, if that had ended something itself."""
    end = clock.last_end.get(by)
    if end is None:
        return
    if cob in clock.enabled:
        clock.enabled[cob][by] = end
    else:
        clock.enabled[cob] = {by: end}


def _start(clock: _Clock, effect: StartTransition) -> None:
    cob, step = effect.cob, effect.transition
    clock.machines.began(cob)
    length = clock.duration(cob, step.source, step.dest)
    if cob in clock.down and step.source == clock.act.graph.cobs[cob].preferred:
        clock.left.setdefault(cob, clock.now)
    clock.steps.append(
        PlannedStep(
            cob=cob,
            source=step.source,
            dest=step.dest,
            start_s=clock.now,
            end_s=clock.now + length,
            waits_for=_waited_for(clock, effect),
        )
    )
    ok = not isinstance(step.action, Missing)
    if isinstance(step.action, Missing):
        clock.failed[cob] = step.action.message
    clock.push(TransitionEnded(cob=cob, ok=ok), length)


def _waited_for(clock: _Clock, effect: StartTransition) -> tuple[CobId, ...]:
    """Return whose ends let a transition begin, the last one first."""
    enabled = clock.enabled.pop(effect.cob, {})
    if clock.cause is not None and clock.cause != effect.cob:
        # Whose end set this off: it gave a lock, gave one back, or made room in a limit.
        enabled[clock.cause] = clock.now
    if len(enabled) > 1 or 0.0 in enabled.values():
        locked = {on for on, _ in effect.locks}
        waited = sorted([(-end, on) for on, end in enabled.items() if on in locked or end > 0.0])
        return tuple([on for _, on in waited])
    return tuple(enabled)


def _watch(clock: _Clock, effect: StateFound) -> None:
    """See whether an object that left its preferred state is back in it."""
    cob = effect.cob
    if effect.state == clock.act.graph.cobs[cob].preferred:
        clock.down[cob] = clock.down.get(cob, 0.0) + clock.now - clock.left.pop(cob)
