"""What a round grants, against a second implementation that looks at everything each time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cobweb_plugins.pools.decision import (
    AdapterFacts,
    Holding,
    Kpi,
    Member,
    MemberState,
    Observed,
    Phase,
    Pools,
    Priority,
    Seen,
    Service,
    ServiceState,
    Slo,
    SloKind,
    View,
    decide,
    pools_of,
)

ADAPTERS = {
    "any": AdapterFacts(holds=frozenset({"host"})),
    "spare": AdapterFacts(holds=frozenset({"host"}), direct=True),
}
SERVICES = ("a", "b", "c", "spare")


@dataclass
class Scan:
    """A round of needs, resource by resource; no times, no policy but `priority`."""

    pools: Pools
    owners: dict[str, str]
    busy: frozenset[str]
    pending: Mapping[str, float]
    moved: dict[str, str] = field(default_factory=dict)
    granted: dict[tuple[str, str], int] = field(default_factory=dict)

    def run(self) -> dict[str, str]:
        """Return where resources go: each time the need that weighs most takes the cheapest."""
        closed: set[tuple[str, str]] = set()
        while True:
            open_ = [
                (-self.weight(service, slo), self.granted.get((service.name, key), 0), *names)
                for service in self.pools.services.values()
                for key, slo in self.needs(service)
                for names in [(service.name, key)]
                if names not in closed and self.lacks(service, key, slo) > 0
            ]
            if not open_:
                return self.moved
            weight, _, name, key = min(open_)
            service = self.pools.services[name]
            slo = dict(self.needs(service))[key]
            found = self.cheapest(service, slo, -weight)
            if found is None:
                closed.add((name, key))
            else:
                self.moved[found] = name
                self.granted[name, key] = self.granted.get((name, key), 0) + 1

    def needs(self, service: Service) -> list[tuple[str, Slo | None]]:
        """Return the objectives that may ask, the service's `min` first."""
        slos = [
            (slo.name, slo)
            for slo in service.slos
            if slo.kind is not SloKind.PENDING or self.pending[service.name] > slo.above
        ]
        return [("min", None), *slos] if service.min else [*slos]

    def fits(self, service: Service, slo: Slo | None, id_: str) -> bool:
        resource = self.pools.resources[id_]
        is_fit = slo is None or slo.filter is None or slo.filter.accepts(resource.properties)
        return resource.type in service.holds and is_fit

    def members(self, name: str) -> list[str]:
        return [
            id_ for id_, owner in self.owners.items() if owner == name and id_ not in self.moved
        ]

    def at_first(self, name: str) -> list[str]:
        return [id_ for id_, owner in self.owners.items() if owner == name]

    def lacks(self, service: Service, key: str, slo: Slo | None) -> float:
        """Return how many more an objective asks for."""
        has = sum(self.fits(service, slo, id_) for id_ in self.at_first(service.name))
        coming = sum(
            self.fits(service, slo, id_) for id_, to in self.moved.items() if to == service.name
        )
        if slo is None:
            return service.min - has - coming
        if slo.kind is SloKind.MINIMUM:
            return slo.quantity - has - coming
        return (
            math.inf
            if slo.kind is SloKind.PERMANENT
            else slo.quantity - self.granted.get((service.name, key), 0)
        )

    def weight(self, service: Service, slo: Slo | None) -> float:
        return math.inf if slo is None else slo.urgency * service.priority

    def usage(self, service: Service, id_: str) -> float:
        """Return what a member weighs: by the SLOs that would not be fulfilled without it."""
        found = 0.0
        for slo in service.slos:
            if not self.fits(service, slo, id_):
                continue
            if slo.kind is SloKind.PENDING:
                is_needed = self.pending[service.name] > slo.above or id_ in self.busy
            elif slo.kind is SloKind.PERMANENT:
                is_needed = True
            else:
                count = sum(self.fits(service, slo, it) for it in self.members(service.name))
                is_needed = count <= slo.quantity
            if is_needed:
                found = max(found, self.weight(service, slo))
        return found

    def cheapest(self, target: Service, slo: Slo | None, weight: float) -> str | None:
        if target.max is not None:
            coming = sum(to == target.name for to in self.moved.values())
            if len(self.members(target.name)) + coming >= target.max:
                return None
        costs = []
        for id_ in self.pools.resources:
            owner = self.owners.get(id_)
            if id_ in self.moved or owner == target.name or not self.fits(target, slo, id_):
                continue
            if self.pools.resources[id_].static:
                continue
            cost = -1.0
            if owner is not None:
                service = self.pools.services[owner]
                if len(self.members(owner)) <= service.min:
                    continue
                is_beyond = service.max is not None and len(self.members(owner)) > service.max
                cost = self.usage(service, id_)
                cost = -1 / (1 + cost) if is_beyond else cost
            if cost < weight:
                is_busy = owner is not None and id_ in self.busy
                costs.append((cost, is_busy, owner or "", id_))
        return min(costs)[-1] if costs else None


def slos() -> st.SearchStrategy[Mapping[str, Any]]:
    """Return objectives with urgencies that often are alike, with and without filters."""
    need = st.fixed_dictionaries(
        {"urgency": st.integers(0, 4), "quantity": st.integers(1, 4)},
        optional={"filter": st.sampled_from(["big", "rack == 1", "big and rack == 2"])},
    )
    pending = need.map(lambda it: {"kind": "pending", "above": 10, "need": it})
    return st.one_of(need.map(lambda it: {"kind": "minimum", **it}), pending)


def bounds() -> st.SearchStrategy[Mapping[str, Any]]:
    return st.fixed_dictionaries({}, optional={"min": st.integers(0, 2), "max": st.integers(2, 6)})


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Pools, dict[str, str], frozenset[str], dict[str, float]]:
    ids = [f"r{number:02}" for number in range(draw(st.integers(1, 12)))]
    resources = {
        id_: {
            "properties": {"big": draw(st.booleans()), "rack": draw(st.integers(1, 2))},
            "static": draw(st.integers(0, 5)) == 0,
        }
        for id_ in ids
    }
    services: dict[str, Any] = {
        name: {
            "adapter": "any",
            "priority": draw(st.integers(1, 3)),
            "slos": draw(st.lists(slos(), max_size=3)),
            **draw(bounds()),
        }
        for name in SERVICES[:-1]
    }
    services["spare"] = {"adapter": "spare", "slos": [{"kind": "permanent", "urgency": 1}]}
    section = {
        "resources": resources,
        "services": services,
        "grow_after": "0s",
        "shrink_after": "0s",
    }
    # A filter that nothing fits and minimums that cannot be had are mistakes, and not the subject.
    padding = {
        f"z{number}{rack}": {"properties": {"big": True, "rack": rack}, "static": True}
        for number in range(4)
        for rack in (1, 2)
    }
    section["resources"] = {**resources, **padding}
    owners = {id_: name for id_ in ids if (name := draw(st.sampled_from([*SERVICES, ""])))}
    busy = frozenset(draw(st.sets(st.sampled_from(ids))))
    pending = {name: float(draw(st.sampled_from([0, 11]))) for name in SERVICES}
    return pools_of(section, ADAPTERS), owners, busy, pending


@given(worlds())
def test_a_round_grants_what_a_scan_of_everything_grants(
    world: tuple[Pools, dict[str, str], frozenset[str], dict[str, float]],
) -> None:
    pools, owners, busy, pending = world
    view = View(
        pools=pools,
        holdings={id_: Holding(service=name) for id_, name in owners.items()},
        members={id_: Member(state=MemberState.UP) for id_ in owners},
    )
    answers = {
        name: Observed(
            state=ServiceState.RUNNING,
            kpis=(Kpi(name="pending", value=pending[name]),),
            members={
                id_: Seen(idle=id_ not in busy, jobs=int(id_ in busy))
                for id_, owner in owners.items()
                if owner == name
            },
            begun_s=1000,
            arrived_s=1000,
        )
        for name in pools.services
    }
    outcome = decide(view, answers, {}, 1000, Priority())
    granted = {
        id_: it.to if it.phase is Phase.LEAVING else it.service
        for id_, it in outcome.writes.items()
        if it is not None and it.order is not None
    }
    assert granted == Scan(pools, dict(owners), busy, pending).run()
