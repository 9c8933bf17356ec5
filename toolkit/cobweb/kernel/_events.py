"""The events of a run (design, section 7): numbered, timed, handed to every sink.

An event is written only after the journal holds what it tells of, so that nobody acts on a lock or
a start that a crash could take back. Its JSON is made once, for the journal and for all files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from cobweb import engine

EVENTS_FORMAT = 1

EventBody = tuple[str, dict[str, Any]]
"""What is told, before it has a number and a time: its type and the rest."""

_LOCK, _SLOT = ("cob", "holder", "state"), ("limit", "unit")
_EVENTS: Mapping[type[engine.Effect], tuple[str, Sequence[str]]] = {
    engine.LockRequested: ("lock.request", _LOCK),
    engine.LockGranted: ("lock.grant", _LOCK),
    engine.LockReleased: ("lock.release", _LOCK),
    engine.LockRecalled: ("lock.recall", _LOCK),
    engine.CobGaveUp: ("cob.gave_up", ("cob",)),
    engine.SlotTaken: ("slot.take", _SLOT),
    engine.SlotReturned: ("slot.return", _SLOT),
}
"""The effects that are told as they are: the type of the event, and the fields that it has."""

_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_unicode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


class Event(dict[str, Any]):
    """A numbered event: `seq`, `time`, `type` and what belongs to its type."""

    __slots__ = ("_data", "_json")

    def __init__(self, seq: int, time: float, told: EventBody) -> None:
        kind, self._data = told
        super().__init__(seq=seq, time=time, type=kind, **self._data)
        self._json = ""

    @property
    def data_json(self) -> str:
        """What belongs to the type, as a JSON object in ASCII; made once."""
        if not self._json:
            self._json = _ascii(self._data)
        return self._json

    @property
    def line(self) -> str:
        """The whole event as a line of JSON, with its end; in Unicode."""
        rest = self.data_json
        if "\\u" in rest:
            rest = _unicode(self._data)
        head = f'{{"seq":{self["seq"]},"time":{self["time"]!r},"type":"{self["type"]}"'
        return f"{head},{rest[1:]}\n" if self._data else f"{head}}}\n"


Sink = Callable[[Event], None]


def of_effect(effect: engine.Effect) -> tuple[EventBody, ...]:
    """Return what an effect has to tell: one thing, or nothing."""
    if isinstance(effect, engine.LimitPaused):
        pause = {"limit": effect.limit, "units": list(effect.units), "seconds": effect.pause_s}
        return (("limit.pause", pause),)
    kind, fields = _EVENTS.get(type(effect), ("", ()))
    return ((kind, {name: getattr(effect, name) for name in fields}),) if kind else ()


class EventPublisher:
    """Numbers and times the events of one run and hands them to the sinks, in order.

    A sink that cannot write any more (a full disk, a closed pipe) is left out from then on and
    named in `notices`; the run goes on, for stopping it half-way would be worse.
    """

    def __init__(self, sinks: Sequence[Sink], now: Callable[[], float]) -> None:
        self._sinks = list(sinks)
        self._now = now
        self._seq = 0
        self.notices: list[str] = []

    def number(self, batch: Sequence[EventBody]) -> list[Event]:
        """Return events with their numbers and the time at which they are told."""
        first, now_s = self._seq + 1, round(self._now(), 6)
        self._seq += len(batch)
        return [Event(seq, now_s, told) for seq, told in enumerate(batch, first)]

    def tell(self, batch: Sequence[Event]) -> None:
        """Hand numbered events to every sink."""
        for sink in tuple(self._sinks):
            try:
                if isinstance(sink, _Lines):
                    sink.write(batch)
                else:
                    for event in batch:
                        sink(event)
            except OSError as error:
                self._sinks.remove(sink)
                self.notices.append(f"events are no longer written: {error.strerror or error}")


class _Lines:
    """A sink of lines that takes a batch at once: one write, one flush."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self.write([event])

    def write(self, batch: Sequence[Event]) -> None:
        self._stream.write("".join([event.line for event in batch]))
        self._stream.flush()


def json_lines(stream: TextIO) -> Sink:
    """Return a sink that writes one JSON object per line, and flushes what is told at once."""
    return _Lines(stream)
