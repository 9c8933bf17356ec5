"""What is on the hosts against what was left there: drift, told apart from pending changes.

Theory of operation. The journal says in which state each object was left, and for which content.
A look checks every object against that content: the site's, or the one applied last where the site
has changed since, so that a pending change is no drift. An object has drifted where its check finds
another state than the one that was left. That is written to the journal as its state, so that the
next apply repairs it, and its event says what was left (`was`) and since when it is known to be
otherwise; a later look goes on from there. What is found as it was left is not written again.

No engine is needed: a check needs no lock. Nothing on a host is changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from itertools import count
from typing import Any

from cobweb.kernel._result import Ending
from cobweb.model import UNKNOWN, Cob, CobId, Graph, Host, Outcome, Report, Results, State, host_of
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._generations import Generations
from cobweb.operations.context._known_states import is_another, is_certain
from cobweb.operations.context._renames import first_names
from cobweb.operations.context._stored_work import KeptWork, Secrets
from cobweb.store import CobRecord, Store

DRIFT = "drift"
"""The reason of a state that was found where another was left."""

THERE = "(there)"
"""Stands for the state of a machine that is there."""


class PendingKind(StrEnum):
    """How an object differs between the site and what was applied last."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """How an object was left: `was` since `was_since`; otherwise since `since` (None: as left).

    `message` is what the check said of the difference.
    """

    was: State
    was_since: float
    since: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object that is checked, as it was applied last under `generation`.

    `left` is None where the journal has lost its state; then nothing can have drifted from it.
    """

    cob: Cob
    record: CobRecord
    generation: int
    left: Left | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """An object that was left in the state `was` and is in `state`, known since `since`.

    `message` is what the check says of the difference, "" where it says nothing.
    """

    cob: CobId
    was: State
    was_since: float
    state: State
    since: float
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An object that the next apply adds, changes or removes."""

    cob: CobId
    kind: PendingKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """An object whose state the journal has lost, `why`, and the state that was found."""

    cob: CobId
    why: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """An object of which nothing could be found out, and what was said."""

    cob: CobId
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftResult:
    """What a look has found; objects are sorted by id.

    `unreachable` has what was said of each host that was lost, `in_flight` a line for each check
    that was stopped in the middle. Times are those of the executor's clock.
    """

    run: str
    ending: Ending
    counts: Mapping[str, int]
    drifted: tuple[Drifted, ...] = ()
    pending: tuple[Pending, ...] = ()
    doubtful: tuple[Doubtful, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)
    in_flight: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """The process exit code."""
        return self.ending.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCheck:
    """What a look has to do: check the `subjects`, in this order.

    `pending` are all changes that the next apply has, `undefined` those of them that cannot be
    checked, for no generation says any more what was applied. `hosts` are all that can be asked,
    `missed` those that could not be reached the last time, with all that the journal has of them.
    `machines` are those that are not looked at and that something is on, as `found_of` tells of
    others. `ignored` counts the objects that the site leaves out; `results` are what tasks handed
    back, `first_names` what hosts know objects by that were renamed.
    """

    subjects: tuple[Subject, ...]
    pending: tuple[Pending, ...]
    undefined: tuple[CobId, ...]
    hosts: Mapping[str, Host]
    missed: Mapping[str, frozenset[CobId]]
    ignored: int
    machines: Mapping[CobId, State] = field(default_factory=dict)
    results: Results = field(default_factory=dict)
    first_names: Mapping[CobId, CobId] = field(default_factory=dict)


def drift_check_of(
    desired: Desired, store: Store, work: KeptWork, *, ignores: Callable[[CobId], bool]
) -> DriftCheck:
    """Return what is to be checked of a site; with a limit only the objects of its hosts.

    `work` finds the files of earlier generations. StoreError where one of these is damaged.
    """
    records = store.states()
    every = desired.graph.cobs.keys() | records.keys()
    chosen = sorted(cob for cob in every if desired.chooses(host_of(cob)))
    cobs = desired.graph.cobs
    looked_at = [c for c in chosen if not (ignores(c) or (c in cobs and cobs[c].type.on_demand))]
    results = store.results()
    pending = _pending(desired, records, looked_at, results)
    old = [cob for cob, kind in pending.items() if kind is not PendingKind.ADDED]
    cobs, generations, hosts = _definitions([records[cob] for cob in old], desired, store, work)
    noticed = _noticed(store, [records[cob] for cob in looked_at if cob in records])
    subjects = []
    for cob in looked_at:
        if cob not in pending:
            it, generation = desired.graph.cobs[cob], records[cob].generation
        elif cob in cobs:
            it, generation = cobs[cob], generations[cob]
        else:
            continue
        left = _left(records[cob], it, noticed.get(cob))
        subjects.append(Subject(cob=it, record=records[cob], generation=generation, left=left))
    return DriftCheck(
        subjects=tuple(_in_turns(subjects)),
        pending=tuple(Pending(cob=cob, kind=kind) for cob, kind in pending.items()),
        undefined=tuple(cob for cob in old if cob not in cobs),
        hosts={**desired.hosts, **hosts} if hosts else desired.hosts,
        missed=_missed(records),
        ignored=len(chosen) - len(looked_at),
        machines=dict(_believed(desired, records, subjects)),
        results=results,
        first_names=first_names(store.renames()),
    )


def found_of(subject: Subject, report: Report) -> State:
    """Return what a check says of an object as a machine: THERE, the other state, or `unknown`."""
    kind = subject.cob.type
    if report.outcome is not Outcome.OK or report.state not in kind.states:
        return UNKNOWN
    return THERE if report.state == kind.preferred else report.state


def _believed(
    desired: Desired, records: Mapping[CobId, CobRecord], subjects: list[Subject]
) -> Iterator[tuple[CobId, State]]:
    """Yield what the journal knows of machines that are not looked at themselves."""
    machines = {it.cob.machine for it in subjects if it.cob.machine}
    for machine in machines - {it.cob.id for it in subjects}:
        it, record = desired.graph.cobs.get(machine), records.get(machine)
        if it and record and is_certain(record, it.type):
            yield machine, THERE if record.state == it.type.preferred else record.state


def why_doubtful(record: CobRecord) -> str:
    """Return why the journal does not know the state of an object."""
    if record.in_transition is not None:
        return f"stopped in {' -> '.join(record.in_transition)}"
    if record.stopped:
        return "stopped"
    return "failed" if record.failed else "its state was lost"


def drift_data(result: DriftResult) -> dict[str, Any]:
    """Return what `cobweb drift -o json` writes."""
    return {
        "format": 1,
        "run": result.run,
        "result": str(result.ending),
        "exit_code": result.exit_code,
        "counts": dict(result.counts),
        "seconds": round(result.seconds, 3),
        "drifted": list(map(_said, result.drifted)),
        "pending": list(map(_said, result.pending)),
        "doubtful": list(map(_said, result.doubtful)),
        "unchecked": list(map(_said, result.unchecked)),
        "unreachable": dict(result.unreachable),
        "in_flight": list(result.in_flight),
    }


def _said(it: Any) -> dict[str, Any]:
    return {"is" if key == "state" else key: value for key, value in asdict(it).items()}


def _pending(
    desired: Desired, records: Mapping[CobId, CobRecord], cobs: list[CobId], results: Results
) -> dict[CobId, PendingKind]:
    contents = desired.evaluated.contents
    found: dict[CobId, PendingKind] = {}
    for cob in cobs:
        if cob not in records:
            found[cob] = PendingKind.ADDED
        elif cob not in contents:
            found[cob] = PendingKind.REMOVED
        elif is_another(desired.graph.cobs[cob], records[cob], contents[cob], results):
            found[cob] = PendingKind.CHANGED
    return found


def _noticed(store: Store, records: list[CobRecord]) -> dict[CobId, Left]:
    """Return how the objects were left that have drifted already, as the events of it tell."""
    drifted = {it.cob: it for it in records if it.reason == DRIFT}
    found: dict[CobId, Left] = {}
    for run in sorted({it.run for it in drifted.values()}):
        for event in store.events(run):
            cob = event.get("cob")
            if event.get("reason") == DRIFT and cob in drifted and drifted[cob].run == run:
                told = {it.name: event[it.name] for it in fields(Left) if it.name in event}
                found[cob] = Left(**told)
    return found


def drifted_of(store: Store, records: Iterable[CobRecord], graph: Graph) -> dict[CobId, Left]:
    """Return how those of the site were left that a look has found otherwise since."""
    drifted = [it for it in records if it.reason == DRIFT and it.cob in graph.cobs]
    noticed = _noticed(store, drifted)
    left = {it.cob: _left(it, graph.cobs[it.cob], noticed.get(it.cob)) for it in drifted}
    return {cob: it for cob, it in left.items() if it is not None}


def _left(record: CobRecord, cob: Cob, noticed: Left | None) -> Left | None:
    """Return how an object was left; None where nobody knows.

    Of drift whose events are gone nothing is known but that the object is not as it was left; that
    will have been its preferred state.
    """
    if record.in_transition is not None or record.state not in cob.type.states:
        return None
    if record.reason != DRIFT:
        return Left(was=record.state, was_since=record.since)
    return noticed or Left(was=cob.preferred, was_since=record.since, since=record.since)


def _missed(records: Mapping[CobId, CobRecord]) -> dict[str, frozenset[CobId]]:
    found: dict[str, set[CobId]] = {}
    for cob, record in records.items():
        if not record.reachable:
            found.setdefault(host_of(cob), set()).add(cob)
    return {host: frozenset(cobs) for host, cobs in found.items()}


def _in_turns(subjects: list[Subject]) -> list[Subject]:
    """Return the objects so that hosts take turns: the first of each, then the second of each."""
    turns: dict[str, count[int]] = defaultdict(count)
    return sorted(subjects, key=lambda it: next(turns[it.cob.host]))  # asked once of each, in order


def _definitions(
    records: Iterable[CobRecord], desired: Desired, store: Store, work: KeptWork
) -> tuple[Mapping[CobId, Cob], Mapping[CobId, int], Mapping[str, Host]]:
    """Return what the objects were that records were written for, as far as a generation says so.

    Then the generation of each, and their hosts, as these were reached.
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
    return graph.cobs, generations, gone


def _candidates(record: CobRecord, past: Generations) -> Iterator[int]:
    """Yield the generations that may say what an object was, the most likely first."""
    first = (past.active.get(host_of(record.cob), 0), record.generation)
    yield from first
    yield from (each for each in past.ids if each not in first)
