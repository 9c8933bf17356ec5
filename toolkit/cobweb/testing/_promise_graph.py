"""The graph as the checker of the promises keeps it: numbers and arrays, nothing per need.

Objects are numbered in the order of the graph; their types, and what needs say besides whom they
are between, come in few kinds. So half a million objects with a million needs take tens of
megabytes, and what was counted of each need is one byte beside it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Generic, TypeVar

from cobweb.model import CobId

Step = tuple[str, str]
W = TypeVar("W", Step, str)

MOST = 255
"""What a counter of one byte counts to."""

MANY = 32
"""How many needs of one object are looked through one by one; more are found by a table."""


Groups = tuple[tuple[str, tuple[str, ...]], ...]
"""Groups of states: a name and the states, each."""


class Kind:
    """What objects have in common: states, the one to end in, matrix, groups of states, limits."""

    def __init__(
        self,
        states: Iterable[str],
        goal: str,
        steps: Iterable[Step],
        groups: Groups = (),
        limits: tuple[str, ...] = (),
    ) -> None:
        self.states = frozenset(states)
        self.goal = goal
        self.steps = tuple(dict.fromkeys(steps))
        self.groups = {name: frozenset(members) for name, members in groups}
        self.limits = limits

    def members(self, name: str) -> frozenset[str]:
        """Return the states in which a need for a group, or for a single state, is met."""
        return self.groups.get(name) or frozenset((name,))


class Needs(Generic[W]):
    """Needs of one sort, by object: for which way (a step or a state), on whom, in which state."""

    def __init__(self) -> None:
        self._cobs = array("l")
        self._ons = array("l")
        self._codes = array("l")
        self._code_of: dict[tuple[W, str], int] = {}
        self._says: list[tuple[W, str]] = []
        self._first = array("l")
        self._asked = bytearray()
        self._slots: dict[int, dict[tuple[int, str], int]] = {}

    def add(self, cob: int, way: W, on: int, state: str) -> None:
        """Take in one need; `close` has to follow."""
        says = (way, state)
        code = self._code_of.setdefault(says, len(self._says))
        if code == len(self._says):
            self._says.append(says)
        self._cobs.append(cob)
        self._ons.append(on)
        self._codes.append(code)

    def close(self, cobs: int) -> None:
        """Sort the needs by object, each one's in the order in which they came; linear."""
        counts = [0] * (cobs + 1)
        for cob in self._cobs:
            counts[cob + 1] += 1
        self._first = array("l", accumulate(counts))
        place = self._first[:]
        ons, codes = self._ons[:], self._codes[:]
        for cob, on, code in zip(self._cobs, self._ons, self._codes, strict=True):
            at = place[cob]
            ons[at], codes[at] = on, code
            place[cob] = at + 1
        self._ons, self._codes, self._cobs = ons, codes, array("l")
        self._asked = bytearray(len(ons))

    def of(self, cob: int) -> Iterator[tuple[W, int, str]]:
        """Yield the way, the object and the state of each need of `cob`."""
        for at in range(self._first[cob], self._first[cob + 1]):
            way, state = self._says[self._codes[at]]
            yield way, self._ons[at], state

    def on(self, cob: int, way: W) -> list[tuple[int, str]]:
        """Return what `cob` needs for one way: objects and their states."""
        return [(on, state) for for_way, on, state in self.of(cob) if for_way == way]

    def asks(self, cob: int, on: int, state: str) -> int:
        """Count that `cob` asks for a lock; return how often, 0 if no need of it says so."""
        at = self._slot(cob, on, state)
        if at < 0:
            return 0
        often = self._asked[at] = min(MOST, self._asked[at] + 1)
        return often

    def _slot(self, cob: int, on: int, state: str) -> int:
        """Return the place of the first need of `cob` for a lock, or -1."""
        first, last = self._first[cob], self._first[cob + 1]
        if last - first > MANY:
            return self._slots_of(cob).get((on, state), -1)
        for at in range(first, last):
            if self._ons[at] == on and self._says[self._codes[at]][1] == state:
                return at
        return -1

    def _slots_of(self, cob: int) -> dict[tuple[int, str], int]:
        """Return the places of the needs of an object that has many of them."""
        slots = self._slots.get(cob)
        if slots is None:
            slots = self._slots[cob] = {}
            for at in range(self._first[cob], self._first[cob + 1]):
                slots.setdefault((self._ons[at], self._says[self._codes[at]][1]), at)
        return slots


NO_KIND = Kind((), "", ())
"""Of an object that a graph has not."""


class PromiseGraph:
    """The objects and needs of a graph as `graph -o json` has them; each list is read once.

    Two graphs that are read together number their objects alike. What a need speaks of and no graph
    has gets a number behind all others, and no state.
    """

    def __init__(self, number: dict[CobId, int]) -> None:
        self.number = number
        self.names: list[CobId] = []
        self.kinds: list[Kind] = []
        self.has_groups = False
        self.steps: Needs[Step] = Needs()
        self.locks: Needs[str] = Needs()

    def has(self, cob: int) -> bool:
        """Say whether the graph has an object."""
        return self.kinds[cob] is not NO_KIND

    def ons(self, cob: int) -> set[int]:
        """Return all objects that the needs of one speak of."""
        return {on for sort in (self.steps, self.locks) for _, on, _ in sort.of(cob)}

    def takes(self, cob: int, step: Step) -> int:
        """Count that `cob` takes a step of its matrix; return how often, 0 if it has no such."""
        steps = self.kinds[cob].steps
        if step not in steps:
            return 0
        at = self._first_step[cob] + steps.index(step)
        often = self._taken[at] = min(MOST, self._taken[at] + 1)
        return often

    def read_cobs(self, cobs: Iterable[Mapping[str, Any]], goal: str) -> None:
        """Take in the objects; `goal` is the key of the state in which they have to end."""
        known: dict[Any, Kind] = {}
        for cob in cobs:
            steps = tuple((source, dest) for source, dest in cob["transitions"])
            groups = tuple((name, tuple(it)) for name, it in cob.get("groups", {}).items())
            self.has_groups = self.has_groups or bool(groups)
            limits = tuple(cob.get("limits", ()))
            key = (tuple(cob["states"]), cob[goal], steps, groups, limits)
            kind = known.get(key)
            if kind is None:
                kind = known[key] = Kind(*key)
            number = self.number.setdefault(cob["id"], len(self.number))
            self._reach(number + 1)
            self.kinds[number] = kind

    def read_needs(
        self, needs: Iterable[Mapping[str, Any]], names: list[CobId], others: dict[CobId, int]
    ) -> None:
        """Take in the needs when the objects of all graphs are numbered, as in `names`."""
        self._reach(len(self.number))
        self.names = names
        for need in needs:
            cob = self.number.get(need["cob"])
            if cob is None or not self.has(cob):
                continue  # nothing that is told of it gets as far as its needs
            on = self.number.get(need["on"])
            if on is None:
                on = others.setdefault(need["on"], len(names))
                if on == len(names):
                    names.append(need["on"])
            if "from" in need:
                self.steps.add(cob, (need["from"], need["to"]), on, need["state"])
            else:
                self.locks.add(cob, need["in"], on, need["state"])
        for sort in (self.steps, self.locks):
            sort.close(len(self.kinds))
        self._first_step = array("l", accumulate((len(k.steps) for k in self.kinds), initial=0))
        self._taken = bytearray(self._first_step[-1])

    def _reach(self, size: int) -> None:
        self.kinds.extend([NO_KIND] * (size - len(self.kinds)))


def read_graphs(
    graph: Mapping[str, Any], before: Mapping[str, Any] | None
) -> tuple[PromiseGraph, PromiseGraph | None]:
    """Return the graph, and the one before, of which what is gone has to end removed."""
    number: dict[CobId, int] = {}
    now, old = PromiseGraph(number), PromiseGraph(number)
    now.read_cobs(graph["cobs"], "preferred")
    if before is not None:
        old.read_cobs(before["cobs"], "remove")
    names, others = list(number), dict[CobId, int]()
    now.read_needs(graph["needs"], names, others)
    if before is None:
        return now, None
    old.read_needs(before["needs"], names, others)
    return now, old


def parts_of(graph: PromiseGraph, old: PromiseGraph | None) -> list[int]:
    """Return a number for each object, which is the same for those that needs join."""
    first = list(range(len(graph.kinds)))

    def find(cob: int) -> int:
        while first[cob] != cob:
            first[cob] = first[first[cob]]
            cob = first[cob]
        return cob

    for it in (graph, old) if old else (graph,):
        for cob in range(len(it.kinds)):
            for on in it.ons(cob):
                if on < len(first):
                    first[find(on)] = find(cob)
    return [find(cob) for cob in range(len(first))]
