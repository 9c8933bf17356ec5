"""From a batch of entries to the few rows that it leaves; pure.

A batch is one transaction, so only what stands at its end is written: per object the columns that
were set, per pair the last grant. Entries of one object keep their order; nothing is left of those
before the last by which it is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from cobweb.generation import canonical_json, redact
from cobweb.model import UNKNOWN, CobId, State
from cobweb.store import _values


@dataclass(slots=True, kw_only=True)
class Batch:
    """What a transaction has to do, in this order: rename, forget, then set.

    `forgotten` has the number of the last entry that says so by id, `cobs` the columns to set,
    `served` the ids of those that have served, `still` those of which nothing was at work any more
    before what `cobs` says; `grants` None for those to delete, `hosts` (reachable, time),
    `switched` the generation and `given_up` whether it is by name, `results` of a host its JSON
    texts by key, None for those to delete. `slots` of a unit are times by limit, None for those to
    delete, `canaries` are in their order; `renamed` are to be in a batch of their own.
    """

    generation: int
    forgotten: dict[CobId, int]
    cobs: dict[CobId, dict[str, Any]] = field(default_factory=dict)
    served: dict[CobId, None] = field(default_factory=dict)
    still: dict[CobId, None] = field(default_factory=dict)
    grants: dict[tuple[CobId, CobId], State | None] = field(default_factory=dict)
    hosts: dict[str, tuple[bool, float]] = field(default_factory=dict)
    switched: dict[str, int] = field(default_factory=dict)
    given_up: dict[str, bool] = field(default_factory=dict)
    results: dict[str, dict[str, str | None]] = field(default_factory=dict)
    forgotten_hosts: dict[str, None] = field(default_factory=dict)
    slots: dict[str, dict[str, float | None]] = field(default_factory=dict)
    canaries: list[_values.CanaryWritten] = field(default_factory=list)
    events: list[_values.EventWritten] = field(default_factory=list)
    renamed: list[_values.CobRenamed] = field(default_factory=list)


def fold(entries: Sequence[_values.Entry], *, generation: int) -> Batch:
    """Return what a batch of entries leaves; `generation` is the run's."""
    forgotten = {it.cob: at for at, it in enumerate(entries) if isinstance(it, _values.Forgotten)}
    batch = Batch(generation=generation, forgotten=forgotten)
    for at, entry in enumerate(entries):
        _take(batch, at, entry)
    for columns in batch.cobs.values():
        if columns.get("applied") is not None:
            columns["applied"] = canonical_json(redact(columns["applied"]))
    return batch


def _take(batch: Batch, at: int, entry: _values.Entry) -> None:
    match entry:
        case _values.EventWritten():
            batch.events.append(entry)
        case _values.CobRenamed():
            batch.renamed.append(entry)
        case _values.GrantWritten():
            _set_grant(batch, at, entry, entry.state)
        case _values.GrantGone():
            _set_grant(batch, at, entry, None)
        case _values.SlotWritten():
            batch.slots.setdefault(entry.unit, {})[entry.limit] = entry.time
        case _values.SlotGone():
            batch.slots.setdefault(entry.unit, {})[entry.limit] = None
        case _values.CanaryWritten():
            batch.canaries.append(entry)
        case _ if isinstance(entry, _values.HostEntry):
            _take_host(batch, entry)
        case _ if at >= batch.forgotten.get(entry.cob, 0):
            _take_cob(batch, entry)


def _set_grant(
    batch: Batch, at: int, entry: _values.GrantWritten | _values.GrantGone, state: State | None
) -> None:
    forgotten = batch.forgotten
    if at >= max(forgotten.get(entry.cob, 0), forgotten.get(entry.holder, 0)):
        batch.grants[entry.cob, entry.holder] = state


def _take_host(batch: Batch, entry: _values.HostEntry) -> None:
    match entry:
        case _values.HostLost() | _values.HostFound():
            batch.hosts[entry.host] = (isinstance(entry, _values.HostFound), entry.time)
        case _values.HostSwitched():
            batch.switched[entry.host] = entry.generation
        case _values.HostGivenUp():
            batch.given_up[entry.host] = entry.given_up
        case _values.ResultsWritten():
            texts = batch.results.setdefault(entry.host, {})
            for key, value in entry.results.items():
                texts[key] = None if value is None else canonical_json(value)
        case _values.HostForgotten():
            batch.forgotten_hosts[entry.host] = None
            by_host = (batch.hosts, batch.switched, batch.given_up, batch.results, batch.slots)
            for known in by_host:
                known.pop(entry.host, None)
        case _:
            assert_never(entry)


def _take_cob(batch: Batch, entry: _values.CobEntry) -> None:
    match entry:
        case _values.ServedWritten(cob=cob):
            batch.served[cob] = None
            return
        case _values.WorkEnded(cob=cob):
            batch.still[cob] = None
            if "at_work" in batch.cobs.get(cob, {}):
                batch.cobs[cob]["at_work"] = False
            return
        case _values.StateWritten():
            columns = _state(batch, entry) | {"reason": entry.reason}
            if entry.failed is not None:
                columns["failed"] = entry.failed
        case _values.TransitionBegan():
            columns = {
                "source": entry.source,
                "dest": entry.dest,
                "attempt": entry.attempt,
                "executor": entry.executor,
                "at_work": entry.at_work,
            }
        case _values.TransitionFinished():
            columns = _state(batch, entry) | {
                "reason": _values.STOPPED if entry.stopped else "transition",
                "failed": entry.result is _values.TransitionResult.FAILED,
                "at_work": entry.at_work,
            }
        case _values.Forgotten(cob=cob):
            batch.slots.pop(cob, None)
            return
        case _:
            assert_never(entry)
    batch.cobs.setdefault(entry.cob, {}).update(columns)


def _state(
    batch: Batch, entry: _values.StateWritten | _values.TransitionFinished
) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "state": entry.state,
        "since": entry.time,
        "generation": batch.generation if entry.generation is None else entry.generation,
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
