"""Live progress of a run: a line that is redrawn on a terminal, plain lines elsewhere.

The progress is one more sink of events; it knows nothing that the events do not say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from cobweb.cli._text import plain

__all__ = ["Counter", "LiveLine", "PlainLines"]

_REDRAW_S = 0.1


@dataclass(slots=True)
class Counter:
    """Counts kept from events: what runs, what has failed, how many transitions have ended."""

    goals: Mapping[str, str]
    states: dict[str, str] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    ended: int = 0
    settled: int = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Count one event."""
        match event["type"]:
            case "cob.state":
                self._set(event["cob"], event["state"])
            case "transition.start":
                self.running[event["cob"]] = f"{event['from']} -> {event['to']}"
            case "transition.end":
                self.running.pop(event["cob"], None)
                self.ended += 1
                if event["result"] == "failed":
                    self.failed.add(event["cob"])
            case _:
                pass

    def _set(self, cob: str, state: str) -> None:
        goal = self.goals.get(cob)
        self.settled += (state == goal) - (self.states.get(cob) == goal)
        self.states[cob] = state

    def summary(self) -> str:
        """Return the counts as one line."""
        total = len(self.goals)
        waiting = total - self.settled - len(self.running) - len(self.failed)
        parts = [f"{self.settled}/{total} objects settled", f"{len(self.running)} running"]
        parts.append(f"{max(0, waiting)} waiting")
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        return ", ".join(parts)


class PlainLines:
    """One line per transition that ends, for logs and pipes."""

    def __init__(self, counter: Counter, stream: TextIO) -> None:
        self._counter = counter
        self._stream = stream

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Write the line of an event, if it has one."""
        self._counter.take(event)
        line = line_of(event)
        if line:
            self._stream.write(plain(line) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Nothing is left on the screen."""


class LiveLine:
    """Finished transitions scroll by above one line of counts that is redrawn."""

    def __init__(
        self,
        counter: Counter,
        stream: TextIO,
        *,
        width: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counter = counter
        self._stream = stream
        self._width = width
        self._clock = clock
        self._drawn_s = -_REDRAW_S

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Write the line of an event above the counts and draw them again, not too often."""
        self._counter.take(event)
        line = line_of(event)
        if line:
            self._stream.write(f"\r\x1b[K{plain(line)}\n")
        elif self._clock() - self._drawn_s < _REDRAW_S:
            return
        self._drawn_s = self._clock()
        self._stream.write(f"\r\x1b[K{plain(self._text())[: self._width - 1]}")
        self._stream.flush()

    def _text(self) -> str:
        running = ", ".join(f"{cob} {way}" for cob, way in list(self._counter.running.items())[:3])
        return f"{self._counter.summary()}{': ' if running else ''}{running}"

    def close(self) -> None:
        """Clear the line of counts."""
        self._stream.write("\r\x1b[K")
        self._stream.flush()


def line_of(event: Mapping[str, Any]) -> str:
    """Return the line that tells of an ended transition, or nothing."""
    if event["type"] != "transition.end":
        return ""
    way = f"{event['from']} -> {event['to']}"
    tries = f", attempt {event['attempt']}" if event["attempt"] > 1 else ""
    result = "" if event["result"] == "ok" else "  FAILED"
    return f"{event['cob']}  {way}  ({event['seconds']:.1f} s{tries}){result}"
