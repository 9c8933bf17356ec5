"""Which resource a need takes: the one whose weighted usage is the lowest (Hedeby, 1.1.3.2).

Resources that nothing tells apart are in one bucket: of one service, one class, at work or not.
Usages of a service only grow while it loses members within a round, so a bucket is weighed again
when it comes to the head of its class's heap, and not before.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from cobweb_plugins.pools.decision._ledger import Ledger
from cobweb_plugins.pools.decision._objectives import Objective, Objectives
from cobweb_plugins.pools.decision._policies import Policy, Standing
from cobweb_plugins.pools.decision._pools import Service
from cobweb_plugins.pools.decision._state import Holding, Phase, Seen

FREE = -1.0
"""What a resource weighs that nobody has."""

HEAVIEST = 1e300
"""Weights of policies are no larger, so that the `min` of a service is."""


_Entry = tuple[int, float, str]
"""A resource in a bucket: jobs, load, id."""

_Key = tuple[float, bool, str, _Entry]
"""What orders resources: weight, at work, service, the least busy."""


@dataclass(slots=True, kw_only=True)
class Bucket:
    """Resources that may move, all alike: `ids` has the least busy one first.

    `weight` is the weighted usage when it was last looked at, `loser` the SLO behind it.
    """

    service: str | None
    class_: int
    at_work: bool
    ids: list[_Entry] = field(default_factory=list)
    weight: float = FREE
    loser: str = ""
    stamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A resource that a need would take."""

    id: str
    bucket: Bucket
    entry: _Entry
    weight: float
    loser: str


class Market:
    """The resources that may move in a round; `kept_back` counts, by class, why others do not."""

    def __init__(self, ledger: Ledger, objectives: Objectives, policy: Policy) -> None:
        self._ledger, self._objectives, self._policy = ledger, objectives, policy
        self.kept_back: dict[int, Counter[str]] = defaultdict(Counter)
        self.standings = {
            name: Standing(service=service, entitled=ledger.entitled(service))
            for name, service in ledger.pools.services.items()
            if name in ledger.answers
        }
        self._counts = {name: objectives.counts(name) for name in self.standings}
        self._members = {name: ledger.has(name) for name in self.standings}
        self._buckets: dict[tuple[str | None, int, bool], Bucket] = {}
        self._of_service: dict[str | None, list[Bucket]] = defaultdict(list)
        self._heaps: dict[int, list[tuple[float, bool, str, int, Bucket]]] = defaultdict(list)
        self._needed: dict[str, int] = {}
        self._fill()

    def weigh(self, service: Service, urgency: float, index: int) -> float:
        """Return what a need, or a resource that is needed, weighs by the policy."""
        if urgency <= 0:
            return 0.0
        weight = self._policy.weight(self.standings[service.name], urgency, index)
        return min(max(weight, 0.0), HEAVIEST)

    def needed(self, service: str) -> int:
        """Return how many members of a service are needed by some SLO of it."""
        if service not in self._needed:
            # Members that may not move are needed, or might as well be: they are there. What was
            # taken in this round is not, even if nothing is written yet (an atomic need).
            buckets = self._of_service[service]
            loose = sum(len(bucket.ids) for bucket in buckets if not self._usage(bucket)[0])
            self._needed[service] = self._members[service] - loose
        return self._needed[service]

    def take(
        self, objective: Objective, weight: float, unfit: Container[str], *, unneeded: bool
    ) -> Pick | None:
        """Take the cheapest resource that weighs less than a need; None if there is none.

        It is not one of the `unfit`; with `unneeded` it is of a spare pool, or nobody needs it. It
        is out of the market then, and its service has one member less.
        """
        best: tuple[_Key, Bucket, _Entry] | None = None
        for class_ in sorted(objective.fits):
            found = self._cheapest(class_, weight, objective.service.name, unfit, unneeded)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        if best is None:
            return None
        _, bucket, entry = best
        bucket.ids.remove(entry)
        self._changed(bucket, -1)
        return Pick(
            id=entry[-1], bucket=bucket, entry=entry, weight=bucket.weight, loser=bucket.loser
        )

    def put_back(self, pick: Pick, *, is_loose: bool = True) -> None:
        """Undo `take`; one that is not loose stays where it is, and nobody can take it."""
        if is_loose:
            insort(pick.bucket.ids, pick.entry)
        self._changed(pick.bucket, 1)
        for bucket in self._of_service[pick.bucket.service]:
            self._push(bucket)

    def loose(self, service: str) -> Iterator[str]:
        """Yield the members that a service can give up, those that it needs least first."""
        order = sorted(
            (self._usage(bucket)[0], bucket.at_work, entry)
            for bucket in self._of_service[service]
            for entry in bucket.ids
        )
        yield from (id_ for _, _, (_, _, id_) in order)

    def why_not(self, objective: Objective) -> str:
        """Say why no more resources that fit a need may move."""
        found = Counter[str]()
        for class_ in objective.fits:
            found += self.kept_back[class_]
        for bucket in self._buckets.values():
            if bucket.class_ not in objective.fits or not bucket.ids:
                continue
            if bucket.service == objective.service.name:
                found["its own"] += len(bucket.ids)
            elif self._is_at_min(bucket):
                found["at the `min` of their services"] += len(bucket.ids)
            else:
                found["needed as much or more, or unfit"] += len(bucket.ids)
        parts = [f"{n} {reason}" for reason, n in sorted(found.items())]
        return ", ".join(parts) or "there is none that fits"

    def _fill(self) -> None:
        for id_ in self._ledger.pools.resources:
            class_ = self._ledger.class_of[id_]
            holding = self._ledger.holdings.get(id_)
            obstacles = self._obstacles(id_, holding)
            if reason := next((reason for is_there, reason in obstacles if is_there), ""):
                self.kept_back[class_][reason] += 1
                continue
            service = holding.service if holding else None
            seen = self._ledger.answers[service].members.get(id_, Seen()) if service else Seen()
            at_work = service is not None and self._ledger.at_work(id_)
            key = (service, class_, at_work)
            if key not in self._buckets:
                bucket = Bucket(service=service, class_=class_, at_work=at_work)
                self._buckets[key] = bucket
                self._of_service[service].append(bucket)
            self._buckets[key].ids.append((seen.jobs, seen.load, id_))
        for bucket in self._buckets.values():
            bucket.ids.sort()
            self._push(bucket)

    def _obstacles(self, id_: str, holding: Holding | None) -> Iterator[tuple[bool, str]]:
        """Yield what may keep a resource where it is; the first that is there is the reason."""
        ledger, pools, now_s = self._ledger, self._ledger.pools, self._ledger.now_s
        yield pools.resources[id_].static, "static"
        yield id_ in ledger.ambiguous, "ambiguous"
        yield id_ in ledger.memory.resting, "stopped on a circle"
        if holding is None:
            yield bool(ledger.unasked(id_)), "that a silent service may have"
            return
        yield holding.phase is Phase.LEAVING, "leaving"
        yield holding.phase is Phase.FAILED, "failed"
        yield holding.service not in self.standings, "of services that nothing is known of"
        yield holding.held_until_s is not None and holding.held_until_s > now_s, "held"
        yield not ledger.is_up(id_, holding), "joining"
        rests = holding.order is not None and holding.since_s > now_s - pools.immunity_s
        # Nobody works in a spare pool, and whoever has given up a resource may need it again.
        may_wait = not (pools.services[holding.service].direct or ledger.hurry)
        yield rests and may_wait, "resting after a move"

    def _usage(self, bucket: Bucket) -> tuple[float, str]:
        assert bucket.service is not None
        counts = self._counts[bucket.service]
        return self._objectives.usage(
            bucket.service, bucket.class_, at_work=bucket.at_work, counts=counts
        )

    def _is_at_min(self, bucket: Bucket) -> bool:
        name = bucket.service
        return name is not None and self._members[name] <= self._ledger.pools.services[name].min

    def _weight(self, bucket: Bucket) -> tuple[float, str]:
        """Return the weighted usage of the bucket's resources; infinity at the service's `min`."""
        if bucket.service is None:
            return FREE, ""
        if self._is_at_min(bucket):
            return math.inf, "min"
        service = self._ledger.pools.services[bucket.service]
        urgency, key = self._usage(bucket)
        weight = self.weigh(service, urgency, self.needed(bucket.service)) if urgency else 0.0
        if service.max is not None and self._members[service.name] > service.max:
            return FREE / (1 + weight), ""  # anybody may have it; what is needed less goes first
        has_gain = weight > 0 and not service.direct
        return weight + (self._ledger.pools.gain if has_gain else 0.0), key

    def _cheapest(
        self,
        class_: int,
        below: float,
        target: str,
        unfit: Container[str],
        unneeded: bool,  # noqa: FBT001  # a private method, called once
    ) -> tuple[_Key, Bucket, _Entry] | None:
        """Return the cheapest bucket of a class with a resource that may come to a service."""
        heap, passed = self._heaps[class_], []
        found = None
        while heap and heap[0][0] < below and found is None:
            item = heapq.heappop(heap)
            *_, stamp, bucket = item
            if stamp != bucket.stamp or not bucket.ids:
                continue
            bucket.weight, bucket.loser = self._weight(bucket)
            if bucket.weight != item[0]:
                self._push(bucket)
                continue
            passed.append(item)
            if bucket.service != target and not (unneeded and self._is_needed(bucket)):
                entry = next((it for it in bucket.ids if it[-1] not in unfit), None)
                if entry is not None:
                    key = (bucket.weight, bucket.at_work, bucket.service or "", entry)
                    found = (key, bucket, entry)
        for item in passed:
            heapq.heappush(heap, item)
        return found

    def _is_needed(self, bucket: Bucket) -> bool:
        """Return whether resources are needed where they are, other than by a spare pool."""
        services = self._ledger.pools.services
        is_spare = bucket.service is None or services[bucket.service].direct
        return bucket.weight > 0 and not is_spare

    def _changed(self, bucket: Bucket, n: int) -> None:
        service = bucket.service
        if service is None:
            return
        self._members[service] += n
        self._needed.pop(service, None)
        counts = self._counts[service]
        for index, objective in enumerate(self._objectives.of_service[service]):
            if bucket.class_ in objective.fits:
                counts[index] += n

    def _push(self, bucket: Bucket) -> None:
        """Put a bucket into its heap at its weight of now; what the heap has of it is void."""
        bucket.stamp += 1
        weight, _ = self._weight(bucket)
        entry = (weight, bucket.at_work, bucket.service or "", bucket.stamp, bucket)
        heapq.heappush(self._heaps[bucket.class_], entry)
