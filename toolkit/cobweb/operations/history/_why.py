"""Why an object waits: from the last run's own words, or from the journal of one that goes on."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cobweb.engine import (
    Blocked,
    CheckDropped,
    CheckEnded,
    Engine,
    Halt,
    HostVanished,
    StartTransition,
    TransitionDropped,
    WaitKind,
)
from cobweb.errors import UsageError
from cobweb.kernel._result import GIVEN_UP, Wait, chain_data, with_given_up
from cobweb.model import UNKNOWN, CobId, Graph, host_of
from cobweb.operations.context._budgets import lending_of
from cobweb.operations.context._desired import desired_of
from cobweb.operations.context._known_states import KnownStates, known_states, old_locks
from cobweb.operations.context._removal import Removal, removal_of
from cobweb.operations.drift._drift_check import why_doubtful
from cobweb.site import Site
from cobweb.store import CobRecord, RunRecord, Store, why_dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The answer to `cobweb why`.

    `source` says where it comes from: `settled`, `run` (told by the last run), `journal` (worked
    out from what the journal believes now). `chain` is plain data as in `chain_data`. `removed`
    says that the object is gone from the site; `preferred` is then the state that it goes to first.
    `changed` says that `state` is of an earlier content, `doubt` why it is not known any more,
    `given_up` that the host is.
    """

    cob: CobId
    state: str
    preferred: str
    source: str
    run: str
    message: str = ""
    removed: bool = False
    chain: Sequence[Mapping[str, Any]] = ()
    changed: bool = False
    doubt: str = ""
    given_up: bool = False

    def as_wait(self) -> Wait:
        """Return the chain as the value that the prose is made of."""
        links = tuple(
            Blocked(
                cob=CobId(link["cob"]),
                kind=WaitKind(link["kind"]),
                on=link["on"],
                state=link["state"],
                detail=link["detail"],
                together=tuple(link.get("together", ())),
            )
            for link in self.chain
        )
        return Wait(cob=self.cob, state=self.state, chain=links)


def goes_on(store: Store, run: RunRecord) -> bool:
    """Say whether a run is still at work, as far as its site lock and its process tell."""
    owner = store.site_lock(clock=lambda: 0.0).show()
    if owner is None or owner.run != run.info.id:
        return False
    return run.ended is None and not why_dead(owner)


def why(site: Site, store: Store, reference: str) -> Reason:
    """Say what `reference` waits for; UsageError where there is no such object."""
    cob = CobId(reference)
    graph = site.graph(None)
    records = store.states()
    record = records.get(cob)
    last = store.last_run(but="drift")  # a look at what is leaves nobody waiting
    run = last.info.id if last else ""
    if cob not in graph.cobs:
        if record is None:
            raise UsageError(f"there is no object {reference!r}", hint="see `cobweb show`")
        return _told_by(last, _of_removed(removal_of(store, desired_of(site), {cob}), record, run))
    before, given_up = known_states(graph, records, results=store.results()), store.given_up()
    is_lost = cob in before.uncertain and not (last and goes_on(store, last))
    answer = Reason(
        cob=cob,
        state=record.state if record else UNKNOWN,
        preferred=graph.cobs[cob].preferred,
        source="settled",
        run=run,
        changed=cob in before.changed,
        doubt=why_doubtful(record) if record and is_lost else "",
        given_up=host_of(cob) in given_up,
    )
    told = _told_by(last, answer, given_up)
    if told.source == "run":
        return told
    doubtful = before.changed | before.uncertain | before.away
    if answer.state == answer.preferred and cob not in doubtful:
        return answer
    if answer.given_up:
        chain: Iterable[Blocked] = [Blocked(cob=cob, kind=WaitKind.UNREACHABLE, detail=GIVEN_UP)]
    else:
        found = _Present(graph, store, records, before, last).chain(cob)
        chain = with_given_up(found, given_up)
    return replace(answer, source="journal", chain=chain_data(chain))


def _told_by(
    last: RunRecord | None, answer: Reason, given_up: Container[str] = frozenset()
) -> Reason:
    """Return what the last run said of an object that is as it left it, else `answer`.

    So it is where it said something of a host that is given up by now.
    """
    waits = last.waits if last else ()
    told = next((wait for wait in waits if wait["cob"] == answer.cob), None)
    if told is None or told["state"] != answer.state:
        return answer
    if any(host_of(link["cob"]) in given_up for link in told["chain"]):
        return answer
    return replace(answer, source="run", message=told["message"], chain=told["chain"])


def _of_removed(removal: Removal, record: CobRecord, run: str) -> Reason:
    """Say of an object that is gone from the site that the next apply removes it."""
    cob = record.cob
    told = [wait.chain for wait in removal.waits({cob: record})]
    after = ", once its host can be reached" if not record.reachable else ""
    waits = Blocked(cob=cob, kind=WaitKind.HALTED, detail=f"waits for the next apply{after}")
    return Reason(
        cob=cob,
        state=record.state,
        preferred=removal.graph.cobs[cob].type.remove if cob in removal.removed else "",
        source="journal",
        run=run,
        chain=chain_data(told[0] if told else (waits,)),
        removed=True,
        doubt=why_doubtful(record) if record.in_transition or record.state == UNKNOWN else "",
    )


class _Present:
    """An engine that starts nothing, brought to where the journal stands."""

    def __init__(
        self,
        graph: Graph,
        store: Store,
        records: Mapping[CobId, CobRecord],
        before: KnownStates,
        last: RunRecord | None,
    ) -> None:
        self._records = records
        self._uncertain = before.uncertain
        self._goes_on = last is not None and goes_on(store, last)
        lending = lending_of(store, before.contents, records, graph)
        self._engine = Engine(graph, lending=lending)
        failed = {
            cob
            for cob in graph.cobs
            if cob in records and last and records[cob].failed and records[cob].run == last.info.id
        }
        known = {cob: state for cob, state in before.known.items() if cob not in failed}
        held, _ = old_locks(graph, records, store.locks(), whole=True)
        effects = self._engine.start(known, held)
        self._engine.step(Halt())
        for effect in effects:
            if isinstance(effect, StartTransition):
                self._engine.step(TransitionDropped(cob=effect.cob))
        for cob in sorted(failed):
            self._engine.step(CheckEnded(cob=cob, state=None))
        self._leave(before.missed.intersection(graph.hosts()))

    def chain(self, cob: CobId) -> Iterable[Blocked]:
        """Return why an object waits, each link as the journal sees it."""
        return [self._seen(link) for link in self._engine.chain(cob)]

    def _leave(self, missed: Iterable[str]) -> None:
        for host in sorted(missed):
            self._engine.step(HostVanished(host=host))
        for cob in () if self._goes_on else sorted(self._engine.busy()):
            self._engine.step(CheckDropped(cob=cob))

    def _seen(self, link: Blocked) -> Blocked:
        record = self._records.get(link.cob)
        if link.kind is WaitKind.RUNNING and record and record.in_transition:
            return replace(link, detail=" -> ".join(record.in_transition))
        if link.kind is not WaitKind.HALTED:
            return link
        if self._goes_on:
            return replace(link, detail="is about to begin")
        is_lost = self._engine.state(link.cob) == UNKNOWN
        doubt = ", which checks it" if is_lost else ""
        if record and link.cob in self._uncertain:
            doubt += f" ({why_doubtful(record)})"
        return replace(link, detail=f"waits for the next apply{doubt}")
