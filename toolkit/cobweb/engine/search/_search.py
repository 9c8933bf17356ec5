"""Look-ahead: the order of legal steps that takes the fewest objects out (design, section 5b).

A* over the situations of a part (`_moves`). What an order costs is, first, how often it takes an
object out of serving, or interrupts one, then how many steps it has; ties are broken by ids. The
estimate of what is left never says too much (`_estimate`), so the first order that is found is the
cheapest. If the search is exhausted there is none.

Two reductions keep large parts small, and change no cost and no proof: of situations that differ
only by who is who among objects that are alike, one is looked at (`_symmetry`); of steps that have
nothing to do with each other, only one order is (`_stubborn_sets`).

The search is bounded by the situations that it expands, never by time: the same question has the
same answer on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass

from cobweb.engine.search._estimate import STEP_COSTS, Estimate
from cobweb.engine.search._moves import Moves, Operator, Situation
from cobweb.engine.search._problem import Problem
from cobweb.engine.search._stubborn_sets import Stubborn
from cobweb.engine.search._symmetry import Key, Symmetry
from cobweb.model import CobId, State, Transition

EXPANDED_CAP = 50_000
"""How many situations a search expands before it gives up."""


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
        self._estimate = Estimate(moves, aims)
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
        heapq.heappush(
            self._heap, (cost + left, left, self._pushed, _Node(now, cost, before, operator))
        )


def _order(last: _Node, expanded: int) -> Order:
    steps: list[tuple[CobId, Transition]] = []
    outs = 0
    node: _Node | None = last
    while node is not None and node.operator is not None:
        steps.append((node.operator.cob, node.operator.step))
        outs += node.operator.outs
        node = node.before
    return Order(steps=tuple(reversed(steps)), outs=outs, expanded=expanded)
