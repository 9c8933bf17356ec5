"""Why an object waits: from the last run's own words, or from the journal of one that goes on."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cobweb._text import did_you_mean
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
from cobweb.errors import StoreError, UsageError
from cobweb.kernel._result import GIVEN_UP, Wait, chain_data, link_of, with_given_up
from cobweb.model import UNKNOWN, CobId, Graph, host_of
from cobweb.operations.context._desired import desired_of
from cobweb.operations.context._known_states import KnownStates, known_states, lending_of, old_locks
from cobweb.operations.context._removal import Removal, removal_of
from cobweb.operations.drift._drift_check import why_doubtful
from cobweb.site import Site
from cobweb.store import CobRecord, Generation, RunRecord, Store

_LIKE_RUNS = 1000
"""Among so many runs one is looked for whose id is like what was asked for."""


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
        return Wait(cob=self.cob, state=self.state, chain=tuple(map(link_of, self.chain)))


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
    is_lost = cob in before.uncertain and not (last and store.goes_on(last))
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
        found = _chain_now(cob, graph, store, records, before, last)
        chain = with_given_up(found, given_up)
    return replace(answer, source="journal", chain=chain_data(chain))


def _told_by(
    last: RunRecord | None, answer: Reason, given_up: Container[str] = frozenset()
) -> Reason:
    """Return what the last run said of an object that is as it left it, else `answer`.

    So it is where it said something of a host that is given up by now.
    """
    told = last and _wait_in(last, answer.cob)
    if not told or told["state"] != answer.state:
        return answer
    if any(host_of(link["cob"]) in given_up for link in told["chain"]):
        return answer
    return replace(answer, source="run", message=told["message"], chain=told["chain"])


def _wait_in(run: RunRecord, cob: str) -> Mapping[str, Any] | None:
    return next((wait for wait in run.waits if wait["cob"] == cob), None)


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


def _chain_now(  # noqa: PLR0913, PLR0917  # who waits, and all that the journal says
    cob: CobId,
    graph: Graph,
    store: Store,
    records: Mapping[CobId, CobRecord],
    before: KnownStates,
    last: RunRecord | None,
) -> Iterator[Blocked]:
    """Yield why an object waits, by an engine that starts nothing, where the journal stands."""
    engine = Engine(graph, lending=lending_of(store, before.contents, records, graph))
    failed = {
        it
        for it in graph.cobs
        if it in records and last and records[it].failed and records[it].run == last.info.id
    }
    known = {it: state for it, state in before.known.items() if it not in failed}
    held, _ = old_locks(graph, records, store.locks(), whole=True)
    effects = engine.start(known, held)
    engine.step(Halt())
    for effect in effects:
        if isinstance(effect, StartTransition):
            engine.step(TransitionDropped(cob=effect.cob))
    for it in sorted(failed):
        engine.step(CheckEnded(cob=it, state=None))
    for host in sorted(before.missed.intersection(graph.hosts())):
        engine.step(HostVanished(host=host))
    is_running = last is not None and store.goes_on(last)
    for it in () if is_running else sorted(engine.busy()):
        engine.step(CheckDropped(cob=it))
    for link in engine.chain(cob):
        said = _said_now(link, engine, records.get(link.cob), before, is_running=is_running)
        yield replace(link, **said)


def _said_now(
    link: Blocked,
    engine: Engine,
    record: CobRecord | None,
    before: KnownStates,
    *,
    is_running: bool,
) -> dict[str, Any]:
    """Return what the journal knows better of a link of a chain."""
    if link.kind is WaitKind.RUNNING and record and record.in_transition:
        return {"detail": " -> ".join(record.in_transition)}
    if link.kind is WaitKind.RUNNING and is_running:
        return {"kind": WaitKind.HALTED, "detail": "waits for its turn in the run that goes on"}
    if link.kind is not WaitKind.HALTED:
        return {}
    if is_running:
        return {"detail": "is about to begin"}
    doubt = ", which checks it" if engine.state(link.cob) == UNKNOWN else ""
    if record and link.cob in before.uncertain:
        doubt += f" ({why_doubtful(record)})"
    return {"detail": f"waits for the next apply{doubt}"}


def run_of(store: Store, run: str | None) -> RunRecord:
    """Return the run with this id, None: the last one; UsageError where there is none (any more).

    Ids of runs begin with their time, by which it is told what `cobweb gc` has deleted.
    """
    if found := store.last_run() if run is None else store.run(run):
        return found
    if run is None:
        raise UsageError(f"there is no run yet in {store.label}", hint="see `cobweb apply`")
    began, deleted = (it.rpartition("-")[0] for it in (run, store.newest_deleted_run()))
    if "" < began <= deleted:
        message = f"there is no run {run!r}: `cobweb gc` has deleted runs up to {deleted}"
        raise UsageError(message, hint="`cobweb runs` lists those that are left")
    known = (it.info.id for it in store.runs(_LIKE_RUNS))
    hint = did_you_mean(run, known, otherwise="see `cobweb runs`")
    raise UsageError(f"there is no run {run!r}", hint=hint)


def why_in_run(store: Store, record: RunRecord, reference: str) -> Reason:
    """Say what `reference` waited for when the run ended.

    The site of today is not asked: what was preferred is read from the run's generation.
    UsageError for a run without an end, or an object that took no part in it.
    """
    run = record.info.id
    if record.ended is None:
        raise UsageError(f"run {run} has no end", hint=f"see `cobweb report {run}`")
    told = _wait_in(record, reference)
    state = told["state"] if told is not None else _last_state(store, run, reference)
    if state is None:
        raise UsageError(f"{reference!r} took no part in run {run}", hint="see `cobweb report`")
    preferred, is_removed = _wanted(store, record.info.generation, reference)
    answer = Reason(
        cob=CobId(reference),
        state=state,
        preferred=preferred,
        removed=is_removed,
        source="settled",
        run=run,
    )
    return _told_by(record, answer)


def _last_state(store: Store, run: str, cob: str) -> str | None:
    """Return the last state that the run told of an object."""
    kinds = ("cob.state", "transition.end")
    told = [it["state"] for it in store.events(run) if it.get("cob") == cob and it["type"] in kinds]
    return told[-1] if told else None


def _wanted(store: Store, generation: int, cob: str) -> tuple[str, bool]:
    """Return the state that an object had to go to in a run, and whether to be removed.

    An object that its generation has not was removed, as the newest one before says that has it;
    `unknown` where what said so is gone.
    """
    found = store.generation(generation)
    if found is None:
        return UNKNOWN, False
    if (preferred := _word(store, found, cob, "preferred")) is not None:
        return preferred, False
    for info in store.generations():
        older = store.generation(info.id) if info.id < generation else None
        if older and (remove := _word(store, older, cob, "remove")) is not None:
            return remove, True
    return UNKNOWN, True


def _word(store: Store, generation: Generation, cob: str, word: str) -> str | None:
    """Return what the type of an object says in a generation; None where that has it not."""
    try:
        content: Mapping[str, Any] = json.loads(generation.content)
        if cob not in content["cobs"]:
            return None
        return str(content["types"][content["cobs"][cob]["type"]][word])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"generation {generation.id} in {store.label} is damaged") from error
