"""The site lock of a command: taken, waited for if that is asked for, and given back."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from cobweb._clock import wall_clock
from cobweb.cli._output import Output, Tone

if TYPE_CHECKING:
    from cobweb.store import HeldLock, LockOwner, Patience, RunInfo, Store

__all__ = ["locked_site", "patience_of"]


@contextmanager
def locked_site(
    store: Store, output: Output, command: str, wait_s: float | None
) -> Iterator[tuple[HeldLock, RunInfo]]:
    """Hold the lock of the site as a new run of `command`, and tell what was in the way.

    LockedError where another has it, after waiting for `wait_s` if that is not None.
    """
    from cobweb.operations import signals_as_interrupt

    info, owner = _this_run(command)
    lock = store.site_lock(clock=wall_clock)
    with signals_as_interrupt():
        held = lock.acquire(owner, patience_of(output, wait_s))
    with held:
        for notice in held.notices:
            output.summary(f"note: {notice}", Tone.CAREFUL)
        yield held, replace(info, started=held.owner.since)


def patience_of(
    output: Output,
    wait_s: float | None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Patience | None:
    """Return how the lock is waited for, None where it is not."""
    from cobweb.store import Patience

    def tell(owner: str) -> None:
        output.summary(f"waiting for the site, which is locked by {owner}", Tone.CAREFUL)

    if wait_s is None:
        return None
    return Patience(seconds=wait_s, clock=clock, sleep=sleep, tell=tell)


def _this_run(command: str) -> tuple[RunInfo, LockOwner]:
    """Return this process as a new run and as the owner of the site lock."""
    from cobweb.store import RunInfo, this_process

    now = wall_clock()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    run = f"{stamp}-{secrets.token_hex(2)}"
    owner = this_process(run=run, reason=command, since=now)
    info = RunInfo(
        id=run, command=command, started=now, user=owner.user, host=owner.host, pid=owner.pid
    )
    return info, owner
