"""SLOs as they stand: which members each of them needs, and what it asks for.

The usage of a resource is the highest urgency of the SLOs that would not be fulfilled without it
(Hedeby, 1.1.2.7, example 1.6). So a `minimum` of 3 needs each of 3 members and none of 4 in
particular, whichever goes first; what is unfulfilled needs all that fits. An SLO with a KPI that
is fulfilled needs the members that are at work, and for `shrink_after` all that it has needed
before.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from cobweb_plugins.pools.decision._ledger import Ledger
from cobweb_plugins.pools.decision._memory import Condition
from cobweb_plugins.pools.decision._pools import Service, Slo, SloKind
from cobweb_plugins.pools.decision._state import Observed, Phase

_ROUNDED = 1e-9
"""What products of floats may be off before a ceiling takes the next number."""


@dataclass(slots=True, kw_only=True)
class Objective:
    """An SLO of a service (None: its `min`), perhaps of one value of its `per`, as it stands now.

    `fits` are the classes of resources that count. Each member that fits is needed while there are
    no more than `needed`, and those at work are if `work` is. `wanted` more are asked for if
    `asks`, and kept on order if not. `value` is the KPI.
    """

    service: Service
    slo: Slo | None
    key: str
    urgency: float
    fits: frozenset[int]
    needed: float
    work: bool = False
    wanted: float = 0.0
    asks: bool = False
    value: float = 0.0

    def needs(self, count: int, class_: int, *, at_work: bool) -> bool:
        """Return whether a member of a class is needed, if `count` members fit."""
        return class_ in self.fits and (count <= self.needed or (self.work and at_work))


class Objectives:
    """The SLOs of all services whose answers count, in the order of the site.

    The memory learns since when they are unfulfilled; `waits` is, by service, what is not yet asked
    for, in words. Made a second time at the same moment they are the same.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._memory = memory = ledger.memory
        self._fresh = _fresh(ledger)
        self.waits: list[tuple[str, str]] = []
        self.of_service: dict[str, list[Objective]] = {
            name: list(self._of(ledger.pools.services[name], answer))
            for name, answer in sorted(ledger.answers.items())
        }
        memory.conditions = {name: it for name, it in memory.conditions.items() if it}

    def find(self, service: str, key: str) -> Objective | None:
        """Return the objective that an order was given for."""
        return next((it for it in self.of_service.get(service, ()) if it.key == key), None)

    def counts(self, service: str) -> list[int]:
        """Return how many members fit each of a service's objectives."""
        return [self._ledger.count(service, it.fits) for it in self.of_service[service]]

    def usage(
        self, service: str, class_: int, *, at_work: bool, counts: Sequence[int] | None = None
    ) -> tuple[float, str]:
        """Return the highest urgency of the SLOs that need a member, and which one that is.

        `counts` may be other than `counts(service)`: those of a service that has lost members.
        """
        urgency, key = 0.0, ""
        counts = self.counts(service) if counts is None else counts
        for objective, count in zip(self.of_service[service], counts, strict=True):
            if (
                objective.slo is not None
                and objective.urgency > urgency
                and objective.needs(count, class_, at_work=at_work)
            ):
                urgency, key = objective.urgency, objective.key
        return urgency, key

    def _of(self, service: Service, answer: Observed) -> Iterator[Objective]:
        ledger = self._ledger
        if service.min:
            lacking = service.min - ledger.has(service.name)
            yield self._objective(
                service, None, needed=service.min, wanted=max(lacking, 0), asks=True
            )
        before = self._memory.conditions.get(service.name, {})
        self._memory.conditions[service.name] = {
            slo.name: dict(before[slo.name]) for slo in service.slos if slo.name in before
        }
        for slo in service.slos:
            if not slo.applies(ledger.now_s):
                self._memory.conditions[service.name].pop(slo.name, None)
                continue
            match slo.kind:
                case SloKind.MINIMUM:
                    yield self._minimum(service, slo)
                case SloKind.PENDING:
                    yield from self._pending(service, slo, answer)
                case SloKind.UTILISATION:
                    yield from self._utilisation(service, slo, answer)
                case SloKind.PERMANENT:
                    yield self._objective(service, slo, needed=math.inf, wanted=math.inf, asks=True)
                case _:
                    assert_never(slo.kind)

    def _minimum(self, service: Service, slo: Slo) -> Objective:
        fits = self._ledger.fitting(service, slo)
        lacking = slo.quantity - self._ledger.count(service.name, fits)
        asks, _ = self._condition(service, slo, "", unmet=lacking > 0, why=f"{lacking} are missing")
        return self._objective(
            service, slo, needed=slo.quantity, wanted=max(lacking, 0), asks=asks, value=lacking
        )

    def _pending(self, service: Service, slo: Slo, answer: Observed) -> Iterator[Objective]:
        if slo.per:
            yield self._objective(service, slo, needed=0, work=True)
        waiting: dict[str, float] = defaultdict(float)
        for kpi in answer.kpis:
            if kpi.name == slo.kpi:
                waiting[str(kpi.properties.get(slo.per, "")) if slo.per else ""] += kpi.value
        known = self._memory.conditions[service.name].get(slo.name, {})
        for value in sorted({*waiting, *known}):
            found = waiting[value]
            why = f"{slo.kpi} is {found:g}, above {slo.above:g}"
            asks, needed = self._condition(service, slo, value, unmet=found > slo.above, why=why)
            if needed:
                yield self._asking(service, slo, value, asks=asks, found=found)
            elif not slo.per:
                yield self._objective(service, slo, needed=0, work=True, value=found)

    def _utilisation(self, service: Service, slo: Slo, answer: Observed) -> Iterator[Objective]:
        told = [kpi.value for kpi in answer.kpis if kpi.name == slo.kpi]
        found = told or [seen.load for seen in answer.members.values()]
        if not found:
            return
        value, (low, high) = math.fsum(found) / len(found), slo.band
        why = f"{slo.kpi} is {value:g}, above {high:g}"
        asks, needed = self._condition(service, slo, "high", unmet=value > high, why=why)
        _, kept = self._condition(service, slo, "low", unmet=value >= low, why="", quiet=True)
        if needed:
            yield self._asking(service, slo, "", asks=asks, found=value)
        elif kept:
            yield self._objective(service, slo, needed=math.inf, value=value)
        else:
            count = self._ledger.count(service.name, self._ledger.fitting(service, slo))
            enough = math.ceil(value * count / ((low + high) / 2) - _ROUNDED)
            yield self._objective(service, slo, needed=max(enough, 1), value=value)

    def _asking(
        self, service: Service, slo: Slo, value: str, *, asks: bool, found: float
    ) -> Objective:
        key = _key(slo, value)
        wanted = max(slo.quantity - self._fresh[service.name, key], 0)
        return self._objective(
            service, slo, value=found, part=value, needed=math.inf, wanted=wanted, asks=asks
        )

    def _objective(  # noqa: PLR0913  # the fields of an objective
        self,
        service: Service,
        slo: Slo | None,
        *,
        needed: float,
        wanted: float = 0.0,
        asks: bool = False,
        work: bool = False,
        value: float = 0.0,
        part: str | None = None,
    ) -> Objective:
        return Objective(
            service=service,
            slo=slo,
            key=_key(slo, part) if slo else "min",
            urgency=slo.urgency if slo else math.inf,
            fits=self._ledger.fitting(service, slo, part or ""),
            needed=needed,
            work=work,
            wanted=wanted,
            asks=asks and wanted > 0,
            value=value,
        )

    def _condition(  # noqa: PLR0913  # an SLO, what was found, what to say of it
        self, service: Service, slo: Slo, value: str, *, unmet: bool, why: str, quiet: bool = False
    ) -> tuple[bool, bool]:
        """Return whether an SLO has been unfulfilled for long enough, and whether it was lately."""
        pools, now_s = self._ledger.pools, self._ledger.now_s
        by_value = self._memory.conditions[service.name].setdefault(slo.name, {})
        known = by_value.get(value)
        if known is None or known.unmet is not unmet:
            if known is None and not unmet and not quiet:
                return False, False
            known = by_value[value] = Condition(unmet, now_s)
        for_s = now_s - known.since_s
        if not unmet:
            lately = for_s < (0 if self._ledger.hurry else pools.shrink_after_s)
            if not lately and not quiet:  # what is quiet would be new, and wait, once more
                del by_value[value]
            return False, lately
        by_kpi = slo.kind is not SloKind.MINIMUM
        wait_s = (pools.grow_after_s if by_kpi else 0.0) if slo.for_s is None else slo.for_s
        if for_s >= wait_s or self._ledger.hurry:
            return True, True
        if not quiet:
            text = f"{slo.name}: {why}, for {for_s:.0f} s of {wait_s:g} s"
            self.waits.append((service.name, text))
        return False, True


def _key(slo: Slo, value: str | None) -> str:
    return f"{slo.name}/{value}" if slo.per and value is not None else slo.name


def _fresh(ledger: Ledger) -> Counter[tuple[str, str]]:
    """Count the members, by service and SLO, that have come too late for the KPIs to show it."""
    found = Counter[tuple[str, str]]()
    for id_, holding in ledger.holdings.items():
        answer = ledger.answers.get(holding.service)
        if holding.order is None or holding.phase is not Phase.IN or answer is None:
            continue
        since_s = ledger.view.members.get(id_, holding).since_s
        if not ledger.is_up(id_, holding) or since_s >= answer.begun_s:
            found[holding.service, holding.order.slo] += 1
    return found
