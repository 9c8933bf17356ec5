"""A dumb second engine: breadth-first search over the global states of a small system.

Transitions that run at the same time can be told one after the other (no one's need moves while it
runs), so single steps between global states are all that has to be searched. A lock can be had when
its object is in the state and all locks that it depends on can be had at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from cobweb.model import CobId, Graph, State, Transition

Global = tuple[State, ...]


class Search:
    """The legal moves of one graph by the rules P1 to P4 alone."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ids = sorted(graph.cobs)
        self.at = {cob: index for index, cob in enumerate(self.ids)}
        self.steps = list(graph.transition_needs())
        self.locks = list(graph.lock_needs())

    def reaches(self, start: Mapping[CobId, State], goal: Mapping[CobId, State]) -> bool:
        """Say whether any legal order of steps leads from `start` to `goal`."""
        return self._global(goal) in self.reachable(start)

    def reachable(self, start: Mapping[CobId, State]) -> set[Global]:
        """Return all global states to which legal orders of steps lead."""
        first = self._global(start)
        seen = {first}
        queue = deque([first])
        while queue:
            for after in self._moves(queue.popleft()):
                if after not in seen:
                    seen.add(after)
                    queue.append(after)
        return seen

    def hopeful(self, start: Mapping[CobId, State]) -> set[tuple[CobId, State]]:
        """Return the states that objects reach if nothing that was reached is ever lost again.

        What is not among them is reached by no order at all.
        """
        reached, lent = set(start.items()), set[tuple[CobId, State]]()
        while True:
            new_lent = {
                (cob, name)
                for cob, state in reached
                for name in (state, *self.graph.cobs[cob].type.groups)
                if state in self._members(cob, name)
                and all(
                    (need.on, need.state) in lent
                    for need in self.locks
                    if (need.cob, need.within) == (cob, state)
                )
            }
            new_reached = {
                (cob, step.dest)
                for cob, state in reached
                for step in self.graph.cobs[cob].type.transitions
                if step.source == state and set(self._wanted(cob, step)) <= lent
            }
            if new_lent <= lent and new_reached <= reached:
                return reached
            lent |= new_lent
            reached |= new_reached

    def legal(self, now: Global, cob: CobId, step: Transition) -> bool:
        """Say whether `step` may run in a global state."""
        held = self._held(now, cob, self._wanted(cob, step))
        return held is not None and self._grantable(held)

    def agrees(self, now: Global, cob: CobId, step: Transition) -> bool:
        """Say whether in a global state all is as `step` needs it; the locks may be a circle."""
        return self._held(now, cob, self._wanted(cob, step)) is not None

    def lendable(self, now: Global, cob: CobId, state: State) -> bool:
        """Say whether an object is in a state and all locks of that state can be had."""
        held = self._held(now, None, [(cob, state)])
        return held is not None and self._grantable(held)

    def _wanted(self, cob: CobId, step: Transition) -> list[tuple[CobId, State]]:
        return [
            (need.on, need.state)
            for need in self.steps
            if need.cob == cob and (need.source, need.dest) == (step.source, step.dest)
        ]

    def _held(
        self, now: Global, moving: CobId | None, wanted: list[tuple[CobId, State]]
    ) -> set[tuple[CobId, State]] | None:
        """Return all locks that are held with those wanted; None where not all is as they need."""
        held: set[tuple[CobId, State]] = set()
        while wanted:
            on, name = wanted.pop()
            state = now[self.at[on]]
            if on == moving or state not in self._members(on, name):
                return None
            if (on, state) not in held:
                held.add((on, state))
                wanted += [
                    (need.on, need.state)
                    for need in self.locks
                    if (need.cob, need.within) == (on, state)
                ]
        return held

    def _grantable(self, held: set[tuple[CobId, State]]) -> bool:
        """Say whether the locks can be given one after the other: their needs make no circle."""
        given: set[tuple[CobId, State]] = set()
        while True:
            more = {
                lock
                for lock in held - given
                if all(
                    any((need.on, state) in given for state in self._members(need.on, need.state))
                    for need in self.locks
                    if (need.cob, need.within) == lock
                )
            }
            if not more:
                return given == held
            given |= more

    def _members(self, cob: CobId, name: str) -> tuple[State, ...]:
        """Return the states in which a need for a state, or for a group, is met."""
        return self.graph.cobs[cob].type.members(name)

    def _moves(self, now: Global) -> Iterator[Global]:
        for cob in self.ids:
            index = self.at[cob]
            for step in self.graph.cobs[cob].type.transitions:
                if step.source == now[index] and self.legal(now, cob, step):
                    yield (*now[:index], step.dest, *now[index + 1 :])

    def _global(self, states: Mapping[CobId, State]) -> Global:
        return tuple(states[cob] for cob in self.ids)
