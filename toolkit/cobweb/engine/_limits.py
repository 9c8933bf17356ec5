"""Bounds on objects that are busy or out of their preferred state at once (design, section 3).

Each group counts by itself. Who finds no room waits in its group and is looked at again, smallest
id first, when room comes: each wait costs one look. Who has to wait for the canary of a limit waits
with the canary until that is through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from cobweb.engine._canary import CanaryWatch
from cobweb.engine._node import MOVING, Node
from cobweb.engine._values import Canary, Effect, LimitPaused
from cobweb.model import CobId, Limit, LimitGroup, LimitScope, State, Transition
from cobweb.model.cob import ANY

__all__ = ["LimitBook"]


@dataclass(slots=True, kw_only=True, eq=False)
class _Counter:
    """One group of one limit: who counts now, and who waits for room."""

    limit: Limit
    group: LimitGroup
    canary: CanaryWatch | None
    busy: set[CobId] = field(default_factory=set)
    waiting: list[CobId] = field(default_factory=list)
    queued: set[CobId] = field(default_factory=set)
    freed: bool = False

    @property
    def room(self) -> bool:
        return len(self.busy) < self.group.bound

    def refuses(self, cob: CobId) -> bool:
        """Say whether an object has to wait for the canary, room or not."""
        return self.canary is not None and self.canary.refuses(cob)

    def shuts_out(self, node: Node, step: Transition) -> bool:
        """Say whether `step` has to wait here."""
        return (not self.room or self.refuses(node.id)) and self.asks(node, step)

    def queue(self, cob: CobId) -> None:
        """Have an object looked at when room comes."""
        if cob not in self.queued:
            self.queued.add(cob)
            heappush(self.waiting, cob)

    @property
    def label(self) -> str:
        return f"{self.limit.name} ({self.group.name})" if self.group.name else self.limit.name

    def asks(self, node: Node, step: Transition) -> bool:
        """Say whether `step` takes room here that the object does not have yet."""
        if node.id in self.busy:
            return False
        if self.limit.scope is LimitScope.OUT_OF_PREFERRED:
            return node.at_home(step.source)
        if self.limit.scope is LimitScope.OUT_OF_GROUP:
            states = self._states(node)
            return step.source in states and step.dest not in states
        return self._matches(step)

    def counts(self, node: Node) -> bool:
        """Say whether the object takes room now."""
        moving = node.suspect or node.activity is MOVING
        if self.limit.scope is LimitScope.OUT_OF_PREFERRED:
            return moving or not node.at_home(node.state)
        if self.limit.scope is LimitScope.OUT_OF_GROUP:
            states = self._states(node)
            leaves = moving and node.step is not None and node.step.dest not in states
            return leaves or (node.state not in states and node.state != node.goal)
        return moving and node.step is not None and self._matches(node.step)

    def _matches(self, step: Transition) -> bool:
        source, dest = self.limit.source, self.limit.dest
        return source in (ANY, step.source) and dest in (ANY, step.dest)

    def _states(self, node: Node) -> tuple[State, ...]:
        return node.cob.type.groups[self.limit.states]


class LimitBook:
    """All limits, found by object; only owned objects count. `limits`: whether there are any."""

    __slots__ = ("_by_member", "_canaries", "_freed", "_nodes", "limits")

    def __init__(self, limits: Iterable[Limit], nodes: Mapping[CobId, Node]) -> None:
        self._nodes = nodes
        self._by_member: dict[CobId, list[_Counter]] = {}
        self._canaries: dict[str, CanaryWatch] = {}
        self._freed: list[_Counter] = []
        for limit in limits:
            canary = None
            if limit.first:
                canary = self._canaries.setdefault(limit.name, CanaryWatch(limit))
            for group in limit.groups:
                counter = _Counter(limit=limit, group=group, canary=canary)
                for member in sorted(group.members):
                    if member in nodes:
                        self._by_member.setdefault(member, []).append(counter)
                        if canary is not None:
                            canary.members.add(member)
        self.limits = bool(self._by_member or self._canaries)

    def update(self, node: Node) -> None:
        """Count the object anew after its state or activity changed."""
        for counter in self._by_member.get(node.id, ()):
            canary = counter.canary
            if counter.counts(node):
                if canary is not None and node.activity is MOVING and node.id not in counter.busy:
                    canary.choose(node.id)
                counter.busy.add(node.id)
            elif node.id in counter.busy:
                counter.busy.discard(node.id)
                self._free(counter)
        for canary in self._canaries.values():
            canary.look(node)

    def full(self, node: Node, step: Transition) -> str:
        """Return the name of the first limit that has no room for `step`, or ""."""
        counter = self._full(node, step)
        if counter is None:
            return ""
        return f"{counter.limit.name}, canary" if counter.refuses(node.id) else counter.label

    def in_the_way(self, node: Node, step: Transition) -> tuple[CobId, ...]:
        """Return who takes the room that `step` needs, or is the canary on its way, sorted."""
        counter = self._full(node, step)
        if counter is None:
            return ()
        if counter.canary is not None and counter.refuses(node.id):
            return tuple(sorted(counter.canary.away))
        return tuple(sorted(counter.busy))

    def wait(self, node: Node, step: Transition) -> bool:
        """Queue the object where there is no room for `step`; say whether it has to wait."""
        counter = self._full(node, step)
        if counter is None:
            return False
        if counter.canary is not None and counter.refuses(node.id):
            counter.canary.waiting.add(node.id)
        else:
            counter.queue(node.id)
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
        return next((c for c in counters if c.shuts_out(node, step)), None)

    def _free(self, counter: _Counter) -> None:
        if not counter.freed:
            counter.freed = True
            self._freed.append(counter)

    # --- canaries

    @property
    def paused(self) -> bool:
        """Whether the end of a pause is waited for."""
        return any(canary.paused for canary in self._canaries.values())

    def take_over(self, canaries: Mapping[str, Canary]) -> None:
        """Go on where another engine was; names of other limits mean nothing."""
        for name, before in canaries.items():
            if name in self._canaries:
                self._canaries[name].take_over(before, self._nodes.keys())

    def canaries(self) -> dict[str, Canary]:
        """Return how far the canary of each limit that wants one has come."""
        return {name: canary.value for name, canary in self._canaries.items()}

    def is_paused(self, limit: str) -> bool:
        """Say whether the end of the pause of this limit is waited for."""
        return limit in self._canaries and self._canaries[limit].paused

    def end_pause(self, limit: str) -> tuple[CobId, ...]:
        """Return who is to be checked now that the pause of this limit is over, sorted."""
        return self._canaries[limit].end_pause()

    def look_at_canaries(self, effects: list[Effect]) -> bool:
        """Ask for pauses that are due; let others follow canaries that are through: say if any."""
        through = False
        for canary in self._canaries.values():
            if canary.end_checks(self._nodes):
                self._open(canary)
                through = True
            if canary.begin_pause():
                limit, cobs = canary.limit, tuple(sorted(canary.chosen))
                effects.append(LimitPaused(limit.name, cobs, limit.pause_s))
        return through

    def _open(self, canary: CanaryWatch) -> None:
        for cob in sorted(canary.waiting):
            for counter in self._by_member[cob]:
                if counter.canary is canary:
                    counter.queue(cob)
                    self._free(counter)
        canary.waiting.clear()
