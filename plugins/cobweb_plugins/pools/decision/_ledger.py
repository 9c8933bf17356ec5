"""Who holds what during a round: counted by service and by class of resources."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cached_property

from cobweb_plugins.pools.decision._memory import Memory
from cobweb_plugins.pools.decision._pools import Pools, Service, Slo
from cobweb_plugins.pools.decision._state import Holding, Note, NoteKind, Observed, Phase, View
from cobweb_plugins.pools.decision._trust import is_up

_PERCENT = 100


class Ledger:
    """The state of a round: its holdings, as it has written them so far, and what it has noted.

    `answers` are those that count, by service; what has none takes no part. `ambiguous` are the
    resources that nobody may touch. With `hurry` nothing waits.
    """

    def __init__(
        self, view: View, answers: Mapping[str, Observed], memory: Memory, *, hurry: bool
    ) -> None:
        self.view, self.answers, self.memory, self.hurry = view, answers, memory, hurry
        self.pools: Pools = view.pools
        self.now_s = memory.now_s
        self.class_of = self.pools.classes.of
        self._fits: dict[tuple[object, ...], frozenset[int]] = {}
        self.ambiguous: frozenset[str] = frozenset()
        self.holdings = {
            id_: holding
            for id_, holding in sorted(view.holdings.items())
            if id_ in self.pools.resources
        }
        self.writes: dict[str, Holding | None] = {}
        self.notes: list[Note] = []
        self.counts: dict[str, Counter[int]] = {name: Counter() for name in self.pools.services}
        self.incoming: Counter[str] = Counter()
        self._leaving: dict[str, set[str]] = defaultdict(set)
        for id_, holding in self.holdings.items():
            self._count(id_, holding, 1)

    def fitting(self, service: Service, slo: Slo | None = None, value: str = "") -> frozenset[int]:
        """Return the classes that a service can use, or that an SLO asks for, of a `per` value."""
        filter_ = slo.filter if slo else None
        per = slo.per if slo and value else ""
        key = (service.holds, filter_ and filter_.text, per, value)
        if key not in self._fits:
            self._fits[key] = frozenset(
                number
                for number, resource in enumerate(self.pools.classes.examples)
                if resource.type in service.holds
                and (filter_ is None or filter_.accepts(resource.properties))
                and (not per or str(resource.properties.get(per)) == value)
            )
        return self._fits[key]

    def entitled(self, service: Service) -> int:
        """Return how many resources the share of a service stands for."""
        there = sum(self._sizes[it] for it in self.fitting(service))
        return math.floor(there * service.share / _PERCENT)

    @cached_property
    def _sizes(self) -> Counter[int]:
        return Counter(self.class_of.values())

    def has(self, service: str) -> int:
        """Return how many resources are in a service, those that join included."""
        return self.counts[service].total() if service in self.counts else 0

    def count(self, service: str, classes: frozenset[int]) -> int:
        """Return how many resources of these classes are in a service."""
        return sum(n for number, n in self.counts[service].items() if number in classes)

    def leaving(self) -> Mapping[str, Holding]:
        """Return the resources that leave a service, by id."""
        return {
            id_: holding
            for id_, holding in sorted(self.holdings.items())
            if holding.phase is Phase.LEAVING
        }

    def leaving_from(self, service: str) -> list[tuple[str, Holding]]:
        """Return the resources that leave a service, by id."""
        return [(id_, self.holdings[id_]) for id_ in sorted(self._leaving[service])]

    def unasked(self, id_: str) -> list[str]:
        """Return the services that may have a resource and whose answers do not count."""
        type_ = self.pools.resources[id_].type
        return [
            name
            for name, service in self.pools.services.items()
            if service.registered and type_ in service.holds and name not in self.answers
        ]

    def at_work(self, id_: str) -> bool:
        """Return whether a member has work, or had some within `shrink_after`."""
        answer = self.answers.get(self.holdings[id_].service)
        seen = answer.members.get(id_) if answer else None
        if seen is not None and not seen.idle:
            return True
        idle_s = self.now_s - self.memory.idle.get(id_, self.now_s)
        return idle_s < self.pools.shrink_after_s and not self.hurry

    def is_up(self, id_: str, holding: Holding) -> bool:
        """Return whether a member does what it is there for."""
        return is_up(self.view, id_, holding)

    def write(self, id_: str, holding: Holding | None) -> None:
        """Write who holds a resource from now on; None: nobody."""
        before = self.holdings.pop(id_, None)
        if before is not None:
            self._count(id_, before, -1)
            if holding is None or holding.service != before.service:
                self.memory.idle.pop(id_, None)  # it has to be idle there for a while, too
        if holding is not None:
            self.holdings[id_] = holding
            self._count(id_, holding, 1)
        self.writes[id_] = holding

    def note(self, kind: NoteKind, subject: str, text: str) -> None:
        """Say why something was done or not."""
        self.notes.append(Note(kind=kind, subject=subject, text=text))

    def _count(self, id_: str, holding: Holding, n: int) -> None:
        if holding.phase is Phase.IN and holding.service in self.counts:
            self.counts[holding.service][self.class_of[id_]] += n
        if holding.phase is Phase.LEAVING:
            (set.add if n > 0 else set.discard)(self._leaving[holding.service], id_)
            if holding.to is not None:
                self.incoming[holding.to] += n
