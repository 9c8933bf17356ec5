"""A state database that goes away in a run: nothing new is started until it is there again.

What is at work on hosts goes on meanwhile; its reports wait. Who asks twice to stop is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cobweb.errors import StoreAwayError
from cobweb.runtime._signals import Interrupts
from cobweb.store import Entry, Store

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["OUTAGE_S", "PatientJournal"]

OUTAGE_S = 60.0
"""How long a run waits for its state database."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_KILL = 2


class PatientJournal:
    """The journal of a run in a store that may be away for a time; `say` tells of it."""

    def __init__(
        self,
        store: Store,
        interrupts: Interrupts,
        say: Callable[[str], None],
        outage_s: float = OUTAGE_S,
    ) -> None:
        self._store = store
        self._interrupts = interrupts
        self._say = say
        self._outage_s = outage_s

    def write(self, entries: Sequence[Entry]) -> None:
        """Store a batch; StoreAwayError where the database does not come back in time."""
        try:
            self._store.write(entries)
        except StoreAwayError as error:
            wait = f"waiting {self._outage_s:g} s for it, and nothing new is started"
            self._say(f"{error.message}; {wait}")
            self._write_again(entries)
            self._say("the state database is there again; the run goes on")

    def _write_again(self, entries: Sequence[Entry]) -> None:
        from tenacity import Retrying, retry_if_exception_type, wait_exponential  # heavy

        retrying = Retrying(
            retry=retry_if_exception_type(StoreAwayError),
            stop=self._is_over,
            wait=wait_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S),
            reraise=True,
        )
        retrying(self._store.write, entries, again=True)

    def _is_over(self, tries: RetryCallState) -> bool:
        waited_s = tries.seconds_since_start or 0.0
        return self._interrupts.count >= _KILL or waited_s >= self._outage_s
