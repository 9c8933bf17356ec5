"""The site lock of a command: taken, waited for if that is asked for, and given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from cobweb import operations
from cobweb._tables import Tone
from cobweb.cli._output import Output

if TYPE_CHECKING:
    from cobweb.api import Site, Turn
    from cobweb.store import Patience, Store


@contextmanager
def locked_site(
    session: Site, output: Output, command: str, wait_s: float | None, store: Store | None = None
) -> Iterator[Turn]:
    """Hold the lock of the site as a new run of `command`, and tell what was in the way.

    LockedError where another has it, after waiting for `wait_s` if that is not None.
    """
    patience = patience_of(output, wait_s)
    with ExitStack() as stack:
        with operations.signals_as_interrupt():
            turn = session.turn(command, say=output.note, patience=patience, store=store)
            held = stack.enter_context(turn)
        yield held


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
