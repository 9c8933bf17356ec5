"""What objects were when they were applied last, where the site says something else by now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cobweb.model import Cob, CobId, Graph, Host, host_of
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._generations import Generations
from cobweb.operations.context._stored_work import KeptWork, Secrets
from cobweb.store import CobRecord, Store

__all__ = ["Definitions", "definitions_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """Objects as they were applied, each under one of the `generations`.

    `hosts` are those of them that the site has no more, as they were reached.
    """

    cobs: Mapping[CobId, Cob] = field(default_factory=dict)
    generations: Mapping[CobId, int] = field(default_factory=dict)
    hosts: Mapping[str, Host] = field(default_factory=dict)


def definitions_of(
    records: Iterable[CobRecord], desired: Desired, store: Store, work: KeptWork
) -> Definitions:
    """Return what the objects were that records were written for, as far as a generation says so.

    Their actions are those that `work` finds again, their vaulted values those of the site; the
    check of an object fails for which something is gone. StoreError where a generation is damaged.
    """
    past = Generations(store, desired.roots, work)
    cobs: dict[CobId, Cob] = {}
    generations: dict[CobId, int] = {}
    hosts: dict[str, Host] = {}
    for record in records:
        for generation in _candidates(record, past):
            site, graph = past.find(generation) or (None, None)
            if site and graph and site.contents.get(record.cob) == record.content:
                host = host_of(record.cob)
                cobs[record.cob] = graph.cobs[record.cob]
                generations[record.cob] = generation
                hosts[host] = site.hosts[host]
                break
    graph, gone = Secrets(desired.secrets, desired.hosts).graph(Graph(cobs=cobs), hosts)
    return Definitions(cobs=graph.cobs, generations=generations, hosts=gone)


def _candidates(record: CobRecord, past: Generations) -> Iterator[int]:
    """Yield the generations that may say what an object was, the most likely first."""
    first = (past.active.get(host_of(record.cob), 0), record.generation)
    yield from first
    yield from (each for each in past.ids if each not in first)
