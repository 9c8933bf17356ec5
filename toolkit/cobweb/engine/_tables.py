"""What the rules look up of a COB type, worked out once per type and kind of needs.

A step of the matrix is a `Move` here, one object per step, so that two of them are compared by
identity and counted by number.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobweb.engine._cheapest_way import Steps
from cobweb.model import UNKNOWN, CobType, State, Transition


@dataclass(slots=True, eq=False)
class Move:
    """One step of a matrix and its number in order of declaration."""

    number: int
    step: Transition


class TypeTable:
    """One type: `moves[state][target]` is the first move of the way, missing where none leads on.

    `steps` has the first steps of the cheapest ways; without it they are the shortest ones.
    `states` are from highest to lowest priority, `steps` is how many steps the matrix has.
    `groups[name][state]` is the state that a request for a group is for when asked in `state`.
    """

    def __init__(self, kind: CobType, steps: Steps | None = None) -> None:
        self.states = kind.states
        self.steps = len(kind.transitions)
        self._matrix: dict[tuple[State, State], Move] = {}
        for number, step in enumerate(kind.transitions):
            self._matrix.setdefault((step.source, step.dest), Move(number, step))
        self.moves: dict[State, dict[State, Move]] = {UNKNOWN: {}}
        for state in kind.states:
            self.moves[state] = {}
            for target in kind.states:
                if steps is None:
                    first = next(iter(kind.way(state, target) or ()), None)
                else:
                    first = steps[state].get(target)
                if first is not None:
                    self.moves[state][target] = self._matrix[first.source, first.dest]
        self.groups: dict[str, dict[State, State]] = {
            name: {state: kind.stands_for(name, state) for state in (UNKNOWN, *kind.states)}
            for name in kind.groups
        }

    def number(self, step: Transition) -> int:
        """Return the number of a step of this matrix."""
        return self._matrix[step.source, step.dest].number
