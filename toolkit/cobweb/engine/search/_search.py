"""Look-ahead: the order of legal steps that takes the fewest objects out (design, section 5b).

A* over the situations of a part (`_moves`). What an order costs is, first, how often it takes an
object out of serving, or interrupts one, then how many steps it has; ties are broken by ids. The
estimate of what is left never says too much (`_Estimate`), so the first order that is found is the
cheapest. If the search is exhausted there is none.

Two reductions keep large parts small, and change no cost and no proof: of situations that differ
only by who is who among objects that are alike, one is looked at (`_symmetry`); of steps that have
nothing to do with each other, only one order is (strong stubborn sets, `_StubbornSets`).

The search is bounded by the situations that it expands, never by time: the same question has the
same answer on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from cobweb.engine.analysis._circles import reached
from cobweb.engine.search._moves import Conditions, Moves, Operator, Room, Situation
from cobweb.engine.search._problem import Problem
from cobweb.engine.search._symmetry import Key, Symmetry
from cobweb.model import CobId, State, Transition

EXPANDED_CAP = 50_000
"""How many situations a search expands before it gives up."""

STEP_COSTS = (1, 1 + (1 << 20))
"""What a step costs that takes nothing out, and one that does: outs outweigh all steps."""

_AIMS_TRIED = 8
"""From how many unlike objects that are not at home a set is begun; the smallest is taken."""

_Visit = tuple[int, frozenset[State], bool]
"""(place in the vector, the states of which one must be visited, whether it is locked there)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The cheapest order: (object, step) pairs; `outs` of the steps take an object out."""

    steps: tuple[tuple[CobId, Transition], ...]
    outs: int
    expanded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOrder:
    """No order exists: all that can be reached was looked at."""

    expanded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp:
    """Nothing is known: the search ended at its cap."""

    expanded: int


@dataclass(slots=True, eq=False)
class _Node:
    """A situation that was reached, by which step from which other one, at which cost."""

    now: Situation
    cost: int
    before: _Node | None
    operator: Operator | None


def find_order(
    problem: Problem, cobs: Collection[CobId] | None = None, cap: int = EXPANDED_CAP
) -> Order | NoOrder | GaveUp:
    """Return the cheapest order of legal steps that brings every object where it should be.

    Only `cobs` move (default: all that may).
    """
    moves = Moves(problem, cobs)
    return _Search(moves, moves.aims(cobs), cap).run()


class _Search:
    """One search; `_costs` has the least known cost of each situation that was reached."""

    def __init__(self, moves: Moves, aims: tuple[State, ...], cap: int) -> None:
        self._moves = moves
        self._aims = aims
        self._cap = cap
        self._estimate = _Estimate(moves, aims)
        self._symmetry = Symmetry(moves, aims)
        self._stubborn = _StubbornSets(moves, aims, self._symmetry)
        self._costs: dict[Key, int] = {}
        self._heap: list[tuple[int, int, int, _Node]] = []
        self._pushed = 0

    def run(self) -> Order | NoOrder | GaveUp:
        """Expand situations, the most promising first."""
        expanded = 0
        self._push(self._moves.start(), 0, None, None)
        while self._heap:
            _, _, _, node = heapq.heappop(self._heap)
            if node.cost > self._costs[self._symmetry.key(node.now)]:
                continue
            if node.now.states == self._aims:
                return _order(node, expanded)
            if expanded == self._cap:
                return GaveUp(expanded=expanded)
            expanded += 1
            for operator in self._stubborn.choice(node.now):
                cost = node.cost + STEP_COSTS[operator.outs]
                self._push(self._moves.after(node.now, operator), cost, node, operator)
        return NoOrder(expanded=expanded)

    def _push(
        self, now: Situation, cost: int, before: _Node | None, operator: Operator | None
    ) -> None:
        key = self._symmetry.key(now)
        known = self._costs.get(key)
        if known is not None and known <= cost:
            return
        left = self._estimate.left(now)
        if left is None:
            return
        self._costs[key] = cost
        self._pushed += 1
        node = _Node(now, cost, before, operator)
        heapq.heappush(self._heap, (cost + left, left, self._pushed, node))


def _order(last: _Node, expanded: int) -> Order:
    steps: list[tuple[CobId, Transition]] = []
    outs = 0
    node: _Node | None = last
    while node is not None and node.operator is not None:
        steps.append((node.operator.cob, node.operator.step))
        outs += node.operator.outs
        node = node.before
    return Order(steps=tuple(reversed(steps)), outs=outs, expanded=expanded)


class _Estimate:
    """The least cost from any situation to one in which each object is where it should be.

    It is never too much, so that A* finds the cheapest order. Each object pays for its own steps
    alone, so what each must pay can be added up. It pays for the cheapest way to its aim, by way of
    a state that it must visit: where every way of an object has a step that needs another one in
    some state, that one must be there some time, and so must, in turn, those that every way there
    needs, and those that its lock depends on. The dearest single visit counts.

    `aims` are in the order of the vector. What concerns one object is worked out once.
    """

    def __init__(self, moves: Moves, aims: tuple[State, ...]) -> None:
        self._moves = moves
        self._aims = aims
        self._from = cache(self._costs_from)
        self._visit = cache(self._cost_of_visit)

    def left(self, now: Situation) -> int | None:
        """Return the least cost; None where no order can exist."""
        states, dearest = now.states, dict[int, int]()
        asked = [
            (at, frozenset((aim,)), False) for at, aim in enumerate(self._aims) if states[at] != aim
        ]
        seen = set(asked)
        while asked:
            at, names, lends = asked.pop()
            cost, further = self._visit(at, states[at], names, lends=lends)
            if cost is None:
                return None
            dearest[at] = max(cost, dearest.get(at, 0))
            for each in further:
                if each not in seen:
                    seen.add(each)
                    asked.append(each)
        return sum(dearest.values())

    def _cost_of_visit(
        self, at: int, state: State, names: frozenset[State], *, lends: bool
    ) -> tuple[int | None, tuple[_Visit, ...]]:
        """Return what it costs to get to the aim by one of some states, and what that asks for.

        The cost is None where no way leads there. Who `lends` is locked there.
        """
        costs, aim = self._from(at, state), self._aims[at]
        ways = [
            costs[name] + back
            for name in names
            if name in costs and (back := self._from(at, name).get(aim)) is not None
        ]
        asked = (
            *self._needed(at, state, names),
            *self._needed(at, state, frozenset((aim,))),
            *(self._dependencies(at, names) if lends else ()),
        )
        visits = tuple((on, wanted, True) for on, wanted in dict.fromkeys(asked))
        return min(ways, default=None), visits

    def _dependencies(self, at: int, names: frozenset[State]) -> Conditions:
        """Return what a lock on an object depends on in each of some states."""
        first, *others = (self._moves.locks_of(at, name) for name in sorted(names))
        return tuple(it for it in first if all(it in other for other in others))

    def _needed(self, at: int, state: State, names: frozenset[State]) -> Conditions:
        """Return what some step of every way needs."""
        if state in names:
            return ()
        operators = self._moves.operators[at]
        conditions = sorted(
            {it for some in operators.values() for each in some for it in each.needs},
            key=lambda it: (it[0], sorted(it[1])),
        )
        return tuple(it for it in conditions if not names & _reached(operators, state, it))

    def _costs_from(self, at: int, state: State) -> dict[State, int]:
        """Return what each state costs that the matrix leads to."""
        found: dict[State, int] = {}
        heap = [(0, state)]
        while heap:
            cost, name = heapq.heappop(heap)
            if name not in found:
                found[name] = cost
                for it in self._moves.operators[at].get(name, ()):
                    heapq.heappush(heap, (cost + STEP_COSTS[it.outs], it.dest))
        return found


def _reached(
    operators: dict[State, list[Operator]], state: State, without: tuple[int, frozenset[State]]
) -> set[State]:
    """Return the states to which ways lead that never need one thing."""

    def after(name: State) -> Iterator[State]:
        return (it.dest for it in operators.get(name, ()) if without not in it.needs)

    return reached((state,), after)


class _StubbornSets:
    """Which legal steps of a situation have to be looked at (Wehrle and Helmert 2014).

    The set begins with the steps that bring one object where it should be. A step in it that is
    legal draws in all that it could make illegal, or that could make it illegal; one that is not
    draws in those without which it never becomes legal. Some cheapest order from here begins with a
    legal step of the set, and if there is none, there is no order at all.

    `_giving` and `_leaving` have, by (budget, unit), the steps that bring a member home, and those
    that take one out; `_taking` all of a budget that take a member out.
    """

    def __init__(self, moves: Moves, aims: tuple[State, ...], symmetry: Symmetry) -> None:
        self._moves = moves
        self._aims = aims
        self._symmetry = symmetry
        self._by_on: dict[int, list[Operator]] = {}
        self._supports: dict[Operator, frozenset[int]] = {}
        self._giving: dict[tuple[int, int], list[Operator]] = {}
        self._leaving: dict[tuple[int, int], list[Operator]] = {}
        self._taking: dict[int, list[Operator]] = {}
        self._disturbs = cache(lambda operator: tuple(self._found(operator)))
        # an object and all that a lock on it may depend on, in whatever states
        closure = cache(lambda at: reached((at,), moves.lends_on))
        steps = (some for by_source in moves.operators for some in by_source.values())
        for operator in chain.from_iterable(steps):
            support = frozenset[int]().union(*(closure(on) for on, _ in operator.needs))
            self._supports[operator] = support
            for on in sorted(support):
                self._by_on.setdefault(on, []).append(operator)
            for touched in operator.slots:
                self._taking.setdefault(touched[0], []).append(operator)
                self._leaving.setdefault(touched, []).append(operator)
            for touched in operator.given:
                self._giving.setdefault(touched, []).append(operator)

    def choice(self, now: Situation) -> Collection[Operator]:
        """Return legal steps of which one begins a cheapest order, if there is any order."""
        room, looks = self._moves.room(now), self._symmetry.looks(now)
        best: list[Operator] | None = None
        tried: set[Hashable] = set()
        for at, aim in enumerate(self._aims):
            if now.states[at] == aim or looks[at] in tried:
                continue
            tried.add(looks[at])
            grown = self._grown(now, room, self._entering(at, frozenset((aim,))))
            found = _unlike(grown, looks)
            if best is None or len(found) < len(best):
                best = found
            if len(best) <= 1 or len(tried) == _AIMS_TRIED:
                break
        return best or ()

    def _grown(self, now: Situation, room: Room, first: list[Operator]) -> list[Operator]:
        """Return the legal steps of the smallest closed set that has some steps in it."""
        seen, stack, legal = set(first), list(first), []
        contested: set[int] = set()
        while stack:
            operator = stack.pop()
            if not self._moves.allows(now, operator, room):
                more = self._enabling(now, room, operator)
            else:
                legal.append(operator)
                more = self._disturbs(operator)
                for number, _ in operator.slots:
                    if number not in contested:
                        contested.add(number)
                        more = (*more, *self._taking[number])
            for each in more:
                if each not in seen:
                    seen.add(each)
                    stack.append(each)
        return sorted(legal, key=lambda it: (it.at, it.number))

    def _enabling(self, now: Situation, room: Room, operator: Operator) -> Collection[Operator]:
        """Return steps of which one must come before an illegal one becomes legal."""
        if now.states[operator.at] != operator.source:
            return self._entering(operator.at, frozenset((operator.source,)))
        lacking = self._moves.lacks(now.states, operator)
        if lacking is not None:
            return [it for on, names in lacking for it in self._entering(on, names)]
        full = self._moves.full(operator, room)
        return () if full is None else list(self._making_room(now, room, full))

    def _making_room(self, now: Situation, room: Room, number: int) -> Iterator[Operator]:
        """Yield who brings a unit home that is out, or, for a percentage, makes one more serve."""
        for unit in sorted(room.units[number]):
            yield from self._giving.get((number, unit), ())
        if self._moves.problem.budgets[number].percent is not None:
            for unit in range(len(self._moves.rosters[number])):
                for it in self._giving.get((number, unit), ()):
                    if it.arrives & ~now.counting:
                        yield it

    def _entering(self, at: int, names: frozenset[State]) -> list[Operator]:
        """Return the steps of an object into one of some states, or, without any, all of them."""
        return [
            it
            for source, operators in self._moves.operators[at].items()
            for it in operators
            if not names or (it.dest in names and source not in names)
        ]

    def _found(self, operator: Operator) -> Iterator[Operator]:
        """Yield the steps that may make this one illegal, or the other way round."""
        yield from self._moves.operators[operator.at][operator.source]
        for on in sorted(self._supports[operator]):
            for operators in self._moves.operators[on].values():
                yield from (it for it in operators if self._breaks(it, operator))
        for it in self._by_on.get(operator.at, ()):
            if self._breaks(operator, it):
                yield it
        # and who makes a step no repair any more, or whose step this one does
        for touched in operator.slots:
            yield from self._giving.get(touched, ())
        for touched in operator.given:
            yield from self._leaving.get(touched, ())

    def _breaks(self, mover: Operator, operator: Operator) -> bool:
        """Say whether a step of an object takes from another one a lock that it may rely on."""
        moves, at = self._moves, mover.at
        kept = moves.locks_of(at, mover.source)
        if any(it not in kept for it in moves.locks_of(at, mover.dest)):
            return True
        asked = [names for on, names in operator.needs if on == at]
        for on in self._supports[operator]:
            asked += moves.locks_on(on, at)
        return any(mover.source in names and mover.dest not in names for names in asked)


def _unlike(operators: list[Operator], looks: Sequence[Hashable]) -> list[Operator]:
    """Return of steps that differ only by who is who the first."""
    found: dict[Hashable, Operator] = {}
    for it in operators:
        found.setdefault((looks[it.at], it.number), it)
    return list(found.values())
