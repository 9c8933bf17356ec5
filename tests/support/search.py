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
        first, last = self._global(start), self._global(goal)
        seen = {first}
        queue = deque([first])
        while queue:
            now = queue.popleft()
            if now == last:
                return True
            for after in self._moves(now):
                if after not in seen:
                    seen.add(after)
                    queue.append(after)
        return False

    def legal(self, now: Global, cob: CobId, step: Transition) -> bool:
        """Say whether `step` may run in a global state."""
        wanted = [
            (need.on, need.state)
            for need in self.steps
            if need.cob == cob and (need.source, need.dest) == (step.source, step.dest)
        ]
        held: set[tuple[CobId, State]] = set()
        while wanted:
            on, name = wanted.pop()
            state = now[self.at[on]]
            if on == cob or state not in self._members(on, name):
                return False
            if (on, state) not in held:
                held.add((on, state))
                wanted += [
                    (need.on, need.state)
                    for need in self.locks
                    if (need.cob, need.within) == (on, state)
                ]
        return self._grantable(held)

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
