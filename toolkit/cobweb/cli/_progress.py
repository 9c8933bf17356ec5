"""Live progress of a run: a line that is redrawn on a terminal, plain lines elsewhere.

The progress is one more sink of events; it knows nothing that the events do not say. A terminal
that is gone is no error: the run goes on without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, Self, TextIO

from cobweb._text import plain
from cobweb.cli._text import cut

_REDRAW_S = 0.1
_ERASE = "\r\x1b[K"
_NAMED = 3
_SILENT_S, _MOST_SILENT_S = 10.0, 60.0
"""After how much silence it is told what still runs: at first, and at most, for it is doubled."""

_TICK_S = 1.0


class _Kind(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    SETTLED = "settled"
    FAILED = "failed"


@dataclass(slots=True)
class Counter:
    """Counts kept from events: how many objects and hosts are settled, run, wait, have failed.

    `goals` are the preferred states of the objects that the run may move. `running` has the
    transition of each object at work, and when that began by `clock`. Who is `old` is not settled
    until its host has switched.
    """

    goals: Mapping[str, str]
    clock: Callable[[], float] = time.monotonic
    running: dict[str, tuple[str, float]] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)
    _states: dict[str, str] = field(default_factory=dict)
    _kinds: dict[str, _Kind] = field(default_factory=dict)
    _counts: dict[_Kind, int] = field(default_factory=dict)
    _open: dict[str, int] = field(default_factory=dict)
    _hosts_done: int = 0
    old: set[str] = field(default_factory=set)
    _switched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Let every object wait."""
        self._counts = dict.fromkeys(_Kind, 0) | {_Kind.WAITING: len(self.goals)}
        for cob in self.goals:
            host = _host(cob)
            self._open[host] = self._open.get(host, 0) + 1

    def take(self, event: Mapping[str, Any]) -> None:
        """Count one event."""
        cob = event.get("cob", "")
        match event["type"]:
            case "cob.state":
                self._states[cob] = event["state"]
                if event["state"] == "unknown":
                    self.running.pop(cob, None)
            case "transition.start":
                self.running[cob] = f"{event['from']} -> {event['to']}", self.clock()
            case "transition.end":
                self.running.pop(cob, None)
                if event["result"] == "failed":
                    self._failed.add(cob)
            case "generation.switch":
                self._switched.update(event["hosts"])
                return
            case _:
                return
        if cob in self.goals:
            self._count(cob, self._kind(cob))

    def _kind(self, cob: str) -> _Kind:
        if cob in self.running:
            return _Kind.RUNNING
        if cob in self._failed:
            return _Kind.FAILED
        is_old = cob in self.old and _host(cob) not in self._switched
        is_there = self._states.get(cob) == self.goals[cob] and not is_old
        return _Kind.SETTLED if is_there else _Kind.WAITING

    def _count(self, cob: str, kind: _Kind) -> None:
        before = self._kinds.get(cob, _Kind.WAITING)
        self._kinds[cob] = kind
        self._counts[before] -= 1
        self._counts[kind] += 1
        change = (before is _Kind.SETTLED) - (kind is _Kind.SETTLED)
        if change:
            host = _host(cob)
            was_done = self._open[host] == 0
            self._open[host] += change
            self._hosts_done += (self._open[host] == 0) - was_done

    def summary(self) -> str:
        """Return the counts as one line, at most 80 cells for a million objects."""
        counts = self._counts
        parts = [
            f"hosts {self._hosts_done}/{len(self._open)}",
            f"objects {counts[_Kind.SETTLED]}/{len(self.goals)}",
            f"running {len(self.running)}",
            f"waiting {counts[_Kind.WAITING]}",
        ]
        if counts[_Kind.FAILED]:
            parts.append(f"failed {counts[_Kind.FAILED]}")
        return "  ".join(parts)

    def at_work(self, form: str) -> str:
        """Name the first that run; `form` is a format of `cob`, `way` and `for_s`."""
        now = self.clock()
        told = [
            form.format(cob=cob, way=way, for_s=now - since)
            for cob, (way, since) in islice(self.running.items(), _NAMED)
        ]
        more = len(self.running) - _NAMED
        return ", ".join(told) + (f" and {more} more" if more > 0 else "")


class PlainLines:
    """One line per transition that ends and per pause, for logs and pipes.

    Where nothing was heard for long it tells what still runs, ever more seldom.
    """

    def __init__(self, counter: Counter, stream: TextIO) -> None:
        self._counter = counter
        self._stream = stream
        self._heard_s = counter.clock()
        self._patience_s = _SILENT_S

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Write the line of an event, if it has one."""
        self._heard()
        self._counter.take(event)
        for line in lines_of(event):
            self._write(line)

    def say(self, text: str) -> None:
        """Write a line."""
        self._heard()
        self._write(text)

    def tick(self) -> None:
        """Tell what runs if there was silence for long enough; then it may be twice as long."""
        now = self._counter.clock()
        if self._counter.running and now - self._heard_s >= self._patience_s:
            self._write(f"still at work: {self._counter.at_work('{cob} {way} ({for_s:.0f} s)')}")
            self._heard_s = now
            self._patience_s = min(2 * self._patience_s, _MOST_SILENT_S)

    def _heard(self) -> None:
        self._heard_s, self._patience_s = self._counter.clock(), _SILENT_S

    def _write(self, text: str) -> None:
        _write(self._stream, plain(text) + "\n")

    def close(self) -> None:
        """Nothing is left on the screen."""


class LiveLine:
    """Finished transitions scroll by above one line of counts that is redrawn."""

    def __init__(self, counter: Counter, stream: TextIO, *, width: Callable[[], int]) -> None:
        self._counter = counter
        self._stream = stream
        self._width = width
        self._clock = counter.clock
        self._drawn_s = -_REDRAW_S

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Write the line of an event above the counts, and draw them again, not too often."""
        self._counter.take(event)
        lines = lines_of(event)
        for line in lines:
            self.say(line)
        if not lines and self._clock() - self._drawn_s >= _REDRAW_S:
            self._draw("")

    def say(self, text: str) -> None:
        """Write a line above the counts."""
        self._draw(plain(text) + "\n")

    def tick(self) -> None:
        """Draw the counts again: what runs has done so for longer."""
        self._draw("")

    def close(self) -> None:
        """Clear the line of counts."""
        _write(self._stream, _ERASE)

    def _draw(self, above: str) -> None:
        self._drawn_s = self._clock()
        names = self._counter.at_work("{for_s:.0f} s {cob} {way}")  # what is long is cut off
        counts = f"{self._counter.summary()}{': ' if names else ''}{names}"
        _write(self._stream, f"{_ERASE}{above}{cut(plain(counts), self._width() - 1)}")


Progress = PlainLines | LiveLine
"""A sink of events that also has room for a sentence, and ticks."""


class Clocked:
    """Has another progress tick once a second while it is entered, by a thread of its own.

    A signal handler may say something in the middle of an event.
    """

    def __init__(self, inner: Progress) -> None:
        self._inner = inner
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._look, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._ended.set()
            self._inner.close()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Pass an event on."""
        with self._lock:
            self._inner(event)

    def say(self, text: str) -> None:
        """Write a line for people."""
        with self._lock:
            self._inner.say(text)

    def _look(self) -> None:
        while not self._ended.wait(_TICK_S):
            with self._lock:
                if not self._ended.is_set():
                    self._inner.tick()


def lines_of(event: Mapping[str, Any]) -> list[str]:
    """Return the lines that tell of an ended transition or of the pause of a limit, or none."""
    if event["type"] == "limit.pause":
        return [_pause(event)]
    if event["type"] != "transition.end":
        return []
    way = f"{event['from']} -> {event['to']}"
    tries = f", attempt {event['attempt']}" if event["attempt"] > 1 else ""
    result = "" if event["result"] == "ok" else "  FAILED"
    line = f"{event['cob']}  {way}  ({event['seconds']:.1f} s{tries}){result}"
    is_known = event["result"] != "ok" or not event.get("message")  # failures are told at the end
    return [line] if is_known else [line, f"  {event['message']}"]


def _pause(event: Mapping[str, Any]) -> str:
    units = event["units"]
    names = ", ".join(units[:_NAMED]) + (", ..." if len(units) > _NAMED else "")
    verb = "is" if len(units) == 1 else "are"
    return f"limit {event['limit']}: {names} {verb} back, the others wait {event['seconds']:g} s"


def _host(cob: str) -> str:
    return cob.partition("/")[0]


def _write(stream: TextIO, text: str) -> None:
    with suppress(OSError):
        stream.write(text)
        stream.flush()
