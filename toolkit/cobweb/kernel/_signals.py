"""Interrupts: the first lets running transitions end, the second stops them (design, section 6)."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """How often the user asked to stop; `wake` ends a wait that is going on."""

    def __init__(self) -> None:
        self.count = 0
        self.wake: Callable[[], None] = lambda: None

    def __call__(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Count one more request to stop; safe in a signal handler."""
        self.count += 1
        self.wake()


@contextlib.contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt as SIGINT does, where nothing runs yet."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def handle_signals(interrupts: Interrupts) -> Iterator[None]:
    """Direct SIGINT, SIGTERM and SIGHUP to `interrupts` for as long as the context lasts."""
    before = {number: signal.signal(number, interrupts) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
