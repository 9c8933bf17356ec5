"""Predict a run: the real engine on the states that are known, with a clock that only counts.

No host is asked. An object without a known state is taken to be in the state that its check will
most likely find; every transition takes one unit of time unless a duration is known. Nothing fails
but work of which it is known that it cannot be done any more.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter

from cobweb.engine import (
    CanaryWritten,
    CheckEnded,
    Effect,
    Engine,
    HostsSwitched,
    Input,
    LimitPaused,
    LimitResumed,
    LockGranted,
    LockReleased,
    LockRequested,
    SlotReturned,
    SlotTaken,
    StartCheck,
    StartTransition,
    StateDoubted,
    StateFound,
    TransitionEnded,
    WaitKind,
)
from cobweb.kernel._machines import Machines, Verdict
from cobweb.kernel._result import Wait
from cobweb.model import UNKNOWN, CobId, Missing, State
from cobweb.operations.context._context import ExecutionContext
from cobweb.plugin import PlannedStep

Duration = Callable[[CobId, State, State], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """A limit that would hold something back: its bound, and whose turn it is, in order.

    `units` have a slot one after the other, first those that have it from an earlier run; those of
    the `canary` are home for `pause_s` seconds before any other is lent one.
    """

    limit: str
    bound: str
    units: tuple[str, ...]
    canary: tuple[str, ...] = ()
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a run would do besides its steps: `waits` where it would not get through.

    `down_s` is how long each object would be out that goes out, `restarts` are those that are
    restarted in place, `switches` the groups of hosts that would switch together, in order,
    `limits` those that something would wait for. `old_content` are pairs of an object that gets its
    new content and one that it relies on and that has its old content still: to wait for the new
    one would be a circle, which a limit makes.
    """

    waits: tuple[Wait, ...]
    down_s: Mapping[CobId, float] = field(default_factory=dict)
    seconds: float = 0.0
    switches: tuple[tuple[str, ...], ...] = ()
    restarts: tuple[CobId, ...] = ()
    limits: tuple[LimitUse, ...] = ()
    old_content: tuple[tuple[CobId, CobId], ...] = ()

    @property
    def goes_out(self) -> frozenset[CobId]:
        """All that leaves serving, or is restarted in place."""
        return frozenset(self.down_s) | frozenset(self.restarts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(Forecast):
    """What a run would do: a forecast, with `steps` by start time."""

    steps: tuple[PlannedStep, ...]
    looked_ahead: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the rules alone get all through, and nothing takes the same step twice."""
        taken = {(step.cob, step.source, step.dest) for step in self.steps}
        return not self.looked_ahead and not self.waits and len(taken) == len(self.steps)

    @property
    def cost(self) -> tuple[int, int, int]:
        """How many objects would not get through, how many go out, how many steps it takes."""
        return len(self.waits), len(self.goes_out), len(self.steps)


@dataclass(slots=True, kw_only=True)
class _Clock:
    """The running of a prediction: what ends when, and who was let through by whom.

    `ends` are the ends by time, in the order in which they were begun, `times` a heap of the times.
    `down` is how long each object that went out was out, `left` since when those are that are out
    now, `restarts` who is restarted in place. `was` is the state that an object was in before
    nobody knew it. `canaries` are the units that went ahead, by limit. `failed` says of objects why
    their work cannot be done.
    """

    context: ExecutionContext
    engine: Engine
    duration: Duration
    now: float = 0.0
    cause: CobId | None = None
    times: list[float] = field(default_factory=list)
    ends: dict[float, list[Input]] = field(default_factory=dict)
    steps: list[PlannedStep] = field(default_factory=list)
    enabled: dict[CobId, dict[CobId, float]] = field(default_factory=dict)
    left: dict[CobId, float] = field(default_factory=dict)
    down: dict[CobId, float] = field(default_factory=dict)
    restarts: set[CobId] = field(default_factory=set)
    was: dict[CobId, State] = field(default_factory=dict)
    switches: list[tuple[str, ...]] = field(default_factory=list)
    canaries: dict[str, frozenset[str]] = field(default_factory=dict)
    last_end: dict[CobId, float] = field(default_factory=dict)
    machines: Machines = field(init=False)
    rooms: _Rooms = field(init=False)
    failed: dict[CobId, str] = field(default_factory=dict)

    def push(self, end: Input, after_s: float) -> None:
        """Have something end after a time; what ends at the same time keeps its order."""
        time = self.now + after_s
        if time not in self.ends:
            self.ends[time] = []
            heapq.heappush(self.times, time)
        self.ends[time].append(end)


@dataclass(slots=True, kw_only=True)
class _Stay:
    """A unit that takes room, with a slot or as it was out.

    `after` is whose room it got; `done` has ended something since, `last` are those of them for
    which no other object of the unit has waited.
    """

    has_slot: bool = True
    after: tuple[CobId, ...] = ()
    done: set[CobId] = field(default_factory=set)
    last: dict[CobId, None] = field(default_factory=dict)


class _Rooms:
    """Who waits for whom under limits: each room that comes back is taken by one unit.

    It is the room that came back last, of several at once the first. So what waits for one another
    makes no more chains than a limit has rooms, whatever is checked between the return of a slot
    and its next lending. A percentage bounds all units, besides those of each domain.
    """

    def __init__(self, context: ExecutionContext, engine: Engine) -> None:
        self._engine = engine
        self._domains = {
            (it.name, unit.name): unit.domains if it.percent is None else ("", *unit.domains)
            for it in context.graph.budgets
            for unit in it.units
        }
        self._free: dict[tuple[str, str], list[tuple[float, tuple[CobId, ...]]]] = {}
        self._stays = {key: _Stay() for key in sorted(context.lending.slots)}
        self._lent = dict.fromkeys(self._stays, False)  # and whether that was of use
        self._are_counted = bool(context.graph.budgets or self._stays)

    def users(self, limit: str) -> tuple[str, ...]:
        """Return the units that were lent a slot, after those that moved with one from before."""
        return tuple(key[1] for key, is_used in self._lent.items() if is_used and key[0] == limit)

    def take(self, limit: str, unit: str) -> None:
        """Take note that a unit has a slot."""
        key, after = (limit, unit), dict[CobId, None]()
        before = self._stays.get(key)
        if before is not None:
            after.update(dict.fromkeys(tuple(before.last) or before.after))
        else:
            for place in self._places(key):
                if free := self._free.get(place):
                    first = bisect_left(free, free[-1][0], key=itemgetter(0))
                    after.update(dict.fromkeys(free.pop(first)[1]))
        self._stays[key] = _Stay(after=tuple(after))
        self._lent[key] = True

    def give_back(self, limit: str, unit: str, now_s: float) -> None:
        """Take note that a unit takes no room any more."""
        stay = self._stays.pop((limit, unit))
        for place in self._places((limit, unit)):
            self._free.setdefault(place, []).append((now_s, tuple(stay.last) or stay.after))

    def begin(self, cob: CobId, waited: Iterable[CobId]) -> tuple[CobId, ...]:
        """Return for whose room a step waits that begins now, where nothing of its unit says so."""
        after: dict[CobId, None] = {}
        waited = (cob, *waited)
        for limit, unit, takes_room in self._engine.rooms(cob) if self._are_counted else ():
            stay = self._stays.get((limit, unit))
            if stay is None and takes_room:
                stay = self._stays[limit, unit] = _Stay(has_slot=False)
            if stay is None:
                continue
            if stay.has_slot:
                self._lent[limit, unit] = True
            if stay.done.isdisjoint(waited):
                after.update(dict.fromkeys(stay.after))
            for on in waited:
                stay.last.pop(on, None)
        after.pop(cob, None)
        return tuple(after)

    def end(self, cob: CobId, now_s: float) -> None:
        """Take note that a step has ended; who was out and is not any more gives room back."""
        for limit, unit, takes_room in self._engine.rooms(cob) if self._are_counted else ():
            stay = self._stays.get((limit, unit))
            if stay is not None:
                stay.done.add(cob)
                stay.last[cob] = None
                if not stay.has_slot and not takes_room:
                    self.give_back(limit, unit, now_s)

    def _places(self, key: tuple[str, str]) -> Iterator[tuple[str, str]]:
        for domain in self._domains.get(key) or ("",):
            yield key[0], domain


def predict(
    context: ExecutionContext, duration: Duration = lambda _cob, _source, _dest: 1.0
) -> Prediction:
    """Return what a run would do if nothing failed that can be done.

    Where a chain of waits ends at work that cannot, its last link says why in `detail`.
    """
    engine = context.engine()
    clock = _Clock(context=context, engine=engine, duration=duration)
    for hosts in context.at_once:
        clock.switches += (tuple(data["hosts"]) for _, data in context.told(hosts))
    _play(clock)
    for cob, since in clock.left.items():
        clock.down[cob] = clock.down.get(cob, 0.0) + clock.now - since
    return Prediction(
        steps=tuple(clock.steps),
        waits=tuple(_explained(wait, clock.failed) for wait in context.waits(engine)),
        down_s=dict(clock.down),
        seconds=clock.now,
        switches=tuple(clock.switches),
        restarts=tuple(sorted(clock.restarts)),
        limits=tuple(_limits_used(clock)),
        looked_ahead=engine.looked_ahead,
        old_content=tuple(_served_by_old(clock)),
    )


def _served_by_old(clock: _Clock) -> Iterator[tuple[CobId, CobId]]:
    """Yield the pairs of which the first begins its last step before the last one of the second."""
    last = {step.cob: step for step in clock.steps}
    for cob, on in clock.engine.old_content:
        if cob in last and on in last and last[cob].start_s < last[on].end_s:
            yield cob, on


def predict_best(context: ExecutionContext) -> tuple[ExecutionContext, Prediction]:
    """Return a context with its prediction; with orders found beforehand, where these do better."""
    first = predict(context)
    if first.is_plain:
        return context, first
    ordered = context.foreseen()
    second = predict(ordered) if ordered.orders else first
    return (ordered, second) if second.cost < first.cost else (context, first)


def _limits_used(clock: _Clock) -> Iterator[LimitUse]:
    """Yield the limits that lent a slot or had a canary."""
    for it in clock.context.graph.budgets:
        units, canary = clock.rooms.users(it.name), clock.canaries.get(it.name, frozenset())
        if units or canary:
            domain = " in each domain" if any(unit.domains for unit in it.units) else ""
            yield LimitUse(
                limit=it.name,
                bound=f"{it.count if it.percent is None else f'{it.percent}%'}{domain}",
                units=units,
                canary=tuple(sorted(canary)),
                pause_s=it.pause_s if canary else 0.0,
            )


def _explained(wait: Wait, failed: Mapping[CobId, str]) -> Wait:
    """Return why an object waits, with why the work at the end of the chain cannot be done."""
    chain = tuple(
        replace(link, detail=failed[link.cob]) if link.kind is WaitKind.FAILED else link
        for link in wait.chain
    )
    return replace(wait, chain=chain)


def _play(clock: _Clock) -> None:
    """Go through the run."""
    context, engine = clock.context, clock.engine
    clock.machines = Machines(context.graph, engine)
    clock.rooms, has_machines = _Rooms(context, engine), bool(clock.machines)
    _carry(clock, engine.start(context.known, context.held, **context.beliefs()))
    while clock.times:
        clock.now = clock.times[0]
        for end in clock.ends[clock.now]:  # grows while it is gone through
            if isinstance(end, TransitionEnded):
                clock.last_end[end.cob] = clock.now
                clock.cause = end.cob
            elif isinstance(end, CheckEnded) and clock.last_end.get(end.cob) == clock.now:
                clock.cause = end.cob  # comes home, for which others have waited
            elif isinstance(end, LimitResumed):
                clock.cause = _last_of_canary(clock, end.limit)
            clock.machines.ended(end)
            told = end
            if isinstance(end, CheckEnded):  # what it finds is only known when it ends
                told = CheckEnded(end.cob, _found(clock, end.cob))
            effects = engine.step(told, clock.now)
            if isinstance(end, TransitionEnded):
                clock.rooms.end(end.cob, clock.now)
            if effects:
                _carry(clock, effects)
            while has_machines and (doubt := clock.machines.next()):
                _carry(clock, engine.step(StateDoubted(cob=doubt[1]), clock.now))
        del clock.ends[heapq.heappop(clock.times)]


def _last_of_canary(clock: _Clock, limit: str) -> CobId | None:
    """Return which member of a canary ended something last, for which the others waited."""
    units = (unit for it in clock.context.graph.budgets if it.name == limit for unit in it.units)
    first = (unit.members for unit in units if unit.name in clock.canaries.get(limit, ()))
    ended = sorted(cob for members in first for cob in members if cob in clock.last_end)
    return max(ended, key=clock.last_end.__getitem__, default=None)


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
            if effect.state != UNKNOWN:
                clock.was[effect.cob] = effect.state
            if effect.cob in clock.left:
                _watch(clock, effect)
        elif isinstance(effect, StartTransition):
            _start(clock, effect)
        elif isinstance(effect, StartCheck):
            clock.machines.began(effect.cob)
            clock.push(CheckEnded(effect.cob, None), 0.0)
        else:
            _carry_rare(clock, effect)


def _carry_rare(clock: _Clock, effect: Effect) -> None:
    if isinstance(effect, LimitPaused):
        clock.push(LimitResumed(limit=effect.limit), effect.pause_s)
    elif isinstance(effect, SlotTaken):
        clock.rooms.take(effect.limit, effect.unit)
    elif isinstance(effect, SlotReturned):
        clock.rooms.give_back(effect.limit, effect.unit, clock.now)
    elif isinstance(effect, CanaryWritten):
        clock.canaries[effect.limit] = effect.canary.units
    elif isinstance(effect, HostsSwitched):
        clock.switches += (tuple(it["hosts"]) for _, it in clock.context.told(effect.hosts))


def _found(clock: _Clock, cob: CobId) -> State | None:
    """Return what a check of an object will find, None where it cannot be made."""
    context, engine = clock.context, clock.engine
    it = engine.cob(cob)
    if isinstance(it.type.check, Missing):
        clock.failed[cob] = it.type.check.message
        return None
    if clock.machines.machine_of(cob) and clock.machines.verdict(cob) is Verdict.AWAY:
        return it.type.remove
    state = engine.state(cob)
    if state != UNKNOWN:
        return state
    in_base = context.change is not None and engine.stands_in_base(cob)
    was = clock.was.get(cob)
    if was is None:
        return context.guess(cob, in_base=in_base)
    return was if in_base else context.found_after(cob, was)


def _enable(clock: _Clock, cob: CobId, by: CobId) -> None:
    """Note who let an object through, if that had ended something itself."""
    end = clock.last_end.get(by)
    if end is not None:
        clock.enabled.setdefault(cob, {})[by] = end


def _start(clock: _Clock, effect: StartTransition) -> None:
    cob, step = effect.cob, effect.transition
    clock.machines.began(cob)
    length = clock.duration(cob, step.source, step.dest)
    if clock.engine.takes_out(cob, step):
        if clock.engine.cob(cob).type.serves(step.dest):
            clock.restarts.add(cob)
        else:
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
    if isinstance(step.action, Missing):
        clock.failed[cob] = step.action.message
    clock.push(TransitionEnded(cob, not isinstance(step.action, Missing)), length)


def _waited_for(clock: _Clock, effect: StartTransition) -> tuple[CobId, ...]:
    """Return whose ends let a transition begin, the last one first."""
    enabled = clock.enabled.pop(effect.cob, {})
    room = {on: clock.last_end[on] for on in clock.rooms.begin(effect.cob, enabled)}
    cause = None if clock.now in room.values() else clock.cause
    if cause is not None and cause != effect.cob:
        # Whose end set this off: it gave a lock, gave one back, or made room in a limit.
        enabled[cause] = clock.now
    enabled |= room
    if len(enabled) > 1 or 0.0 in enabled.values():
        locked = {on for on, _ in effect.locks}.union(room)
        waited = sorted([(-end, on) for on, end in enabled.items() if on in locked or end > 0.0])
        return tuple([on for _, on in waited])
    return tuple(enabled)


def _watch(clock: _Clock, effect: StateFound) -> None:
    """See whether an object that went out serves again."""
    cob = effect.cob
    if clock.engine.cob(cob).type.serves(effect.state):
        clock.down[cob] = clock.down.get(cob, 0.0) + clock.now - clock.left.pop(cob)
