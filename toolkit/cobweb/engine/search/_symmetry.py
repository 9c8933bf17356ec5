"""Objects that are alike are counted, not told apart.

Blocks of objects, each the image of the other, may change places without a change in what is legal
or what it costs: equal hosts, equal groups of objects that need each other, equal objects. Of all
situations that differ only by which block is in which states one is looked at. That two blocks are
alike is never guessed: all that their objects need, all that needs them, and all that counts them
must be the same when the two change places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from cobweb.engine.analysis._circles import parts_of
from cobweb.engine.search._moves import Moves, Roster, Situation
from cobweb.model import State, host_of

Key = Hashable

COMPARED = 4
"""With how many classes of blocks a block is compared before it counts as like no other."""

_Block = tuple[int, ...]
_Place = dict[int, int]
"""Where an object is taken from when two blocks change places."""


class Symmetry:
    """The blocks of one search that are alike; `key` is the same for situations that are.

    `_fresh` are the bits of each object that may yet change: who counts once does so for good.
    """

    def __init__(self, moves: Moves, aims: tuple[State, ...]) -> None:
        self._moves = moves
        self._aims = aims
        self._askers = _askers(moves)
        self._start = moves.start()
        self._bits = _bits(moves)
        by_host = _grouped(range(len(aims)), lambda at: host_of(moves.cobs[at]))
        alone: list[_Block] = [(at,) for at in range(len(aims))]
        found = map(self._alike, (self._tied(), by_host, alone))  # the most are not told apart
        self._classes = max(found, key=lambda classes: sum(len(some) - 1 for some in classes))
        alike = {at for some in self._classes for block in some for at in block}
        self._rest = tuple(at for at in range(len(aims)) if at not in alike)
        self._fresh = [
            [bit for _, _, bit in bits if not self._start.counting & bit] for bits in self._bits
        ]
        self._others = ~sum(bit for at in alike for bit in self._fresh[at])

    def key(self, now: Situation) -> Key:
        """Return the same for all situations that differ only by who is who."""
        if not self._classes:
            return now
        states, counting = now
        sorted_blocks = tuple(
            [
                tuple(sorted([self._value(states, counting, block) for block in some]))
                for some in self._classes
            ]
        )
        return tuple([states[at] for at in self._rest]), counting & self._others, sorted_blocks

    def looks(self, now: Situation) -> list[Hashable]:
        """Return what each object looks like: who looks the same may be taken for each other."""
        found: list[Hashable] = list(range(len(self._aims)))
        for number, some in enumerate(self._classes):
            for block in some:
                value = self._value(now.states, now.counting, block)
                for place, at in enumerate(block):
                    found[at] = (number, place, value)
        return found

    def _tied(self) -> list[_Block]:
        """Return the blocks of objects tied by needs when those like no other are taken away."""
        kinds = _grouped(range(len(self._aims)), self._look)
        left = {at for some in kinds if len(some) > 1 for at in some}
        near: dict[int, list[int]] = {at: [] for at in left}
        for on in left:
            for asker in {asker for asker, _, _ in self._askers[on]} & left:
                near[on].append(asker)
                near[asker].append(on)
        return sorted(tuple(sorted(part)) for part in parts_of(near))

    def _look(self, at: int) -> Hashable:
        """Return what two objects must have in common to be alike at all."""
        cob, problem = self._moves.cobs[at], self._moves.problem
        fresh = problem.standing.serving.get(cob)
        budgets = {number for number, _, _ in self._bits[at]}
        if len(budgets) < len(self._bits[at]):
            return at  # one of two units of the same budget may stand for the other: like no one
        return id(problem.graph.cobs[cob].type), self._aims[at], fresh, len(self._askers[at])

    def _alike(self, blocks: list[_Block]) -> list[list[_Block]]:
        """Return classes of two blocks or more that are alike, each compared with the first."""
        by_look: dict[Hashable, list[list[_Block]]] = {}
        for block in blocks:
            classes = by_look.setdefault(tuple(map(self._look, block)), [])
            for some in classes[:COMPARED]:
                if self._may_swap(some[0], block):
                    some.append(block)
                    break
            else:
                classes.append([block])
        return [some for classes in by_look.values() for some in classes if len(some) > 1]

    def _may_swap(self, one: _Block, other: _Block) -> bool:
        """Say whether nothing changes when two blocks change places."""
        place = dict(zip((*one, *other), (*other, *one), strict=True))
        return all(
            self._acts(at, place) == self._acts(image, {})
            and _placed(self._askers[at], place) == self._askers[image]
            for at, image in place.items()
        ) and self._counted_alike(place)

    def _counted_alike(self, place: _Place) -> bool:
        """Say whether every budget has the same units after some objects have changed places."""
        for number, rosters in enumerate(self._moves.rosters):
            touched = sorted(
                {roster for at in place for each, roster, _ in self._bits[at] if each == number}
            )
            before = Counter(self._counted(rosters[roster], {}) for roster in touched)
            after = Counter(self._counted(rosters[roster], place) for roster in touched)
            if None in before or before != after:
                return False
        return True

    def _counted(self, roster: Roster, place: _Place) -> Hashable:
        """Return all that a budget knows of a unit; None where who never moves may yet count."""
        members: Counter[Hashable] = Counter()
        for it in roster.members:
            if it.at >= 0:
                wakes = roster.mask & it.bit
                members[place.get(it.at, it.at), it.serving, it.gone, wakes != 0] += 1
            elif self._start.counting & it.bit:
                members[it.state in it.serving, it.state == it.gone] += 1
            elif roster.mask & it.bit:
                return None
        return roster.domains, roster.owed, roster.stays, frozenset(members.items())

    def _acts(self, at: int, place: _Place) -> Hashable:
        """Return all that an object can do and needs, after some have changed places."""
        moves = self._moves
        steps = [
            (it.number, it.outs, _placed(it.needs, place))
            for operators in moves.operators[at].values()
            for it in operators
        ]
        kind = moves.problem.graph.cobs[moves.cobs[at]].type
        locks = [(state, _placed(moves.locks_of(at, state), place)) for state in kind.states]
        fixed = not steps and self._start.states[at]
        return tuple(steps), tuple(locks), fixed

    def _value(
        self, states: tuple[State, ...], counting: int, block: _Block
    ) -> tuple[tuple[State, ...], tuple[bool, ...]]:
        bits = [counting & bit != 0 for at in block for bit in self._fresh[at]]
        return tuple([states[at] for at in block]), tuple(bits)


def _askers(moves: Moves) -> list[frozenset[tuple[int, Hashable, frozenset[State]]]]:
    """Return who needs each object: the asker, for which step or state, and in which states."""
    found: list[set[tuple[int, Hashable, frozenset[State]]]] = [set() for _ in moves.cobs]
    for at, by_state in enumerate(moves.operators):
        for operators in by_state.values():
            for it in operators:
                for on, names in it.needs:
                    found[on].add((at, it.number, names))
        for state in moves.problem.graph.cobs[moves.cobs[at]].type.states:
            for on, names in moves.locks_of(at, state):
                found[on].add((at, state, names))
    return [frozenset(some) for some in found]


def _bits(moves: Moves) -> list[list[tuple[int, int, int]]]:
    """Return, for each object, the (budget, unit, bit) of what it is a member of."""
    found: list[list[tuple[int, int, int]]] = [[] for _ in moves.cobs]
    for number, rosters in enumerate(moves.rosters):
        for unit, roster in enumerate(rosters):
            for member in roster.members:
                if member.at >= 0:
                    found[member.at].append((number, unit, member.bit))
    return found


def _grouped(some: Iterable[int], name: Callable[[int], Hashable]) -> list[_Block]:
    """Return objects by what they have in common, in order."""
    found: dict[Hashable, list[int]] = {}
    for at in sorted(some):
        found.setdefault(name(at), []).append(at)
    return [tuple(block) for block in found.values()]


def _placed(some: Iterable[tuple[Any, ...]], place: _Place) -> Hashable:
    """Return conditions, or askers, of objects of which some have changed places."""
    return frozenset((place.get(at, at), *what) for at, *what in some)
