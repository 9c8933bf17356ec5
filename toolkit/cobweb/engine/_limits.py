"""Bounds on transitions that are in flight at once (design, section 5b, `transition:`).

Each group counts by itself. Who finds no room waits in its group and is looked at again, smallest
id first, when room comes: each wait costs one look. Bounds on what is out are the lender's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from cobweb.engine._node import MOVING, Node
from cobweb.model import CobId, Limit, LimitGroup, Transition
from cobweb.model.cob import ANY

if TYPE_CHECKING:
    from cobweb.engine.budgets._shared_routing import BorrowedRooms, LentRooms


@dataclass(slots=True, kw_only=True, eq=False)
class Counter:
    """One group of one limit: who counts now, and who waits for room.

    Where engines share it, `far` are the members that others own. The lender knows which of them
    are `away`: have room, or have not told. At a borrower room is lent: `lent` says to whom.
    """

    limit: Limit
    group: LimitGroup
    far: frozenset[CobId] = frozenset()
    away: set[CobId] = field(default_factory=set)
    lent: set[CobId] | None = None
    busy: set[CobId] = field(default_factory=set)
    waiting: list[CobId] = field(default_factory=list)
    queued: set[CobId] = field(default_factory=set)

    @property
    def room(self) -> bool:
        return len(self.busy) + len(self.away) < self.group.bound

    @property
    def label(self) -> str:
        return f"{self.limit.name} ({self.group.name})" if self.group.name else self.limit.name

    def lacks_room(self, cob: CobId, step: Transition) -> bool:
        """Say whether `step` takes room here that the object does not have yet, nor gets now."""
        no_room = not self.room if self.lent is None else cob not in self.lent
        return no_room and cob not in self.busy and is_about(self.limit, step)

    def counts(self, node: Node) -> bool:
        """Say whether the object takes room now."""
        moving = node.suspect or node.activity is MOVING
        return moving and node.step is not None and is_about(self.limit, node.step)


class LimitBook:
    """All limits, found by object; only owned objects count. `limits`: whether there are any.

    `rooms` is who speaks of them with other engines, if there are some that share them.
    """

    def __init__(self, limits: Iterable[Limit], nodes: Mapping[CobId, Node]) -> None:
        self.rooms: LentRooms | BorrowedRooms | None = None
        self._by_member: dict[CobId, list[Counter]] = {}
        self._freed: dict[Counter, None] = {}
        self._all: list[Counter] = []
        for limit in limits:
            for group in limit.groups:
                counter = Counter(limit=limit, group=group)
                self._all.append(counter)
                for member in sorted(group.members):
                    if member in nodes:
                        self._by_member.setdefault(member, []).append(counter)
        self.limits = bool(self._by_member)

    def share(self, nodes: Mapping[CobId, Node]) -> list[Counter]:
        """Have all groups know of their members that other engines own, and return them."""
        for counter in self._all:
            counter.far = counter.group.members.difference(nodes)
        return self._all

    def update(self, node: Node) -> None:
        """Count the object anew after its state or activity changed."""
        for counter in self._by_member.get(node.id, ()):
            if counter.counts(node):
                counter.busy.add(node.id)
            elif node.id in counter.busy:
                counter.busy.discard(node.id)
                self.free(counter)

    def full(self, node: Node, step: Transition) -> Counter | None:
        """Return the first group that has no room for `step`."""
        counters = self._by_member.get(node.id, ())
        return next((it for it in counters if it.lacks_room(node.id, step)), None)

    def wait(self, node: Node, step: Transition) -> bool:
        """Queue the object where there is no room for `step`; say whether it has to wait."""
        counter = self.full(node, step)
        if counter is None:
            return False
        if counter.lent is None and node.id not in counter.queued:
            counter.queued.add(node.id)
            heappush(counter.waiting, node.id)
        if self.rooms is not None:
            self.rooms.want(counter, node.id)
        return True

    def next_waiting(self) -> CobId | None:
        """Take the next object that may find room now, smallest id first."""
        while self._freed:
            counter = next(iter(self._freed))
            if counter.room and counter.waiting:
                cob = heappop(counter.waiting)
                counter.queued.discard(cob)
                return cob
            del self._freed[counter]
        return None

    def counters(self, cob: CobId) -> list[Counter]:
        """Return the groups of limits that an object belongs to."""
        return self._by_member.get(cob, [])

    def free(self, counter: Counter) -> None:
        """Have those looked at that wait for room: there may be some."""
        self._freed.setdefault(counter)


def is_about(limit: Limit, step: Transition) -> bool:
    """Say whether a step takes room in a limit while it is in flight."""
    return limit.source in (ANY, step.source) and limit.dest in (ANY, step.dest)
