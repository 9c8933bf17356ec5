"""Why an object waited at the end of a past run: from the run's own words in the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cobweb.errors import StoreError, UsageError
from cobweb.model import UNKNOWN, CobId
from cobweb.runtime._why import Reason
from cobweb.store import RunRecord, Store

__all__ = ["why_in_run"]


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
    return Reason(
        cob=CobId(reference),
        state=state,
        preferred=_preferred(store, record.info.generation, reference),
        source="settled" if told is None else "run",
        run=run,
        message="" if told is None else told["message"],
        chain=() if told is None else told["chain"],
    )


def _last_state(store: Store, run: str, cob: str) -> str | None:
    """Return the last state that the run told of an object."""
    state: str | None = None
    for event in store.events(run):
        if event.get("cob") == cob and event["type"] in ("cob.state", "transition.end"):
            state = event["state"]
    return state


def _preferred(store: Store, generation: int, cob: str) -> str:
    """Return the preferred state of an object in a generation; unknown where that is gone."""
    found = store.generation(generation)
    if found is None:
        return UNKNOWN
    try:
        content: Mapping[str, Any] = json.loads(found.content)
        if cob not in content["cobs"]:
            return UNKNOWN
        return str(content["types"][content["cobs"][cob]["type"]]["preferred"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"generation {generation} in {store.label} is damaged") from error
