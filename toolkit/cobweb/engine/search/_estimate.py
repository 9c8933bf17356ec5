"""How much an order from a situation must cost at least.

It is never too much, so that A* finds the cheapest order. Each object pays for its own steps
alone, so what each must pay can be added up. It pays for the cheapest way to its aim, by way of a
state that it must visit: where every way of an object has a step that needs another one in some
state, that one must be there some time, and so must, in turn, those that every way there needs,
and those that its lock depends on. The dearest single visit counts.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import cache

from cobweb.engine.analysis._circles import reached
from cobweb.engine.search._moves import Conditions, Moves, Operator, Situation
from cobweb.model import State

STEP_COSTS = (1, 1 + (1 << 20))
"""What a step costs that takes nothing out, and one that does: outs outweigh all steps."""

_Visit = tuple[int, frozenset[State], bool]
"""(place in the vector, the states of which one must be visited, whether it is locked there)."""


class Estimate:
    """The least cost from any situation to one in which each object is where it should be.

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
