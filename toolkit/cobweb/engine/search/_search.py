"""Look-ahead: the order of legal steps that takes the fewest objects out (design, section 5b).

A* over the situations of a part (`_moves`). What an order costs is, first, how often it takes an
object out of serving, or interrupts one, then how many steps it has; ties are broken by ids. The
estimate of what is left never says too much (`_Estimate`), so the first order that is found is the
cheapest. If the search is exhausted there is none.

Two reductions keep large parts small, and change no cost and no proof: of situations that differ
only by who is who among objects that are alike, one is looked at (`_symmetry`); of steps that have
nothing to do with each other, only one order is (`_stubborn_sets`).

The search is bounded by the situations that it expands, never by time: the same question has the
same answer on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

from cobweb.engine.analysis._circles import reached
from cobweb.engine.search._moves import Conditions, Moves, Operator, Situation
from cobweb.engine.search._problem import Problem
from cobweb.engine.search._stubborn_sets import Stubborn
from cobweb.engine.search._symmetry import Key, Symmetry
from cobweb.model import CobId, State, Transition

EXPANDED_CAP = 50_000
"""How many situations a search expands before it gives up."""

STEP_COSTS = (1, 1 + (1 << 20))
"""What a step costs that takes nothing out, and one that does: outs outweigh all steps."""

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
        self._stubborn = Stubborn(moves, aims, self._symmetry)
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
