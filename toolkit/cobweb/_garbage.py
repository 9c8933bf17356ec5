"""When Python looks for circles of garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_RARELY = (50_000, 20, 100)


def collect_rarely() -> None:
    """Look for circles of garbage less often, in a process that makes many objects and ends."""
    gc.set_threshold(*_RARELY)


@contextmanager
def no_collections() -> Iterator[None]:
    """Let nothing look for circles meanwhile: building large values makes none, and waits for it.

    In a process that collects rarely, what was made counts as old afterwards, as if it had been
    looked at. Elsewhere it may not: garbage that is called old is hardly ever looked for, and a
    process that goes on for days (a service, a test run) would grow with each site it reads.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_threshold() == _RARELY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
