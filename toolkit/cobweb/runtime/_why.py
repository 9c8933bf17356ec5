"""Why an object waits: from the last run's own words, or from the journal of one that goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cobweb.engine import Blocked, Engine, Halt, WaitKind
from cobweb.errors import UsageError
from cobweb.inventory import Site
from cobweb.model import CobId
from cobweb.runtime._baseline import baseline, old_locks
from cobweb.runtime._result import Wait, chain_data
from cobweb.store import CobRecord, Store

__all__ = ["Reason", "why"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The answer to `cobweb why`.

    `source` says where it comes from: `settled`, `run` (told by the last run), `journal` (worked
    out from what the journal believes now). `chain` is plain data as in `chain_data`.
    """

    cob: CobId
    state: str
    preferred: str
    source: str
    run: str
    message: str = ""
    chain: Sequence[Mapping[str, Any]] = ()

    def as_wait(self) -> Wait:
        """Return the chain as the value that the prose is made of."""
        links = tuple(
            Blocked(
                cob=CobId(link["cob"]),
                kind=WaitKind(link["kind"]),
                on=link["on"],
                state=link["state"],
                detail=link["detail"],
            )
            for link in self.chain
        )
        return Wait(cob=self.cob, state=self.state, chain=links)


def why(site: Site, store: Store, reference: str) -> Reason:
    """Say what `reference` waits for; UsageError where there is no such object."""
    cob = CobId(reference)
    graph = site.graph(None)
    if cob not in graph.cobs:
        raise UsageError(f"there is no object {reference!r}", hint="see `cobweb show`")
    records = store.states()
    record = records.get(cob)
    last = store.last_run()
    run = last.info.id if last else ""
    state = record.state if record else "unknown"
    preferred = graph.cobs[cob].type.preferred
    if last is not None and last.ended is not None:
        told = next((wait for wait in last.waits if wait["cob"] == cob), None)
        if told is not None and told["state"] == state:
            return Reason(
                cob=cob,
                state=state,
                preferred=preferred,
                source="run",
                run=run,
                message=told["message"],
                chain=told["chain"],
            )
    if state == preferred and not (record and record.in_transition):
        return Reason(cob=cob, state=state, preferred=preferred, source="settled", run=run)
    wait = _worked_out(site, store, records, cob)
    return Reason(
        cob=cob,
        state=state,
        preferred=preferred,
        source="journal",
        run=run,
        chain=chain_data(wait.chain),
    )


def _worked_out(site: Site, store: Store, records: Mapping[CobId, CobRecord], cob: CobId) -> Wait:
    """Ask an engine that starts nothing what would hold the object up now."""
    graph = site.graph(None)
    engine = Engine(graph)
    held, _ = old_locks(graph, records, store.locks(), whole=True)
    engine.start(baseline(graph, records).known, held)
    engine.step(Halt())
    return Wait(cob=cob, state=engine.state(cob), chain=engine.chain(cob))
