"""Interrupts: the first lets running transitions end, the second stops them (design, section 6)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

KILL = 2
"""How many interrupts stop what is at work."""


class Interrupts:
    """How often the user asked to stop; `wake` ends a wait that is going on."""

    def __init__(self) -> None:
        self.count = 0
        self.wake: Callable[[], None] = lambda: None

    def __call__(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Count one more request to stop; safe in a signal handler."""
        self.count += 1
        self.wake()


def signals_as_interrupt() -> AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt as SIGINT does, where nothing runs yet."""
    return _handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler)


def handle_signals(interrupts: Interrupts) -> AbstractContextManager[None]:
    """Direct SIGINT, SIGTERM and SIGHUP to `interrupts` for as long as the context lasts."""
    return _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), interrupts)


@contextmanager
def _handled(
    numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    """Have signals handled so for as long as the context lasts."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
