"""The site lock: one run per site, in the state database itself (design, section 6).

One row says who holds it. Taking it, taking it over and breaking it are write transactions, so of
two that come at once one wins. It ends by release, by a person who breaks it, or by a proof that
its owner is dead; a hold that is over is taken over, and the caller is told so. A run whose lock
was broken cannot write any more: every write looks at the row in its own transaction (fencing).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from sqlalchemy import Connection, delete, select, update

from cobweb.errors import LockedError, UsageError
from cobweb.store._database import Database, one_at_a_time
from cobweb.store._process import why_dead
from cobweb.store._statements import Statements
from cobweb.store._tables import SITE_LOCK
from cobweb.store._values import LockOwner

__all__ = ["Fence", "HeldLock", "Patience", "SiteLock"]

HEARTBEAT_S = 5.0
"""The least time between two heartbeats that are stored."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 5.0
"""Between two tries of one who waits; each pause is twice the one before."""

_COLUMNS = tuple(field.name for field in fields(LockOwner))


class Fence:
    """What a store checks in each write transaction; closed to nobody until a lock is held."""

    def __init__(self, statements: Statements) -> None:
        self.owner: LockOwner | None = None
        self._run_that_holds = statements.fence

    def check(self, connection: Connection) -> None:
        """Make sure, for as long as the transaction lasts, that our site lock is still ours."""
        if self.owner is None:
            return
        row = connection.exec_driver_sql(self._run_that_holds).first()
        if row is None or row[0] != self.owner.run:
            raise _broken(_standing(connection))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one who finds the site locked waits for it.

    `clock` never goes back; `tell` is called once, with the owner in one line, if there is a wait.
    """

    seconds: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    tell: Callable[[str], None]


class SiteLock:
    """The lock of the site whose state database this is; made by `Store.site_lock`."""

    def __init__(self, database: Database, fence: Fence, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._fence = fence
        self._clock = clock

    def show(self) -> LockOwner | None:
        """Return who holds the lock, dead or alive."""
        with self._database.read() as connection:
            row = connection.execute(select(SITE_LOCK)).first()
            return None if row is None else _owner(row)

    def acquire(self, owner: LockOwner, patience: Patience | None = None) -> HeldLock:
        """Take the lock for a run; LockedError that names the owner where someone else has it.

        With `patience` that is so when it is at its end. The lock's owner has it since then.
        """
        owner, notices = self._take_in_time(owner, patience)
        self._fence.owner = owner
        return HeldLock(self, owner=owner, notices=notices)

    def hold(
        self, owner: LockOwner, *, for_s: float, patience: Patience | None = None
    ) -> tuple[LockOwner, tuple[str, ...]]:
        """Lock the site without a process for `for_s` seconds; return the hold, and notices.

        LockedError as for `acquire`. `break_lock` ends a hold early.
        """
        held = replace(owner, until=self._clock() + for_s)
        return self._take_in_time(held, patience)

    def break_lock(self, run: str) -> LockOwner:
        """End the lock of the run (or hold) `run` and return who had it.

        Its process, if it lives, fails at its next write. UsageError if the lock is not that one's.
        """
        with self._database.write() as connection:
            standing = _standing(connection)
            if standing is None:
                raise UsageError("the site is not locked")
            if standing.run != run:
                raise UsageError(
                    f"the site is not locked by {run}",
                    hint=f"it is locked by {standing.line(self._clock())}",
                )
            connection.execute(delete(SITE_LOCK))
        return standing

    def beat(self, run: str) -> float:
        """Store that the owner lives, and return when; LockedError if the lock was broken."""
        now = self._clock()
        mine = SITE_LOCK.c.run == run
        with self._database.write() as connection:
            if not connection.execute(update(SITE_LOCK).where(mine).values(heartbeat=now)).rowcount:
                raise _broken(_standing(connection))
        return now

    def give_back(self, run: str) -> None:
        """End the lock of `run`; nothing happens if someone broke it."""
        self._fence.owner = None
        with self._database.write() as connection:
            connection.execute(delete(SITE_LOCK).where(SITE_LOCK.c.run == run))

    def now(self) -> float:
        """Return the time of the lock's clock."""
        return self._clock()

    def _take_in_time(
        self, owner: LockOwner, patience: Patience | None
    ) -> tuple[LockOwner, tuple[str, ...]]:
        """Take the lock, after waiting for it if need be; return its owner, and notices."""
        if patience is None:
            return owner, self._take(owner)
        end, pause_s, is_told = patience.clock() + patience.seconds, _FIRST_PAUSE_S, False
        while True:
            try:
                return owner, self._take(owner)
            except LockedError as error:
                left_s = end - patience.clock()
                if left_s <= 0:
                    raise
                if not is_told:
                    patience.tell(error.owner)
                    is_told = True
            patience.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            owner = _begun_at(owner, self._clock())

    def _take(self, owner: LockOwner) -> tuple[str, ...]:
        row = {"id": 1, **{name: getattr(owner, name) for name in _COLUMNS}}
        with self._database.write() as connection:
            one_at_a_time(connection)
            standing = _standing(connection)
            notice = None if standing is None else self._notice(standing)
            connection.execute(delete(SITE_LOCK))
            connection.execute(SITE_LOCK.insert(), row)
        return () if notice is None else (notice,)

    def _notice(self, standing: LockOwner) -> str:
        """Return a sentence on why the standing lock may be taken over, or raise LockedError."""
        line = standing.line(self._clock())
        if standing.until is not None and standing.until <= self._clock():
            return f"a hold is over: {line}"
        proof = "" if standing.until is not None else why_dead(standing)
        if not proof:
            kill = f"`cobweb lock break {standing.run}`"
            hint = f"wait, as --wait 10m does; if you know that it is dead: {kill}"
            raise LockedError(line, hint=hint)
        return f"took over the lock of {line}: {proof}"


class HeldLock:
    """The site lock in our hands; a context manager that releases it.

    `notices` are sentences for people on what was found in the way, such as a dead owner.
    """

    def __init__(self, lock: SiteLock, *, owner: LockOwner, notices: tuple[str, ...]) -> None:
        self._lock = lock
        self._beat_at = owner.heartbeat
        self.owner = owner
        self.notices = notices

    def heartbeat(self) -> None:
        """Say that we live; may be called often, and is stored every few seconds.

        LockedError if someone has broken the lock.
        """
        if self._lock.now() - self._beat_at >= HEARTBEAT_S:
            self._beat_at = self._lock.beat(self.owner.run)

    def release(self) -> None:
        """Give the lock back; from now on the store's writes are not fenced."""
        self._lock.give_back(self.owner.run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


def _standing(connection: Connection) -> LockOwner | None:
    row = connection.execute(select(SITE_LOCK).with_for_update()).first()
    return None if row is None else _owner(row)


def _begun_at(owner: LockOwner, now: float) -> LockOwner:
    """Return an owner as of now; a hold lasts as long as it would have."""
    until = None if owner.until is None else owner.until + now - owner.since
    return replace(owner, since=now, heartbeat=now, until=until)


def _owner(row: Any) -> LockOwner:
    return LockOwner(**{name: getattr(row, name) for name in _COLUMNS})


def _broken(standing: LockOwner | None) -> LockedError:
    if standing is None:
        return LockedError(
            "nobody any more: someone broke the lock of this run", hint="apply again"
        )
    return LockedError(
        f"the run {standing.run} of {standing.user}@{standing.host}, after someone broke our lock",
        hint="see `cobweb lock show`",
    )
