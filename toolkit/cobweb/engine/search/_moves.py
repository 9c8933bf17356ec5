"""Which steps are legal from a vector of states (design, sections 5 and 5b).

This is the one definition that look-ahead, checkers and tests share.

Steps that run side by side can be told one after the other, since nothing that a step needs moves
while it runs. So a vector of states, and which members of budgets count, is all that matters: there
are no locks between two steps. A step is legal if

- it is of its object's matrix and leaves the state that the object is in (P4), and the object may
  move at all;
- each transition dependency can be locked (P1): its object is in the state, or in one of the
  group, and so is, one after the other, all that a lock on it depends on (P3), without a circle,
  and without the object that moves;
- where it takes a serving member of a budget out, or interrupts it: the member's unit is out
  already, or the units out with this one are at most the bound. All other steps are repairs.

A limit of transitions in flight says nothing about steps told one after the other, unless it allows
none at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from cobweb.engine._limits import is_about
from cobweb.engine.analysis._circles import reached
from cobweb.engine.search._problem import Problem
from cobweb.model import UNKNOWN, Budget, CobId, LockNeed, Need, State, Transition, TransitionNeed

Conditions = tuple[tuple[int, frozenset[State]], ...]
"""(place in the vector, states of which it must be in one)."""


class Situation(NamedTuple):
    """A vector of states in the order of `Moves.cobs`, and a bit for each member that counts."""

    states: tuple[State, ...]
    counting: int


class Operator:
    """One step of one object: `at` is the object's place in the vector, `number` the step's own.

    `outs` is 1 where it takes its object out of serving, or interrupts it. `needs` are its
    transition dependencies. `slots` are the (budget, unit) of which it takes a member out, `given`
    those in which it makes one serve, or gone. `arrives` are the bits that count afterwards: of the
    member that serves then, or of those that are new in the unit of one that was taken out.
    """

    def __init__(self, at: int, cob: CobId, step: Transition, number: int, outs: int) -> None:
        self.at = at
        self.cob = cob
        self.step = step
        self.number = number
        self.source = step.source
        self.dest = step.dest
        self.outs = outs
        self.needs: Conditions = ()
        self.slots: tuple[tuple[int, int], ...] = ()
        self.given: tuple[tuple[int, int], ...] = ()
        self.arrives = 0


@dataclass(slots=True)
class Member:
    """A member of one unit: its place in the vector (-1: it stays in `state`) and its bit.

    `serving` are the states in which it serves, `gone` the one in which it is no member any more.
    """

    at: int
    bit: int
    state: State
    serving: frozenset[State]
    gone: State


@dataclass(slots=True)
class Roster:
    """The members of a unit; `stays` says that it is in the population as long as it should serve.

    `mask` has the bits of the members that count from when one that counts is taken out.
    """

    members: list[Member]
    domains: tuple[str, ...]
    mask: int = 0
    owed: bool = False
    stays: bool = False


@dataclass(slots=True)
class Room:
    """What is taken of each budget in one situation: the units that are out, and the populations.

    Populations and outs are by domain; "" stands for all units together.
    """

    units: list[set[int]] = field(default_factory=list)
    outs: list[dict[str, int]] = field(default_factory=list)
    populations: list[dict[str, int]] = field(default_factory=list)


class Moves:
    """The legal steps of some objects of a problem (default: of all); the others stay as they are.

    `cobs` are these objects and all that their steps depend on, by sorted id: the order of the
    vector. Construction is linear in their needs and the members of the budgets.
    """

    def __init__(self, problem: Problem, cobs: Collection[CobId] | None = None) -> None:
        self.problem = problem
        needs, chosen = problem.needs, problem.graph.cobs.keys() if cobs is None else cobs
        movable = {cob for cob in chosen if problem.movable(cob)}
        self.cobs = tuple(sorted(_leaned_on(movable, chosen, needs)))
        self.at = {cob: at for at, cob in enumerate(self.cobs)}
        self.operators = [
            self._operators_of(at, cob, needs.get(cob, ())) if cob in movable else {}
            for at, cob in enumerate(self.cobs)
        ]
        self._locks = [self._dependencies(cob, needs.get(cob, ())) for cob in self.cobs]
        self._lends = any(self._locks)
        self._bits = 0
        self._counting = 0
        self.rosters = [
            [self._unit(number, budget, place) for place in range(len(budget.units))]
            for number, budget in enumerate(problem.budgets)
        ]

    def start(self) -> Situation:
        """Return the situation that all objects are in before any step; who serves counts."""
        vector = tuple(self.problem.states[cob] for cob in self.cobs)
        counting = self._counting
        for unit in chain.from_iterable(self.rosters):
            for member in unit.members:
                if _state(member, vector) in member.serving:
                    counting |= member.bit
        return Situation(vector, counting)

    def aims(self, cobs: Collection[CobId] | None = None) -> tuple[State, ...]:
        """Return where all should be; who is none of `cobs` (default: all) should stay."""
        problem = self.problem
        some = problem.graph.cobs.keys() if cobs is None else set(cobs)
        return tuple(problem.goal(cob) if cob in some else problem.states[cob] for cob in self.cobs)

    def allows(self, now: Situation, operator: Operator, room: Room) -> bool:
        """Say whether a step may be taken; `room` is that of the situation."""
        return (
            now.states[operator.at] == operator.source
            and self.lacks(now.states, operator) is None
            and self.full(operator, room) is None
        )

    def after(self, now: Situation, operator: Operator) -> Situation:
        """Return the situation after a step."""
        at, states = operator.at, now.states
        states = (*states[:at], operator.dest, *states[at + 1 :])
        return Situation(states, now.counting | operator.arrives)

    def lacks(self, states: tuple[State, ...], operator: Operator) -> Conditions | None:
        """Return what keeps a step from its needs; None where it has them all.

        Unless one of these conditions is met, the step stays illegal: a state that is lacked, or
        (no states) that an object on the way to it, or in a circle of locks, is in another one.
        """
        for on, names in operator.needs:
            if states[on] not in names:
                return ((on, names),)
        if not operator.needs or not self._lends:
            return None
        return self._closure_lacks(states, operator)

    def locks_of(self, at: int, state: State) -> Conditions:
        """Return what a lock on an object in a state depends on."""
        return self._locks[at].get(state, ())

    def lends_on(self, at: int) -> list[int]:
        """Return what a lock on an object may depend on, in any state, sorted."""
        return sorted({on for it in self._locks[at].values() for on, _ in it})

    def locks_on(self, at: int, on: int) -> list[frozenset[State]]:
        """Return the states in which a lock on one object may need another one to be."""
        return [names for it in self._locks[at].values() for each, names in it if each == on]

    def room(self, now: Situation) -> Room:
        """Return what is taken of each budget; linear in the members."""
        room = Room()
        for units in self.rosters:
            out: set[int] = set()
            outs: dict[str, int] = {}
            populations: dict[str, int] = {}
            for number, unit in enumerate(units):
                counts, is_out = _look_at(unit, now)
                if is_out:
                    out.add(number)
                    for domain in ("", *unit.domains):
                        outs[domain] = outs.get(domain, 0) + 1
                if counts and unit.stays:
                    for domain in ("", *unit.domains):
                        populations[domain] = populations.get(domain, 0) + 1
            room.units.append(out)
            room.outs.append(outs)
            room.populations.append(populations)
        return room

    def full(self, operator: Operator, room: Room) -> int | None:
        """Return the number of the first budget that has no room for a step."""
        for number, unit in operator.slots:
            domains = self.rosters[number][unit].domains
            if unit not in room.units[number] and not self._fits(number, domains, room):
                return number
        return None

    def _fits(self, number: int, domains: tuple[str, ...], room: Room) -> bool:
        """Say whether one unit more may be out, in each of its domains and together."""
        budget = self.problem.budgets[number]
        outs, populations = room.outs[number], room.populations[number]
        limited = domains if domains and budget.percent is None else (*domains, "")
        return all(outs.get(it, 0) + 1 <= budget.bound(populations.get(it, 0)) for it in limited)

    def _closure_lacks(self, states: tuple[State, ...], operator: Operator) -> Conditions | None:
        """Follow lock dependencies depth first; a circle among them cannot be granted."""
        path, done = [operator.at], set[int]()
        stack = [iter(operator.needs)]
        while stack:
            ahead = next(stack[-1], None)
            if ahead is None:
                stack.pop()
                done.add(path.pop())
                continue
            on, names = ahead
            if on in path or states[on] not in names:
                others = tuple((each, frozenset[State]()) for each in path[1:])
                return others if on in path else (ahead, *others)
            if on not in done:
                path.append(on)
                stack.append(iter(self._locks[on].get(states[on], ())))
        return None

    def _operators_of(
        self, at: int, cob: CobId, needs: Sequence[Need]
    ) -> dict[State, list[Operator]]:
        """Return the steps that the object may ever take, by the state that they leave."""
        found: dict[State, list[Operator]] = {}
        asked = [need for need in needs if isinstance(need, TransitionNeed)]
        for number, step in enumerate(self.problem.graph.cobs[cob].type.transitions):
            if self._forbidden(cob, step):
                continue
            operator = Operator(at, cob, step, number, int(self._goes_out(cob, step)))
            wanted = (need for need in asked if need.covers(step.source, step.dest))
            operator.needs = self._conditions(wanted)
            found.setdefault(step.source, []).append(operator)
        return found

    def _goes_out(self, cob: CobId, step: Transition) -> bool:
        """Say whether a step takes its object out of serving, or interrupts it."""
        it, standing = self.problem.graph.cobs[cob], self.problem.standing
        if not standing.serves(it, step.source):
            return False
        fresh = standing.serving.get(cob) == step.source
        return fresh or step.interrupts or not standing.serves(it, step.dest)

    def _forbidden(self, cob: CobId, step: Transition) -> bool:
        """Say whether a step is never taken: of who is gone, or by a limit that allows none."""
        problem = self.problem
        remove = problem.graph.cobs[cob].type.remove
        if cob in problem.standing.leaving and step.source == remove:
            return True
        if problem.may is not None and not problem.may(cob, step):
            return True
        return any(
            group.bound < 1 and cob in group.members
            for limit in problem.graph.limits
            if is_about(limit, step)
            for group in limit.groups
        )

    def _dependencies(self, cob: CobId, needs: Sequence[Need]) -> dict[State, Conditions]:
        """Return the lock dependencies of each state that has some."""
        asked = [need for need in needs if isinstance(need, LockNeed)]
        if not asked:
            return {}
        found = {
            state: self._conditions(need for need in asked if need.covers(state))
            for state in self.problem.graph.cobs[cob].type.states
        }
        return {state: it for state, it in found.items() if it}

    def _conditions(self, needs: Iterable[Need]) -> Conditions:
        cobs = self.problem.graph.cobs
        found = {(self.at[need.on], cobs[need.on].type.members(need.state)) for need in needs}
        return tuple((at, frozenset(members)) for at, members in sorted(found))

    def _unit(self, number: int, budget: Budget, place: int) -> Roster:
        """Make a unit, and tell the operators of its members that they touch it."""
        unit, standing, cobs = budget.units[place], self.problem.standing, self.problem.graph.cobs
        members = sorted(cob for cob in unit.members if cob in cobs)
        made = Roster([self._member(cob, budget) for cob in members], unit.domains)
        made.owed = (budget.name, unit.name) in standing.owed
        made.stays = any(cob not in standing.leaving for cob in members)
        for cob, member in zip(members, made.members, strict=True):
            it = cobs[cob]
            if cob not in standing.leaving and it.type.serves(it.preferred, budget.group):
                made.mask |= member.bit
        for member in made.members:
            self._tell_operators(number, place, member, made.mask)
        return made

    def _member(self, cob: CobId, budget: Budget) -> Member:
        it, standing = self.problem.graph.cobs[cob], self.problem.standing
        bit = 1 << self._bits
        self._bits += 1
        if cob in standing.counting.get(budget.name, ()):
            self._counting |= bit
        states = (UNKNOWN, *it.type.states)
        serving = frozenset(each for each in states if standing.serves(it, each, budget.group))
        gone = it.type.remove if cob in standing.leaving else ""
        return Member(self.at.get(cob, -1), bit, self.problem.states[cob], serving, gone)

    def _tell_operators(self, number: int, unit: int, member: Member, mask: int) -> None:
        if member.at < 0:
            return
        fresh = self.problem.standing.serving.get(self.cobs[member.at])
        for operators in self.operators[member.at].values():
            for it in operators:
                stays = it.dest in member.serving and not it.step.interrupts
                if it.source in member.serving and (not stays or it.source == fresh):
                    it.slots += ((number, unit),)
                    if it.dest not in member.serving:
                        it.arrives |= mask
                if it.dest in member.serving:
                    it.arrives |= member.bit
                if it.dest in member.serving or it.dest == member.gone:
                    it.given += ((number, unit),)


def _leaned_on(
    movable: Collection[CobId], chosen: Collection[CobId], needs: Mapping[CobId, Sequence[Need]]
) -> set[CobId]:
    """Return the chosen objects and all that a lock for a step of one of them may depend on."""

    def asked(cob: CobId) -> Iterator[CobId]:
        asks = needs.get(cob, ())
        return (need.on for need in asks if cob in movable or isinstance(need, LockNeed))

    return reached(chosen, asked)


def _look_at(unit: Roster, now: Situation) -> tuple[bool, bool]:
    """Return whether a unit should serve, and whether it is out."""
    counts, is_out = unit.owed, unit.owed
    for member in unit.members:
        if not now.counting & member.bit:
            continue
        state = _state(member, now.states)
        if state == member.gone:
            continue
        counts = True
        if state not in member.serving:
            is_out = True
    return counts, is_out


def _state(member: Member, states: tuple[State, ...]) -> State:
    return states[member.at] if member.at >= 0 else member.state
