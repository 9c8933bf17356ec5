"""Objects whose needs look alike, so that a large graph is thought about once per pattern.

Two objects have the same pattern if they are of the same type and their needs, in order, have the
same kind, states and type of what is needed. What a step or a state asks for is then the same
positions in the need lists of both, and most questions of the analysis are answered by the pattern
alone: a site has thousands of hosts and a few dozen patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from cobweb.engine._needs import Wanted
from cobweb.model import CobId, CobType, Graph, LockNeed, Need, State, TransitionNeed

Positions = tuple[int, ...]
"""Which of an object's needs are meant, in order."""


class Pattern:
    """One type with the needs of an object as an example; `ons` are the types of what is needed."""

    def __init__(self, type_: CobType, needs: Sequence[Need], ons: Sequence[CobType]) -> None:
        self.type = type_
        self.needs = tuple(needs)
        self.ons = tuple(ons)
        self._covering: dict[tuple[State, ...], Positions] = {}

    def of_step(self, source: State, dest: State) -> Positions:
        """Return which needs are transition dependencies of one step."""
        return self._positions(TransitionNeed, source, dest)

    def of_state(self, state: State) -> Positions:
        """Return which needs are lock dependencies of one state."""
        return self._positions(LockNeed, state)

    def _positions(self, kind: Any, *states: State) -> Positions:
        if states not in self._covering:
            mine = [(at, it) for at, it in enumerate(self.needs) if isinstance(it, kind)]
            self._covering[states] = tuple(at for at, need in mine if need.covers(*states))
        return self._covering[states]

    def asks_away(self, positions: Iterable[int]) -> bool:
        """Say whether some of the needs ask another object out of its preferred state."""
        pairs = ((self.needs[at], self.ons[at]) for at in positions)
        return any(on.preferred not in on.members(need.state) for need, on in pairs)

    def pairs(self, positions: Positions) -> frozenset[tuple[int, State]]:
        """Return the needs as (identity of the type, state), without the objects.

        A need for a group is as many as the group has states.
        """
        return frozenset(
            (id(self.ons[at]), state)
            for at in positions
            for state in self.ons[at].members(self.needs[at].state)
        )


class Patterns:
    """The needs of each object of a graph, by pattern; construction is linear in the needs.

    `needs` has the needs of each object that has some, in the graph's order; `leaning` are the
    (identity of a type, state) in which some object has lock dependencies.
    """

    def __init__(self, graph: Graph) -> None:
        self.needs: dict[CobId, list[Need]] = {}
        self._number: dict[CobId, int] = {}
        self._wanted: dict[tuple[CobId, Positions], Wanted] = {}
        self._group(graph)
        self._by_number: dict[int, Pattern] = {}
        for number, cob in {number: cob for cob, number in self._number.items()}.items():
            needs = self.needs[cob]
            ons = [graph.cobs[need.on].type for need in needs]
            self._by_number[number] = Pattern(graph.cobs[cob].type, needs, ons)
        self.leaning = frozenset(
            (id(pattern.type), state)
            for pattern in self._by_number.values()
            for state in pattern.type.states
            if pattern.of_state(state)
        )

    def all(self) -> Collection[Pattern]:
        """Return every pattern that there is."""
        return self._by_number.values()

    def of(self, cob: CobId) -> Pattern | None:
        """Return the pattern of an object; None if it needs nothing."""
        number = self._number.get(cob)
        return None if number is None else self._by_number[number]

    def having(self, wanted: Callable[[Pattern], object]) -> Mapping[CobId, Pattern]:
        """Return the objects whose pattern is `wanted`, by sorted id; asked once per pattern."""
        chosen = {number: it for number, it in self._by_number.items() if wanted(it)}
        if not chosen:
            return {}
        cobs = sorted(cob for cob, number in self._number.items() if number in chosen)
        return {cob: chosen[self._number[cob]] for cob in cobs}

    def of_step(self, cob: CobId, source: State, dest: State) -> Wanted:
        """Return the transition dependencies of one step."""
        pattern = self.of(cob)
        return self.pairs(cob, pattern.of_step(source, dest)) if pattern else ()

    def of_state(self, cob: CobId, state: State) -> Wanted:
        """Return the lock dependencies of one state."""
        pattern = self.of(cob)
        return self.pairs(cob, pattern.of_state(state)) if pattern else ()

    def pairs(self, cob: CobId, positions: Positions) -> Wanted:
        """Return what some of the needs of an object ask for."""
        if not positions:
            return ()
        key = (cob, positions)
        if key not in self._wanted:
            needs = self.needs[cob]
            self._wanted[key] = tuple(sorted({(needs[at].on, needs[at].state) for at in positions}))
        return self._wanted[key]

    def _group(self, graph: Graph) -> None:
        """Fill `needs` and give equal lists of shapes equal numbers.

        A number stands for a list: that of the number before it and one shape more. The first list
        of a type has the type's identity for the number before it, which no other number is.
        """
        cobs, needs, numbers = graph.cobs, self.needs, self._number
        longer: dict[tuple[object, ...], int] = {}
        for need in graph.needs:
            cob = need.cob
            before = numbers.get(cob, id(cobs[cob].type))
            kind = id(cobs[need.on].type)
            shape: tuple[object, ...]
            if isinstance(need, TransitionNeed):
                shape = (before, need.source, need.dest, need.state, kind)
            else:
                shape = (before, need.within, None, need.state, kind)
            numbers[cob] = longer.setdefault(shape, -len(longer))
            needs.setdefault(cob, []).append(need)
