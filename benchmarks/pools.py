"""A round of decisions on pools: beside it the scan of all resources that each need would be."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks._row import Row, cost
from cobweb_plugins.pools.decision import (
    AdapterFacts,
    Holding,
    Kpi,
    Member,
    MemberState,
    Observed,
    Priority,
    Seen,
    ServiceState,
    View,
    decide,
    pools_of,
)

__all__ = ["measure"]

SLOS_PER_SERVICE = 10
NOW_S = 1000.0
ADAPTERS = {
    "any": AdapterFacts(holds=frozenset({"host"})),
    "spare": AdapterFacts(holds=frozenset({"host"}), direct=True),
}
FILTERS = ("", "cores >= 8", "arch == arm64", "cores >= 16 and arch == amd64", "rack == 3")


def measure(size: str) -> Iterator[Row]:
    """Yield CPU seconds of a round in which a third of the SLOs ask, with and without a budget."""
    resources, services = (10_000, 100) if size == "full" else (500, 10)
    slos = services * SLOS_PER_SERVICE
    shape = f"{resources:,} resources, {services} services, {slos:,} SLOs"
    for budget, words in (({"moves": 100, "per": "10m"}, "100 moves"), (None, "no budget")):
        view, answers = _pools(resources, services, budget)
        with cost() as scanned:
            _scan(view)
        with cost() as spent:
            outcome = decide(view, answers, {}, NOW_S, Priority())
        yield Row(
            what=f"pools round: {shape}, {words}, CPU",
            value=spent.cpu_s,
            peer="each filter on each resource",
            peer_value=scanned.cpu_s,
            target=1.0 if size == "full" else None,
            note=f"the first round, in which all is new: {len(outcome.writes):,} moves decided",
        )


def _pools(
    resources: int, services: int, budget: Mapping[str, Any] | None
) -> tuple[View, Mapping[str, Observed]]:
    """Return pools at random, the same each time, and what their services answer."""
    draw = random.Random(1)  # noqa: S311  # pools that come out the same each time
    names = [f"s{number:03}" for number in range(services)]
    section: dict[str, Any] = {
        "resources": {
            f"n{number:05}": {
                "properties": {
                    "cores": draw.choice([4, 8, 16, 32]),
                    "arch": draw.choice(["amd64", "arm64"]),
                    "rack": draw.randrange(5),
                }
            }
            for number in range(resources)
        },
        "services": {
            "spare": {"adapter": "spare", "slos": [{"kind": "permanent", "urgency": 1}]},
            **{name: _service(draw) for name in names},
        },
    }
    pools = pools_of({**section, **({"budget": budget} if budget else {})}, ADAPTERS)
    holders = ["spare", *names]
    owners = {id_: holders[at % len(holders)] for at, id_ in enumerate(pools.resources)}
    members: dict[str, dict[str, Seen]] = {name: {} for name in holders}
    for id_, name in owners.items():
        members[name][id_] = Seen(idle=draw.random() < 0.3)
    answers = {name: _answer(draw, members[name]) for name in holders}
    holdings = {id_: Holding(service=name) for id_, name in owners.items()}
    up = {id_: Member(state=MemberState.UP) for id_ in owners}
    return View(pools=pools, holdings=holdings, members=up), answers


def _service(draw: random.Random) -> Mapping[str, Any]:
    return {
        "adapter": "any",
        "priority": draw.randrange(1, 4),
        "min": 2,
        "slos": [_slo(draw, number) for number in range(SLOS_PER_SERVICE)],
    }


def _slo(draw: random.Random, number: int) -> Mapping[str, Any]:
    text = draw.choice(FILTERS)
    need = {"urgency": draw.randrange(2, 100), **({"filter": text} if text else {})}
    if number % 2:
        return {"kind": "minimum", "quantity": draw.randrange(1, 60), **need}
    quantity = draw.randrange(1, 10)
    pending = {"kind": "pending", "kpi": f"p{number}", "above": 10, "for": "0s"}
    return {**pending, "need": {**need, "quantity": quantity}}


def _answer(draw: random.Random, members: Mapping[str, Seen]) -> Observed:
    kpis = tuple(
        Kpi(name=f"p{number}", value=20 if draw.random() < 0.3 else 3)
        for number in range(0, SLOS_PER_SERVICE, 2)
    )
    return Observed(
        state=ServiceState.RUNNING, kpis=kpis, members=members, begun_s=NOW_S, arrived_s=NOW_S
    )


def _scan(view: View) -> int:
    """Return how often a resource fits an SLO, each looked at by itself."""
    return sum(
        slo.filter is None or slo.filter.accepts(resource.properties)
        for service in view.pools.services.values()
        for slo in service.slos
        for resource in view.pools.resources.values()
    )
