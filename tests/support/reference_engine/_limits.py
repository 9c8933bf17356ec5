"""Bounds on transitions that are in flight at once.

Each group counts by itself. Who finds no room waits in its group and is looked at again, smallest
id first, when room comes: each wait costs one look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from cobweb.model import CobId, Limit, LimitGroup, Transition
from cobweb.model.cob import ANY
from tests.support.reference_engine._node import Activity, Node

__all__ = ["LimitBook"]


@dataclass(slots=True, kw_only=True, eq=False)
class _Counter:
    """One group of one limit: who counts now, and who waits for room."""

    limit: Limit
    group: LimitGroup
    busy: set[CobId] = field(default_factory=set)
    waiting: list[CobId] = field(default_factory=list)
    queued: set[CobId] = field(default_factory=set)
    freed: bool = False

    @property
    def room(self) -> bool:
        return len(self.busy) < self.group.bound

    @property
    def label(self) -> str:
        return f"{self.limit.name} ({self.group.name})" if self.group.name else self.limit.name

    def asks(self, node: Node, step: Transition) -> bool:
        """Say whether `step` takes room here that the object does not have yet."""
        return node.id not in self.busy and self._matches(step)

    def counts(self, node: Node) -> bool:
        """Say whether the object takes room now."""
        moving = node.suspect or node.activity is Activity.MOVING
        return moving and node.step is not None and self._matches(node.step)

    def _matches(self, step: Transition) -> bool:
        source, dest = self.limit.source, self.limit.dest
        return source in (ANY, step.source) and dest in (ANY, step.dest)


class LimitBook:
    """All limits, found by object; only owned objects count."""

    __slots__ = ("_by_member", "_freed")

    def __init__(self, limits: Iterable[Limit], nodes: Mapping[CobId, Node]) -> None:
        self._by_member: dict[CobId, list[_Counter]] = {}
        self._freed: list[_Counter] = []
        for limit in limits:
            for group in limit.groups:
                counter = _Counter(limit=limit, group=group)
                for member in sorted(group.members):
                    if member in nodes:
                        self._by_member.setdefault(member, []).append(counter)

    def update(self, node: Node) -> None:
        """Count the object anew after its state or activity changed."""
        for counter in self._by_member.get(node.id, ()):
            if counter.counts(node):
                counter.busy.add(node.id)
            elif node.id in counter.busy:
                counter.busy.discard(node.id)
                if not counter.freed:
                    counter.freed = True
                    self._freed.append(counter)

    def full(self, node: Node, step: Transition) -> str:
        """Return the name of the first limit that has no room for `step`, or ""."""
        counter = self._full(node, step)
        return "" if counter is None else counter.label

    def in_the_way(self, node: Node, step: Transition) -> tuple[CobId, ...]:
        """Return who takes the room that `step` needs, sorted."""
        counter = self._full(node, step)
        return () if counter is None else tuple(sorted(counter.busy))

    def wait(self, node: Node, step: Transition) -> bool:
        """Queue the object where there is no room for `step`; say whether it has to wait."""
        counter = self._full(node, step)
        if counter is None:
            return False
        if node.id not in counter.queued:
            counter.queued.add(node.id)
            heappush(counter.waiting, node.id)
        return True

    def next_waiting(self) -> CobId | None:
        """Take the next object that may find room now, smallest id first."""
        while self._freed:
            counter = self._freed[0]
            if counter.room and counter.waiting:
                cob = heappop(counter.waiting)
                counter.queued.discard(cob)
                return cob
            counter.freed = False
            self._freed.pop(0)
        return None

    def _full(self, node: Node, step: Transition) -> _Counter | None:
        counters = self._by_member.get(node.id, ())
        return next((c for c in counters if not c.room and c.asks(node, step)), None)
