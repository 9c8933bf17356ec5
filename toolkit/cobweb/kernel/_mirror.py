"""What other owners have told, taken down as if it had happened here: events, states, counts.

Their locks and slots are not: these are durable where their owners are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cobweb import store
from cobweb.kernel._events import EventBody
from cobweb.kernel._record import Record
from cobweb.kernel._run_state import RunState
from cobweb.model import UNKNOWN, CobId


def mirror(told: Iterable[EventBody], run_state: RunState, record: Record) -> None:
    """Add the events of other owners to a record, with the entries that follow from them."""
    for kind, data in told:
        record.tell([(kind, data)])
        if data.get("result") == "failed":
            run_state.failed.add(CobId(data["cob"]))
            run_state.messages[CobId(data["cob"])] = data.get("message", "")
        if kind == "check.end":
            run_state.checks += 1
        elif kind == "transition.start":
            run_state.begun += 1
            way = {"source": data["from"], "dest": data["to"], "time": run_state.now_s}
            record.write(store.TransitionBegan(cob=CobId(data["cob"]), **way))
        elif kind == "transition.end":
            run_state.transitions += data["result"] == "ok"
            _found(run_state, record, data, "transition")
        elif kind == "cob.state" and data["reason"] != "content":  # then nothing is known yet
            _found(run_state, record, data, data["reason"])


def _found(run_state: RunState, record: Record, data: Mapping[str, Any], reason: str) -> None:
    """Write down a state, for what content that is, and what is applied then."""
    cob, state, context = CobId(data["cob"]), data["state"], run_state.context
    if reason == "journal" and context.recorded(cob) == state and not context.is_new(cob):
        return  # it is known here as well
    kind = context.graph.cobs[cob].type
    more: dict[str, Any] = {"time": run_state.now_s}
    if state != UNKNOWN:
        more["content"] = context.content(cob, in_base=False)
    if state == kind.preferred:
        more["applied"] = context.spec(cob, in_base=False)
    elif state == kind.remove:
        more["applied"] = None
    if data.get("result"):
        more["failed"] = data["result"] != "ok"
    record.write(store.StateWritten(cob=cob, state=state, reason=reason, **more))
    if kind.serves(state):
        record.write(store.ServedWritten(cob=cob))
