"""Which states can be reached at all if nothing that was reached is ever lost again.

This is the delete relaxation of planning: it errs on the hopeful side only, so what it does not
reach can never be reached. Each step and each lock watches the first thing that it lacks, so every
need is looked at about once: linear in the needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from cobweb.engine._needs import Wanted
from cobweb.engine.analysis._patterns import Patterns
from cobweb.model import CobId, Graph, State, Transition

_Lock = tuple[CobId, State]
_Watcher = tuple[CobId, State, Transition | None, int]
"""Who waits, in which state, for which step (None: to lend it), from which need on."""


class Reach:
    """The closure of one start state per object.

    `lockable` is each (object, state or group of states) that can be lent.
    """

    def __init__(self, graph: Graph, index: Patterns, starts: Mapping[CobId, State]) -> None:
        self._graph = graph
        self._index = index
        self.reached: set[_Lock] = set()
        self.lockable: set[_Lock] = set()
        self._watchers: dict[_Lock, list[_Watcher]] = {}
        self._queue: deque[_Lock] = deque()
        self._woken: deque[_Watcher] = deque()
        for cob, state in starts.items():
            self._arrive(cob, state)
        while self._queue or self._woken:
            if self._woken:
                self._try(*self._woken.popleft())
                continue
            cob, state = self._queue.popleft()  # just reached: all that can be done there is tried
            self._try(cob, state, None, 0)
            for step in graph.cobs[cob].type.transitions:
                if step.source == state:
                    self._try(cob, state, step, 0)

    def lacks(self, wanted: Wanted) -> _Lock | None:
        """Return the first wanted lock that can never be had."""
        return next((pair for pair in wanted if pair not in self.lockable), None)

    def _arrive(self, cob: CobId, state: State) -> None:
        self.reached.add((cob, state))
        self._queue.append((cob, state))

    def _try(self, cob: CobId, state: State, step: Transition | None, first: int) -> None:
        """Go on from the need number `first`; all before it are met for good."""
        if step is None:
            wanted = self._index.of_state(cob, state)
        elif (cob, step.dest) in self.reached:
            return
        else:
            wanted = self._index.of_step(cob, step.source, step.dest)
        for at in range(first, len(wanted)):
            if wanted[at] not in self.lockable:
                self._watchers.setdefault(wanted[at], []).append((cob, state, step, at))
                return
        if step is not None:
            self._arrive(cob, step.dest)
        else:
            self._lend(cob, state)

    def _lend(self, cob: CobId, state: State) -> None:
        groups = self._graph.cobs[cob].type.groups
        for name in (state, *(name for name, members in groups.items() if state in members)):
            self.lockable.add((cob, name))
            self._woken.extend(self._watchers.pop((cob, name), ()))
