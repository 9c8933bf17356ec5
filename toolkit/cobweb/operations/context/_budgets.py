"""What is durable of budgets, and which hosts they may hold back, as a run begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cobweb.engine import Canary, Lending
from cobweb.model import CobId, Graph, host_of
from cobweb.operations.context._generations import Generations

if TYPE_CHECKING:
    from cobweb.operations.context._desired import Desired
    from cobweb.operations.context._known_states import KnownStates
    from cobweb.store import CobRecord, Store


def limited_hosts(desired: Desired, store: Store, before: KnownStates) -> frozenset[str]:
    """Return the hosts that a budget, of then or of now, may hold back where they have changes."""
    if not before.changed:
        return frozenset()
    budgets, past = list(desired.graph.budgets), Generations(store, desired.roots)
    for generation in sorted({past.active.get(host_of(cob), 0) for cob in before.changed}):
        if past.has_limits(generation) and (found := past.find(generation)) is not None:
            budgets += found[1].budgets
    return frozenset(host_of(cob) for it in budgets for unit in it.units for cob in unit.members)


def lending_of(
    store: Store,
    contents: Mapping[CobId, str],
    records: Mapping[CobId, CobRecord],
    graph: Graph,
    *,
    anew: bool = False,
) -> Lending:
    """Return what is durable of budgets, without canaries where these are chosen `anew`."""
    if not graph.budgets:
        return Lending(given_up=store.given_up())
    members = {cob for it in graph.budgets for unit in it.units for cob in unit.members}
    served = {cob for cob in members if cob in records and _has_served(records[cob], graph)}
    canaries: dict[str, list[Canary]] = {}
    for it in () if anew else store.canaries():
        canary = Canary(frozenset(it.units), it.through, it.contents, it.covers)
        canaries.setdefault(it.limit, []).append(canary)
    return Lending(
        slots=store.slots(),
        canaries=canaries,
        contents=contents,
        served=frozenset(served),
        given_up=store.given_up(),
    )


def _has_served(record: CobRecord, graph: Graph) -> bool:
    """Say whether an object has served; before a limit had it, what is applied tells."""
    it = graph.cobs[record.cob]
    return record.served or (record.applied_json is not None and it.type.serves(it.preferred))
