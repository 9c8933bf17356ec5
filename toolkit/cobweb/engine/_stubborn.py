"""Which of the legal steps have to be looked at (strong stubborn sets; Wehrle and Helmert 2014).

Of steps that have nothing to do with each other, one order is enough. The set begins with the
steps that bring one object where it should be. A step in it that is legal draws in all that it
could make illegal, or that could make it illegal; one that is not draws in those without which it
never becomes legal. Some cheapest order from here begins with a legal step of the set, and if
there is none, there is no order at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cobweb.engine._moves import Moves, Operator, Room, Situation
from cobweb.model import State

__all__ = ["Stubborn"]

AIMS_TRIED = 8
"""From how many objects that are not where they should be a set is begun; the smallest is taken."""


class Stubborn:
    """The stubborn sets of all situations of one search."""

    __slots__ = ("_aims", "_by_on", "_disturbing", "_giving", "_moves", "_supports", "_taking")

    def __init__(self, moves: Moves, aims: tuple[State, ...]) -> None:
        self._moves = moves
        self._aims = aims
        self._by_on: dict[int, list[Operator]] = {}
        self._supports: dict[Operator, frozenset[int]] = {}
        self._giving: dict[int, list[Operator]] = {}
        self._taking: dict[int, list[Operator]] = {}
        self._disturbing: dict[Operator, tuple[Operator, ...]] = {}
        closures: dict[int, frozenset[int]] = {}
        for operator in self._operators():
            support = frozenset[int]().union(
                *(_closure(moves, on, closures) for on, _ in operator.needs)
            )
            self._supports[operator] = support
            for on in sorted(support):
                self._by_on.setdefault(on, []).append(operator)
            for number in sorted({number for number, _, _ in operator.slots}):
                self._taking.setdefault(number, []).append(operator)
            for number in sorted({number for number, _ in operator.given}):
                self._giving.setdefault(number, []).append(operator)

    def choice(self, now: Situation) -> Collection[Operator]:
        """Return legal steps of which one begins a cheapest order, if there is any order."""
        room, best, tried = self._moves.room(now), None, 0
        for at, aim in enumerate(self._aims):
            if now.states[at] == aim:
                continue
            found = self._grown(now, room, self._entering(at, frozenset((aim,))))
            if best is None or len(found) < len(best):
                best = found
            tried += 1
            if len(best) <= 1 or tried == AIMS_TRIED:
                break
        return best or ()

    def _grown(self, now: Situation, room: Room, first: list[Operator]) -> list[Operator]:
        """Return the legal steps of the smallest closed set that has some steps in it."""
        seen, stack, legal = set(first), list(first), []
        while stack:
            operator = stack.pop()
            if self._moves.allows(now, operator, room):
                legal.append(operator)
                more = self._disturbs(operator)
            else:
                more = self._enabling(now, room, operator)
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
        if lacking is None:
            full = self._moves.full(now, operator, room)
            return () if full is None else self._giving.get(full, ())
        return [it for on, names in lacking for it in self._entering(on, names)]

    def _entering(self, at: int, names: frozenset[State]) -> list[Operator]:
        """Return the steps of an object into one of some states, or, without any, all of them."""
        return [
            it
            for source, operators in self._moves.operators[at].items()
            for it in operators
            if not names or (it.dest in names and source not in names)
        ]

    def _disturbs(self, operator: Operator) -> Collection[Operator]:
        """Return the steps that may make this one illegal, or the other way round."""
        if operator not in self._disturbing:
            self._disturbing[operator] = tuple(self._found(operator))
        return self._disturbing[operator]

    def _found(self, operator: Operator) -> Iterator[Operator]:
        yield from self._moves.operators[operator.at][operator.source]
        for on in sorted(self._supports[operator]):
            for operators in self._moves.operators[on].values():
                yield from (it for it in operators if self._breaks(it, operator))
        for it in self._by_on.get(operator.at, ()):
            if self._breaks(operator, it):
                yield it
        yield from self._found_by_room(operator)

    def _found_by_room(self, operator: Operator) -> Iterator[Operator]:
        """Yield who takes the same room, or gives or takes what makes a step a repair."""
        for number, unit, _ in operator.slots:
            yield from self._taking[number]
            yield from (it for it in self._giving.get(number, ()) if (number, unit) in it.given)
        for touched in operator.given:
            for it in self._taking.get(touched[0], ()):
                if any(slot[:2] == touched for slot in it.slots):
                    yield it

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

    def _operators(self) -> Iterator[Operator]:
        for by_state in self._moves.operators:
            for operators in by_state.values():
                yield from operators


def _closure(moves: Moves, at: int, known: dict[int, frozenset[int]]) -> frozenset[int]:
    """Return an object and all that a lock on it may depend on, in whatever states."""
    if at not in known:
        found, stack = {at}, [at]
        while stack:
            for on in moves.lends_on(stack.pop()):
                if on not in found:
                    found.add(on)
                    stack.append(on)
        known[at] = frozenset(found)
    return known[at]
