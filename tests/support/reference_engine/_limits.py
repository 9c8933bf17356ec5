"""Bounds on objects that are busy or out of their preferred state at once (design, section 3).

Each group counts by itself. Who finds no room waits in its group and is looked at again, smallest
id first, when room comes: each wait costs one look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from cobweb.engine import Canary, Effect, LimitPaused
from cobweb.model import CobId, Limit, LimitGroup, LimitScope, State, Transition
from cobweb.model.cob import ANY
from tests.support.reference_engine._node import Activity, Node

__all__ = ["LimitBook"]


@dataclass(slots=True, kw_only=True, eq=False)
class _Canary:
    """Who of a limit went first, and who waits for them; `stage` is as the engine's."""

    limit: Limit
    before: Canary = field(default_factory=Canary)
    chosen: set[CobId] = field(default_factory=set)
    waiting: set[CobId] = field(default_factory=set)
    stage: str = "out"

    def refuses(self, cob: CobId) -> bool:
        """Say whether an object may not take room yet."""
        full = len(self.chosen) >= self.limit.first
        return self.stage != "through" and full and cob not in self.chosen

    def here(self, nodes: Mapping[CobId, Node]) -> list[CobId]:
        """Return the canaries that are owned here."""
        return sorted(self.chosen & nodes.keys())

    def away(self, nodes: Mapping[CobId, Node]) -> list[CobId]:
        """Return the canaries that are not at rest in a home of theirs; elsewhere, were not."""
        here = {cob for cob in self.here(nodes) if not _at_home(nodes[cob])}
        return sorted(here | (self.before.away - nodes.keys()))


def _at_home(node: Node) -> bool:
    return not node.frozen and node.up and not node.failed and node.state in node.homes


@dataclass(slots=True, kw_only=True, eq=False)
class _Counter:
    """One group of one limit: who counts now, and who waits for room."""

    limit: Limit
    group: LimitGroup
    canary: _Canary | None
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
        if node.id in self.busy:
            return False
        if self.limit.scope is LimitScope.OUT_OF_PREFERRED:
            return step.source in node.homes
        if self.limit.scope is LimitScope.OUT_OF_GROUP:
            return self._is_inside(node, step.source) and not self._is_inside(node, step.dest)
        return self._matches(step)

    def counts(self, node: Node) -> bool:
        """Say whether the object takes room now."""
        moving = node.suspect or node.activity is Activity.MOVING
        if self.limit.scope is LimitScope.OUT_OF_PREFERRED:
            return moving or node.state not in node.homes
        if self.limit.scope is LimitScope.OUT_OF_GROUP:
            rests = node.state == node.goal or self._is_inside(node, node.state)
            goes_out = moving and node.step and not self._is_inside(node, node.step.dest)
            return not rests or bool(goes_out)
        return moving and node.step is not None and self._matches(node.step)

    def _is_inside(self, node: Node, state: State) -> bool:
        return state in node.type.members(self.limit.states)

    def _matches(self, step: Transition) -> bool:
        source, dest = self.limit.source, self.limit.dest
        return source in (ANY, step.source) and dest in (ANY, step.dest)


class LimitBook:
    """All limits, found by object; only owned objects count."""

    __slots__ = ("_by_member", "_freed", "_nodes", "canaries")

    def __init__(
        self, limits: Iterable[Limit], nodes: Mapping[CobId, Node], before: Mapping[str, Canary]
    ) -> None:
        self._nodes = nodes
        self.canaries: dict[str, _Canary] = {}
        self._by_member: dict[CobId, list[_Counter]] = {}
        self._freed: list[_Counter] = []
        for limit in limits:
            if limit.first and limit.name not in self.canaries:
                canary = self.canaries[limit.name] = _Canary(limit=limit)
                if limit.name in before:
                    canary.before = before[limit.name]
                    canary.chosen = set(canary.before.cobs)
                    canary.stage = "through" if before[limit.name].through else "out"
            for group in limit.groups:
                watch = self.canaries[limit.name] if limit.first else None
                counter = _Counter(limit=limit, group=group, canary=watch)
                for member in sorted(group.members):
                    if member in nodes:
                        self._by_member.setdefault(member, []).append(counter)

    def update(self, node: Node) -> None:
        """Count the object anew after its state or activity changed."""
        for counter in self._by_member.get(node.id, ()):
            if counter.counts(node):
                leaves = node.activity is Activity.MOVING and node.id not in counter.busy
                if counter.canary is not None and counter.canary.stage != "through" and leaves:
                    counter.canary.chosen.add(node.id)
                counter.busy.add(node.id)
            elif node.id in counter.busy:
                counter.busy.discard(node.id)
                if not counter.freed:
                    counter.freed = True
                    self._freed.append(counter)

    def full(self, node: Node, step: Transition) -> str:
        """Return the name of the first limit that has no room for `step`, or ""."""
        counter = self._full(node, step)
        if counter is None:
            return ""
        is_canary = counter.canary is not None and counter.canary.refuses(node.id)
        return f"{counter.limit.name}, canary" if is_canary else counter.label

    def in_the_way(self, node: Node, step: Transition) -> tuple[CobId, ...]:
        """Return who takes the room that `step` needs, sorted."""
        counter = self._full(node, step)
        if counter is None:
            return ()
        if counter.canary is not None and counter.canary.refuses(node.id):
            return tuple(counter.canary.away(self._nodes))
        return tuple(sorted(counter.busy))

    def wait(self, node: Node, step: Transition) -> bool:
        """Queue the object where there is no room for `step`; say whether it has to wait."""
        counter = self._full(node, step)
        if counter is None:
            return False
        if counter.canary is not None and counter.canary.refuses(node.id):
            counter.canary.waiting.add(node.id)
        elif node.id not in counter.queued:
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
        return next((c for c in counters if self._shut(c, node) and c.asks(node, step)), None)

    def _shut(self, counter: _Counter, node: Node) -> bool:
        refused = counter.canary is not None and counter.canary.refuses(node.id)
        return refused or not counter.room

    def look_at_canaries(self) -> tuple[bool, list[Effect]]:
        """Say whether one is through, and which pauses begin."""
        through, effects = False, list[Effect]()
        for canary in self.canaries.values():
            away = canary.away(self._nodes)
            if canary.stage == "checked" and not away:
                canary.stage, through = "through", True
                self._open(canary)
            moved = [
                cob
                for cob in canary.here(self._nodes)
                if cob in away
                and self._nodes[cob].up
                and self._nodes[cob].activity is not Activity.CHECKING
            ]
            if canary.stage == "checked" and moved:
                canary.stage = "out"
            if canary.stage == "out" and not away and canary.waiting:
                canary.stage = "paused"
                cobs = tuple(sorted(canary.chosen))
                effects.append(LimitPaused(canary.limit.name, cobs, canary.limit.pause_s))
        return through, effects

    def _open(self, canary: _Canary) -> None:
        for cob in sorted(canary.waiting):
            for counter in self._by_member[cob]:
                if counter.canary is canary and cob not in counter.queued:
                    counter.queued.add(cob)
                    heappush(counter.waiting, cob)
                if counter.canary is canary and not counter.freed:
                    counter.freed = True
                    self._freed.append(counter)
        canary.waiting.clear()
