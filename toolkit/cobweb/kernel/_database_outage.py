"""A state database that goes away in a run: nothing new is started until it is there again.

What is at work on hosts goes on meanwhile; its reports wait. Who asks twice to stop is not kept.
When the time is over the run lets what is at work end; what it then has to say is tried once more,
on SQLite in the room that is kept for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cobweb.errors import StoreAwayError
from cobweb.kernel._signals import KILL, Interrupts
from cobweb.store import Entry, Store

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0

_Answer = TypeVar("_Answer")


class PatientJournal:
    """The journal of a run in a store that may be away for a time; `say` tells of it."""

    def __init__(
        self, store: Store, interrupts: Interrupts, say: Callable[[str], None], *, outage_s: float
    ) -> None:
        self._store = store
        self._interrupts = interrupts
        self._say = say
        self._outage_s = outage_s
        self._was_away = False
        self._gave_up = False

    def write(self, entries: Sequence[Entry]) -> None:
        """Store a batch; StoreAwayError where the database does not come back in time.

        The next batch is to begin with what could not be stored.
        """
        again = {"again": True}
        self.carry_out(lambda: self._store.write(entries, **(again if self._was_away else {})))
        self._was_away = False

    def carry_out(self, work: Callable[[], _Answer]) -> _Answer:
        """Do what may be done twice with the store; errors as those of `write`."""
        try:
            return work()
        except StoreAwayError as error:
            self._was_away = True  # an answer may be all that was lost
            if self._gave_up:
                raise
            wait = f"waiting {self._outage_s:g} s for it, and nothing new is started"
            self._say(f"{error.message}; {wait}")
            answer = self._try_again(work)
            self._say("the state database is there again; the run goes on")
            return answer

    def _try_again(self, work: Callable[[], _Answer]) -> _Answer:
        import tenacity  # heavy

        is_late = tenacity.stop_after_delay(self._outage_s)
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(StoreAwayError),
            stop=lambda tries: self._interrupts.count >= KILL or is_late(tries),
            wait=tenacity.wait_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S),
            reraise=True,
        )
        try:
            return retrying(work)
        except StoreAwayError:
            self._gave_up = True
            self._store.use_reserve()
            raise
