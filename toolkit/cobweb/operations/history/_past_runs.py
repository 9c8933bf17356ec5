"""Past runs: which one is meant, and why an object waited at its end, from the run's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cobweb._text import did_you_mean
from cobweb.errors import StoreError, UsageError
from cobweb.model import UNKNOWN, CobId
from cobweb.operations.history._why import Reason
from cobweb.store import Generation, RunRecord, Store

_LIKE_RUNS = 1000
"""Among so many runs one is looked for whose id is like what was asked for."""


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
    told = next((wait for wait in record.waits if wait["cob"] == reference), None)
    state = told["state"] if told is not None else _last_state(store, run, reference)
    if state is None:
        raise UsageError(f"{reference!r} took no part in run {run}", hint="see `cobweb report`")
    preferred, is_removed = _wanted(store, record.info.generation, reference)
    return Reason(
        cob=CobId(reference),
        state=state,
        preferred=preferred,
        removed=is_removed,
        source="settled" if told is None else "run",
        run=run,
        message="" if told is None else told["message"],
        chain=() if told is None else told["chain"],
    )


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
