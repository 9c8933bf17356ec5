"""Which states can be reached at all if nothing that was reached is ever lost again.

This is the delete relaxation of planning: it errs on the hopeful side only, so what it does not
reach can never be reached. Each step and each lock watches the first thing that it lacks, so every
need is looked at about once: linear in the needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from cobweb.engine._needs import NeedIndex, Wanted
from cobweb.model import CobId, Graph, State, Transition

__all__ = ["Reach"]

_Lock = tuple[CobId, State]


class Reach:
    """The closure of the start states; `lockable` are the (object, state) that can be lent."""

    __slots__ = ("_graph", "_index", "_queue", "_watchers", "lockable", "reached")

    def __init__(
        self, graph: Graph, index: NeedIndex, starts: Mapping[CobId, Iterable[State]]
    ) -> None:
        self._graph = graph
        self._index = index
        self.reached: set[_Lock] = set()
        self.lockable: set[_Lock] = set()
        self._watchers: dict[_Lock, list[tuple[CobId, State, Transition | None]]] = {}
        self._queue: deque[_Lock] = deque()
        for cob, states in starts.items():
            for state in states:
                self._arrive(cob, state)
        while self._queue:
            cob, state = self._queue.popleft()
            self._try_lock(cob, state)
            for step in self._graph.cobs[cob].type.transitions:
                if step.source == state:
                    self._try_step(cob, step)

    def lacks(self, wanted: Wanted) -> _Lock | None:
        """Return the first wanted lock that can never be had."""
        return next((pair for pair in wanted if pair not in self.lockable), None)

    def _arrive(self, cob: CobId, state: State) -> None:
        if (cob, state) not in self.reached:
            self.reached.add((cob, state))
            self._queue.append((cob, state))

    def _try_lock(self, cob: CobId, state: State) -> None:
        lacking = self.lacks(self._index.of_state(cob, state))
        if lacking is not None:
            self._watchers.setdefault(lacking, []).append((cob, state, None))
        elif (cob, state) not in self.lockable:
            self.lockable.add((cob, state))
            for who, what, step in self._watchers.pop((cob, state), ()):
                if step is None:
                    self._queue.append((who, what))
                else:
                    self._try_step(who, step)

    def _try_step(self, cob: CobId, step: Transition) -> None:
        if (cob, step.dest) in self.reached:
            return
        lacking = self.lacks(self._index.of_step(cob, step.source, step.dest))
        if lacking is None:
            self._arrive(cob, step.dest)
        else:
            self._watchers.setdefault(lacking, []).append((cob, step.source, step))
