"""Which objects are sure to reach their goal, by the shortest way and what it needs alone.

An object reaches a state if there is a way to it, and all that the steps of the shortest way and
the locks of the state need reaches its state too, without coming back to where the question began.
That is a proof where it holds; where it does not, a longer way may still do, and `_reach` looks
into it. In a site that works nothing is left over, and it costs one look at each need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cobweb.engine.analysis._patterns import Pattern, Patterns, Positions
from cobweb.model import CobId, CobType, Graph, State

_Lock = tuple[CobId, State]
_ByType = Callable[[CobType], State]


def unproven(graph: Graph, patterns: Patterns, start: _ByType, goal: _ByType) -> set[CobId]:
    """Return the objects that are not shown to reach the goal of their type from its start."""
    search = _Search(graph, patterns, start)
    types = {id(cob.type): cob.type for cob in graph.cobs.values()}
    lost = {key for key, kind in types.items() if kind.way(start(kind), goal(kind)) is None}
    left = {cob for cob, it in graph.cobs.items() if id(it.type) in lost} if lost else set()
    for cob in patterns.having(lambda pattern: search.positions(pattern, goal(pattern.type)) != ()):
        if not search.proves(cob, goal(graph.cobs[cob].type)):
            left.add(cob)
    return left


class _Search:
    """Depth first, without recursion; what is under way counts as not proven."""

    def __init__(self, graph: Graph, patterns: Patterns, start: _ByType) -> None:
        self._cobs = graph.cobs
        self._patterns = patterns
        self._start = start
        self._proven: dict[_Lock, bool] = {}
        self._positions: dict[tuple[Pattern, State], Positions | None] = {}

    def positions(self, pattern: Pattern, state: State) -> Positions | None:
        """Return which needs lead to a state and hold there; None where there is no way to it."""
        key = (pattern, state)
        if key not in self._positions:
            way = pattern.type.way(self._start(pattern.type), state)
            steps = [] if way is None else [pattern.of_step(s.source, s.dest) for s in way]
            found = {at for positions in (*steps, pattern.of_state(state)) for at in positions}
            self._positions[key] = None if way is None else tuple(sorted(found))
        return self._positions[key]

    def proves(self, cob: CobId, state: State) -> bool:
        """Say whether the state is sure to be reached and lent."""
        root = (cob, state)
        if root in self._proven:
            return self._proven[root]
        self._proven[root] = False
        stack = [(root, self._needed(root))] if self._has_way(root) else []
        while stack:
            lock, rest = stack[-1]
            ahead = next((after for after in rest if not self._proven.get(after)), None)
            if ahead is None:
                self._proven[lock] = True
                stack.pop()
            elif ahead in self._proven or not self._has_way(ahead):
                return False  # and so does all on the stack, which needs it
            else:
                self._proven[ahead] = False
                stack.append((ahead, self._needed(ahead)))
        return self._proven[root]

    def _has_way(self, lock: _Lock) -> bool:
        kind = self._cobs[lock[0]].type
        return kind.way(self._start(kind), lock[1]) is not None

    def _needed(self, lock: _Lock) -> Iterator[_Lock]:
        cob, state = lock
        pattern = self._patterns.of(cob)
        if pattern is not None:
            needs = self._patterns.needs[cob]
            for at in self.positions(pattern, state) or ():
                yield self._concrete(needs[at].on, needs[at].state)

    def _concrete(self, cob: CobId, name: str) -> _Lock:
        """Return the lock that is asked for at first: of a group, that on the nearest state."""
        kind = self._cobs[cob].type
        return cob, kind.stands_for(name, self._start(kind)) if kind.groups else name
