"""Which of the legal steps have to be looked at (strong stubborn sets; Wehrle and Helmert 2014).

Of steps that have nothing to do with each other, one order is enough. The set begins with the
steps that bring one object where it should be. A step in it that is legal draws in all that it
could make illegal, or that could make it illegal; one that is not draws in those without which it
never becomes legal. Some cheapest order from here begins with a legal step of the set, and if
there is none, there is no order at all.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from functools import cache
from itertools import chain

from cobweb.engine.analysis._circles import reached
from cobweb.engine.search._moves import Moves, Operator, Room, Situation
from cobweb.engine.search._symmetry import Symmetry
from cobweb.model import State

AIMS_TRIED = 8
"""From how many unlike objects that are not at home a set is begun; the smallest is taken."""


class Stubborn:
    """The stubborn sets of all situations of one search.

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
            if len(best) <= 1 or len(tried) == AIMS_TRIED:
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
