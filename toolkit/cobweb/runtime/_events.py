"""The events of a run (design, section 7): numbered, timed, handed to every sink.

An event is written only after the journal holds what it tells of, so that nobody acts on a lock or
a start that a crash could take back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

import cobweb
from cobweb.engine import (
    Effect,
    LockGranted,
    LockRecalled,
    LockReleased,
    LockRequested,
    StateFound,
)

__all__ = ["EVENTS_FORMAT", "Emitter", "Event", "Sink", "json_lines", "of_effect"]

EVENTS_FORMAT = 1

Event = Mapping[str, Any]
Sink = Callable[[Event], None]

_LOCK_EVENTS = {
    LockRequested: "lock.request",
    LockGranted: "lock.grant",
    LockReleased: "lock.release",
    LockRecalled: "lock.recall",
}


def of_effect(effect: Effect) -> dict[str, Any] | None:
    """Return the event of an effect without number and time, or None if it tells nothing."""
    if isinstance(effect, StateFound):
        return {
            "type": "cob.state",
            "cob": effect.cob,
            "state": effect.state,
            "reason": str(effect.reason),
        }
    if isinstance(effect, LockRequested | LockGranted | LockReleased | LockRecalled):
        kind = _LOCK_EVENTS[type(effect)]
        return {"type": kind, "cob": effect.cob, "holder": effect.holder, "state": effect.state}
    return None


class Emitter:
    """Numbers and times the events of one run and hands them to the sinks, in order.

    A sink that cannot write any more (a full disk, a closed pipe) is left out from then on and
    named in `notices`; the run goes on, for stopping it half-way would be worse.
    """

    def __init__(self, sinks: Sequence[Sink], now: Callable[[], float]) -> None:
        self._sinks = list(sinks)
        self._now = now
        self._seq = 0
        self.notices: list[str] = []

    @staticmethod
    def version() -> dict[str, Any]:
        """Return the event that comes first."""
        return {"type": "version", "events": EVENTS_FORMAT, "cobweb": cobweb.__version__}

    def number(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the event with its number and time."""
        self._seq += 1
        return {"seq": self._seq, "time": round(self._now(), 6), **event}

    def tell(self, event: Event) -> None:
        """Hand a numbered event to every sink."""
        for sink in tuple(self._sinks):
            try:
                sink(event)
            except OSError as error:
                self._sinks.remove(sink)
                self.notices.append(f"events are no longer written: {error.strerror or error}")


def json_lines(stream: TextIO) -> Sink:
    """Return a sink that writes one JSON object per line and flushes it."""

    def write(event: Event) -> None:
        stream.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")
        stream.flush()

    return write
