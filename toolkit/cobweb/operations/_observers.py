"""Observers at work: each behind the border, in a thread of its own, left out alone.

Theory of operation. A run puts each event, as a line of JSON, into a queue of each observer and
goes on; the observer's thread takes them in their order. Where a queue is full the run waits, but
`PATIENCE_S` in all. An observer that is slower than this, or raises, gets nothing more. So none
ends a run, holds it up for long, or changes what another one gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from queue import Empty, Full, Queue
from threading import Thread
from time import monotonic
from typing import Any

from cobweb.errors import CobwebError, PluginError
from cobweb.kernel._events import Event
from cobweb.operations.context._orders import plugin_of
from cobweb.plugin import Observer, UnaskedObserver

MOST_BEHIND = 100_000
"""How many events an observer may be behind before the run waits for it."""

PATIENCE_S = 10.0
"""How long a run waits for a slow observer, in all; and once more for its `close`."""


class Observers:
    """The observers of one call, open: a sink of events, to be closed once after the last run.

    `result` is what they are told in the end: what `-o json` writes of the run.
    """

    def __init__(self, *, patience_s: float = PATIENCE_S, most_behind: int = MOST_BEHIND) -> None:
        self._threads: list[_ObserverThread] = []
        self._make = partial(_ObserverThread, patience_s=patience_s, most_behind=most_behind)
        self.result: Mapping[str, Any] | None = None

    def open(self, known: Mapping[str, Callable[[], Observer]], name: str, argument: str) -> None:
        """Open one more; UsageError for an unknown name, CobwebError where it refuses to begin."""
        self._begin(name, plugin_of(known, name, "there is no observer"), argument)

    def open_unasked(self, known: Mapping[str, Callable[[], UnaskedObserver]]) -> None:
        """Open those that want to hear without being named."""
        for name, make in known.items():
            self._begin(name, make, None)

    def _begin(self, name: str, make: Callable[[], Any], argument: str | None) -> None:
        thread = self._make(name)
        try:
            observer = make()
            if argument is None and not observer.unasked():
                return
            thread.begin(observer, argument or "")
        except PluginError as error:
            thread.left_out = str(error)
        self._threads.append(thread)

    def __call__(self, event: Event) -> None:
        """Hand an event to all; never raises."""
        line = event.line if self._threads else ""
        for thread in self._threads:
            thread.put(line)

    def close(self) -> tuple[str, ...]:
        """Let each come to its end; say which were left out, and why."""
        for thread in self._threads:
            thread.put(self.result)
        return tuple(filter(None, [thread.end() for thread in self._threads]))


class _ObserverThread:
    """One observer and its queue; `left_out` says why it gets nothing more, "" while it does."""

    def __init__(self, name: str, *, patience_s: float, most_behind: int) -> None:
        self._name, self.left_out = name, ""
        self._queue: Queue[str | Mapping[str, Any] | None] = Queue(most_behind)
        self._patience_s = self._closing_s = patience_s
        self._thread = Thread(target=self._work, name=f"observer {name}", daemon=True)

    def begin(self, observer: Observer, argument: str) -> None:
        """Open the observer in this thread, and begin with its own."""
        self._observer = observer
        self._observer.open(argument)
        self._thread.start()

    def put(self, what: str | Mapping[str, Any] | None) -> None:
        """Have it told an event, as a line of JSON, or the end, as the result; wait for room."""
        if self.left_out:
            return
        began = monotonic()
        try:
            self._queue.put(what, timeout=max(0.0, self._patience_s))
        except Full:
            self.left_out = f"it is too slow: {self._queue.maxsize:,} events behind"
        self._patience_s -= monotonic() - began

    def end(self) -> str:
        """Wait for the thread; say why the observer was left out, "" if it was not."""
        if not self.left_out:
            self._thread.join(self._closing_s)
        if not self.left_out and self._thread.is_alive():
            self.left_out = f"it has not ended within {self._closing_s:g} s"
        return f"observer {self._name} was left out: {self.left_out}" if self.left_out else ""

    def _work(self) -> None:
        try:
            while not self.left_out:
                what = self._queue.get()
                if not isinstance(what, str):
                    self._observer.close(what)
                    return
                self._observer.take(json.loads(what))
        except (CobwebError, KeyboardInterrupt) as error:  # the border makes them of all else
            self.left_out = str(error) or type(error).__name__
            with suppress(Empty):  # so that nobody waits for room
                while True:
                    self._queue.get_nowait()
