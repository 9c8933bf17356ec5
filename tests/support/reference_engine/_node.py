"""What the engine remembers of one object: its state, its requests, its locks (section 5.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cobweb.engine import STAY
from cobweb.model import UNKNOWN, Cob, CobId, CobType, State, Transition, TransitionNeed
from tests.support.reference_engine._needs import Wanted

__all__ = ["NO_PLAN", "OTHER_LIFE", "Activity", "Ask", "Node", "Plan", "Wish"]


class Activity(StrEnum):
    """What is under way on the object's host."""

    IDLE = "idle"
    CHECKING = "checking"
    MOVING = "moving"


@dataclass(slots=True, kw_only=True)
class Wish:
    """The holder's side of a pair: `state` is wanted ("" for nothing more), and `held` or not.

    `incarnation` and `seq` stamp what was said last; incarnation 0 marks a lock taken over from an
    earlier life, which is known by no stamp.
    """

    state: State
    incarnation: int
    seq: int
    held: bool = False


@dataclass(slots=True, kw_only=True)
class Ask:
    """The locked object's side of a pair: what the holder asked for last, and whether it was given.

    `restored` marks a grant that was out when this life began: only a holder that has heard of this
    life can end it. `stands_for` is the state that it is counted for, which is another one than
    `state` only where that names a group.
    """

    state: State
    incarnation: int
    seq: int
    granted: bool = False
    recalled: bool = False
    restored: bool = False
    stands_for: State = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which needs an object pursues; equal plans ask for the same locks.

    `lent` are the states with locks out, `asked` the state whose lock dependencies are asked for
    because others request it, `step` the transition to do next.
    """

    lent: tuple[State, ...] = ()
    asked: State = ""
    step: Transition | None = None


NO_PLAN = Plan()

OTHER_LIFE = Plan(asked=UNKNOWN)
"""Stands for the forgotten plan behind locks of an earlier life; equal to none that is made."""


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One owned object.

    `outs` are its needs that ask others into states that do not serve, `ways` are found by them.
    `broken` says that a transition failed in this run, `unchecked` that the last check did.
    `wishes` are its own requests and locks, `asks` those of others on it; `pending` and `lent`
    index `asks` by state, `missing` counts wishes that are not held, `recalled` names held ones
    that are asked back; `at_rest` are the holders whose locks are not asked back. `twisted` says
    that the plan wants two states of one object at once. `suspect` marks a transition whose host
    vanished: it may still go on; `late` a check of which the same is true. `renewed` gives the
    object a new incarnation as soon as it has been checked. `pusher` is who last asked for a state
    or made it move; `new_plans` counts changes of the plan within one `epoch`, the time from one
    end of a check or transition to the next.
    """

    cob: Cob
    goal: State
    movable: bool
    incarnation: int
    outs: list[TransitionNeed] = field(default_factory=list)
    ways: dict[tuple[State, State], tuple[Transition, ...] | None] = field(default_factory=dict)
    up: bool = True
    state: State = UNKNOWN
    activity: Activity = Activity.IDLE
    step: Transition | None = None
    broken: bool = False
    unchecked: bool = False
    churned: bool = False
    suspect: bool = False
    late: bool = False
    renewed: bool = False
    dirty: bool = False
    seq: int = 0
    missing: int = 0
    twisted: bool = False
    plan: Plan = NO_PLAN
    base: Wanted = ()
    pusher: CobId | None = None
    wishes: dict[CobId, Wish] = field(default_factory=dict)
    recalled: set[CobId] = field(default_factory=set)
    asks: dict[CobId, Ask] = field(default_factory=dict)
    pending: dict[State, set[CobId]] = field(default_factory=dict)
    lent: dict[State, set[CobId]] = field(default_factory=dict)
    at_rest: set[CobId] = field(default_factory=set)
    epoch: int = 0
    new_plans: int = 0
    counts: dict[tuple[State, State], int] = field(default_factory=dict)

    @property
    def id(self) -> CobId:
        """The object's id."""
        return self.cob.id

    @property
    def type(self) -> CobType:
        """The object's type."""
        return self.cob.type

    @property
    def frozen(self) -> bool:
        """Whether locks must stay as they are because something may be going on at the host."""
        return self.suspect or self.activity is not Activity.IDLE

    @property
    def stuck(self) -> bool:
        """Whether the object starts no transition any more in this run."""
        return self.failed or self.churned or not self.movable

    @property
    def failed(self) -> bool:
        """Whether its transition failed in this run, or its last check."""
        return self.broken or self.unchecked

    @property
    def own_goal(self) -> State:
        """Where the object goes when nobody asks: its goal, or nowhere."""
        return self.state if self.goal == STAY else self.goal

    @property
    def away(self) -> bool:
        """Whether the object is elsewhere than its own goal, or nobody knows where."""
        return self.state == UNKNOWN or self.state != self.own_goal

    def target(self) -> State:
        """Rule 1: the requested state of highest priority; with no request, the goal."""
        if not self.pending and not self.lent:
            return self.own_goal
        asked = self.pending.keys() | self.lent.keys()
        return next((state for state in self.type.states if state in asked), self.own_goal)

    def aim(self) -> State:
        """Return where the object goes: its target, or its own state where it can't get away."""
        target = self.target()
        if self.stuck or self.way(target) is None:
            return self.state
        return target

    def next_step(self) -> Transition | None:
        """Return the first step of the way to the aim, None where the object is there."""
        way = self.way(self.aim())
        return way[0] if way else None

    def way(self, dest: State) -> tuple[Transition, ...] | None:
        """Return the way that takes out the fewest objects, then the shortest, then the first."""
        if (self.state, dest) not in self.ways:
            self.ways[self.state, dest] = self._cheapest(self.state, dest)
        return self.ways[self.state, dest]

    def _cheapest(self, source: State, dest: State) -> tuple[Transition, ...] | None:
        found: list[tuple[int, int, tuple[int, ...], tuple[Transition, ...]]] = []
        todo: list[tuple[State, tuple[Transition, ...]]] = [(source, ())]
        while todo:
            state, way = todo.pop()
            if state == dest:
                numbers = tuple(self.type.transitions.index(step) for step in way)
                found.append((len(self._taken_out(way)), len(way), numbers, way))
                continue
            been = {source, *(step.dest for step in way)}
            todo += [
                (step.dest, (*way, step))
                for step in self.type.transitions
                if step.source == state and step.dest not in been
            ]
        return min(found, key=lambda it: it[:3])[3] if found else None

    def _taken_out(self, way: tuple[Transition, ...]) -> set[CobId]:
        outs: set[CobId] = set()
        for step in way:
            outs |= {need.on for need in self.outs if need.covers(step.source, step.dest)}
            if self.type.serves(step.source) and (
                step.interrupts or not self.type.serves(step.dest)
            ):
                outs.add(self.cob.id)
        return outs

    def asking(self, state: State) -> set[CobId]:
        """Return all who request `state` or hold it."""
        return self.pending.get(state, set()) | self.lent.get(state, set())

    def put_ask(self, holder: CobId, ask: Ask) -> None:
        """Replace what `holder` asks for and keep the indexes true."""
        self.drop_ask(holder)
        self.asks[holder] = ask
        self._file(holder, ask)
        if ask.granted and not ask.recalled:
            self.at_rest.add(holder)

    def drop_ask(self, holder: CobId) -> None:
        """Forget what `holder` asks for."""
        ask = self.asks.pop(holder, None)
        self.at_rest.discard(holder)
        if ask is None or not ask.state:
            return
        index = self.lent if ask.granted else self.pending
        index[ask.stands_for].discard(holder)
        if not index[ask.stands_for]:
            del index[ask.stands_for]

    def refile(self) -> None:
        """Count all that is asked for anew, in a state that the object has got into."""
        self.pending, self.lent = {}, {}
        for holder, ask in self.asks.items():
            self._file(holder, ask)

    def means(self, holder: CobId, state: State) -> State:
        """Return the state that a holder's word for `state` is counted for."""
        ask = self.asks.get(holder)
        return ask.stands_for if ask is not None and ask.state == state else state

    def _file(self, holder: CobId, ask: Ask) -> None:
        if ask.state:
            ask.stands_for = self.type.stands_for(ask.state, self.state)
            index = self.lent if ask.granted else self.pending
            index.setdefault(ask.stands_for, set()).add(holder)
