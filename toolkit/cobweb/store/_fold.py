"""From a batch of entries to the few rows that it leaves; pure.

A batch is one transaction, so only what stands at its end is written: per object the columns that
were set, per pair the last grant. Entries of one object keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from cobweb.generation import canonical_json, redact
from cobweb.model import UNKNOWN, CobId, State
from cobweb.store._values import (
    STOPPED,
    CanaryWritten,
    CobEntry,
    CobRenamed,
    Entry,
    EventWritten,
    Forgotten,
    GrantGone,
    GrantWritten,
    HostEntry,
    HostForgotten,
    HostFound,
    HostGivenUp,
    HostLost,
    HostSwitched,
    ResultsWritten,
    ServedWritten,
    SlotGone,
    SlotWritten,
    StateWritten,
    TransitionBegan,
    TransitionFinished,
    TransitionResult,
    WorkEnded,
)


@dataclass(slots=True, kw_only=True)
class Batch:
    """What a transaction has to do, in this order: rename, forget, then set.

    `cobs` has the columns to set by id, `served` the ids of those that have served, `still` those
    of which nothing was at work any more before what `cobs` says; `grants` None
    for those to delete, `hosts` (reachable, time), `switched` the generation and `given_up` whether
    it is by name, `results` of a host its JSON texts by key, None for those to delete. `slots` of a
    unit are times by limit, None for those to delete, `canaries` are in their order;
    `renamed` are to be in a batch of their own. `grants_of` finds grants by their ends; it
    is made when an object is forgotten, so that forgetting many takes no longer than writing them.
    """

    generation: int
    forgotten: dict[CobId, None] = field(default_factory=dict)
    cobs: dict[CobId, dict[str, Any]] = field(default_factory=dict)
    served: dict[CobId, None] = field(default_factory=dict)
    still: dict[CobId, None] = field(default_factory=dict)
    grants: dict[tuple[CobId, CobId], State | None] = field(default_factory=dict)
    grants_of: dict[CobId, list[tuple[CobId, CobId]]] | None = None
    hosts: dict[str, tuple[bool, float]] = field(default_factory=dict)
    switched: dict[str, int] = field(default_factory=dict)
    given_up: dict[str, bool] = field(default_factory=dict)
    results: dict[str, dict[str, str | None]] = field(default_factory=dict)
    forgotten_hosts: dict[str, None] = field(default_factory=dict)
    slots: dict[str, dict[str, float | None]] = field(default_factory=dict)
    canaries: list[CanaryWritten] = field(default_factory=list)
    events: list[EventWritten] = field(default_factory=list)
    renamed: list[CobRenamed] = field(default_factory=list)


def fold(entries: Sequence[Entry], *, generation: int) -> Batch:
    """Return what a batch of entries leaves; `generation` is the run's."""
    batch = Batch(generation=generation)
    for entry in entries:
        _take(batch, entry)
    for columns in batch.cobs.values():
        if columns.get("applied") is not None:
            columns["applied"] = canonical_json(redact(columns["applied"]))
    return batch


def _take(batch: Batch, entry: Entry) -> None:
    match entry:
        case EventWritten():
            batch.events.append(entry)
        case CobRenamed():
            batch.renamed.append(entry)
        case GrantWritten():
            _set_grant(batch, (entry.cob, entry.holder), entry.state)
        case GrantGone():
            _set_grant(batch, (entry.cob, entry.holder), None)
        case SlotWritten():
            batch.slots.setdefault(entry.unit, {})[entry.limit] = entry.time
        case SlotGone():
            batch.slots.setdefault(entry.unit, {})[entry.limit] = None
        case CanaryWritten():
            batch.canaries.append(entry)
        case _ if isinstance(entry, HostEntry):
            _take_host(batch, entry)
        case _:
            _take_cob(batch, entry)


def _take_host(batch: Batch, entry: HostEntry) -> None:
    match entry:
        case HostLost():
            batch.hosts[entry.host] = (False, entry.time)
        case HostFound():
            batch.hosts[entry.host] = (True, entry.time)
        case HostSwitched():
            batch.switched[entry.host] = entry.generation
        case HostGivenUp():
            batch.given_up[entry.host] = entry.given_up
        case ResultsWritten():
            texts = {key: _result(value) for key, value in entry.results.items()}
            batch.results.setdefault(entry.host, {}).update(texts)
        case HostForgotten():
            batch.forgotten_hosts[entry.host] = None
            batch.hosts.pop(entry.host, None)
            batch.switched.pop(entry.host, None)
            batch.given_up.pop(entry.host, None)
            batch.results.pop(entry.host, None)
            batch.slots.pop(entry.host, None)
        case _:
            assert_never(entry)


def _take_cob(batch: Batch, entry: CobEntry) -> None:
    match entry:
        case ServedWritten(cob=cob):
            batch.served[cob] = None
            return
        case WorkEnded(cob=cob):
            batch.still[cob] = None
            if "at_work" in batch.cobs.get(cob, {}):
                batch.cobs[cob]["at_work"] = False
            return
        case StateWritten():
            columns = _state(batch, entry) | {"reason": entry.reason}
            if entry.failed is not None:
                columns["failed"] = entry.failed
        case TransitionBegan():
            columns = {
                "source": entry.source,
                "dest": entry.dest,
                "attempt": entry.attempt,
                "executor": entry.executor,
                "at_work": entry.at_work,
            }
        case TransitionFinished():
            columns = _finished(batch, entry)
        case Forgotten(cob=cob):
            _forget(batch, cob)
            return
        case _:
            assert_never(entry)
    batch.cobs.setdefault(entry.cob, {}).update(columns)


def _result(value: Any) -> str | None:
    return None if value is None else canonical_json(value)


def _state(batch: Batch, entry: StateWritten | TransitionFinished) -> dict[str, Any]:
    generation = batch.generation if entry.generation is None else entry.generation
    columns: dict[str, Any] = {
        "state": entry.state,
        "since": entry.time,
        "generation": generation,
        "source": None,
        "dest": None,
    }
    if entry.state != UNKNOWN:
        columns["known"] = entry.state
    if entry.content is not None:
        columns["content"] = entry.content
    if entry.applied is not ...:
        columns["applied"] = entry.applied
    return columns


def _finished(batch: Batch, entry: TransitionFinished) -> dict[str, Any]:
    columns = _state(batch, entry)
    columns["reason"] = STOPPED if entry.stopped else "transition"
    columns["failed"] = entry.result is TransitionResult.FAILED
    columns["at_work"] = entry.at_work
    return columns


def _forget(batch: Batch, cob: CobId) -> None:
    batch.forgotten[cob] = None
    batch.cobs.pop(cob, None)
    batch.served.pop(cob, None)
    batch.still.pop(cob, None)
    batch.slots.pop(cob, None)
    if batch.grants_of is None:
        batch.grants_of = {}
        for pair in batch.grants:
            _note(batch.grants_of, pair)
    for pair in batch.grants_of.pop(cob, ()):
        batch.grants.pop(pair, None)


def _set_grant(batch: Batch, pair: tuple[CobId, CobId], state: State | None) -> None:
    batch.grants[pair] = state
    if batch.grants_of is not None:
        _note(batch.grants_of, pair)


def _note(grants_of: dict[CobId, list[tuple[CobId, CobId]]], pair: tuple[CobId, CobId]) -> None:
    for end in pair:
        grants_of.setdefault(end, []).append(pair)
