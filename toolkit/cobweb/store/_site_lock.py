"""The site lock: one run per site, in the state database itself (design, section 6).

A second lock of the same kind says which of several programs leads that keep a site as it should be
(`Lock.LEADER`): they take no site lock themselves, and each of their writes looks at theirs.

One row says who holds it. Taking it, taking it over and breaking it are write transactions, so of
two that come at once one wins. It ends by release, by a person who breaks it, or where its owner is
found dead; a hold that is over is taken over, and the caller is told so. A run whose lock was taken
cannot write any more: every write looks at the row in its own transaction (fencing).

An owner is found dead by its process, where that can be seen. Elsewhere PostgreSQL tells: the owner
holds an advisory lock in a session of its own, which ends with it. Without that session, and with a
heartbeat that is old, it is dead, unless the server was started so lately that a living owner may
not have made the session anew. Who is taken for dead and lives is fenced as one whose lock was
broken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from enum import IntEnum
from typing import Self

from sqlalchemy import Connection, delete, select, text, update
from sqlalchemy.exc import DBAPIError

from cobweb.errors import LockedError, StoreError, UsageError
from cobweb.store._database import Database, one_at_a_time
from cobweb.store._process import is_alive, why_dead
from cobweb.store._statements import statements_of
from cobweb.store._tables import SITE_LOCK
from cobweb.store._values import LockOwner

HEARTBEAT_S = 5.0
"""The least time between two heartbeats that are stored."""

DEAD_S = 90.0
"""How old a heartbeat is that says something: nine of a run's beats, and longer than a run waits
for its database unless it is told to."""

_KEEPALIVE = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""By which the server notices in 40 s that the machine of a session is gone."""

_SESSION = {**_KEEPALIVE, "idle_session_timeout": 0}

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 5.0
"""Between two tries of one who waits; each pause is twice the one before."""

_SET = "SELECT set_config(name, :value, false) FROM pg_settings WHERE name = :name"
_HOLD = "SELECT pg_advisory_lock_shared(:high, :low)"
_IS_THERE = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    " AND classid = :high AND objid = :low"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_SERVER_START = "SELECT extract(epoch FROM pg_postmaster_start_time())::float8"

_OWNER = select(*(SITE_LOCK.c[it.name] for it in fields(LockOwner)))


class Lock(IntEnum):
    """The locks of a site, by their rows."""

    RUN = 1
    LEADER = 2


class Fence:
    """The writes of a store; they fail where it had a `lock`, as its `owner`, and lost it."""

    def __init__(self, database: Database) -> None:
        self.owner: LockOwner | None = None
        self.lock = Lock.RUN
        self._database = database

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection as `Database.write` does; LockedError if somebody broke our lock."""
        with self._database.write() as connection:
            if self.owner is not None:
                statement = statements_of(connection.dialect.name).fence
                row = connection.exec_driver_sql(statement, (int(self.lock),)).first()
                if row is None or row[0] != self.owner.run:
                    raise _broken(_standing(connection, self.lock))
            yield connection


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
    """A lock of the site whose state database this is; made by `Store.site_lock`."""

    def __init__(
        self, database: Database, fence: Fence, lock: Lock, *, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._fence = fence
        self._lock = lock
        self._clock = clock

    def show(self) -> LockOwner | None:
        """Return who holds the lock, dead or alive."""
        with self._database.read() as connection:
            return _standing(connection, self._lock, is_kept=False)

    def doubt(self, owner: LockOwner | None) -> str:
        """Return why the owner is taken for dead, or where to look for it; "" where it may live."""
        if owner is None:
            return ""
        with self._database.read() as connection:
            proof = "" if owner.until is not None else self._why_dead(connection, owner)
        if proof:
            return f"{proof}: the next run takes the lock over"
        return _what_to_look_at(owner, self._clock())

    def why_alive(self, owner: LockOwner) -> str:
        """Return what says that the process of the owner is at work, or most likely; "" if none."""
        if owner.until is not None:
            return ""
        if is_alive(owner):
            return f"its process {owner.pid} on this machine is alive"
        age_s = round(self._clock() - owner.heartbeat)
        is_recent = age_s < DEAD_S and not why_dead(owner)
        return f"it was seen {age_s} s ago, so it is most likely alive" if is_recent else ""

    def acquire(self, owner: LockOwner, patience: Patience | None = None) -> HeldLock:
        """Take the lock for a run; LockedError that names the owner where someone else has it.

        With `patience` that is so when it is at its end. The lock's owner has it since then.
        """
        session = _OwnerSession(self._database, owner.run)
        session.keep()
        try:
            owner, notices = self._take_in_time(owner, patience)
        except BaseException:
            session.end()
            raise
        self._fence.owner, self._fence.lock = owner, self._lock
        return HeldLock(self, session, owner=owner, notices=notices)

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
            standing = _standing(connection, self._lock)
            if standing is None:
                raise UsageError("the site is not locked")
            if standing.run != run:
                raise UsageError(
                    f"the site is not locked by {run}",
                    hint=f"it is locked by {standing.line(self._clock())}",
                )
            connection.execute(delete(SITE_LOCK).where(SITE_LOCK.c.run == run))
        return standing

    def beat(self, run: str) -> float:
        """Store that the owner lives, and return when; LockedError if the lock was broken."""
        now = self._clock()
        mine = SITE_LOCK.c.run == run
        with self._database.write() as connection:
            if not connection.execute(update(SITE_LOCK).where(mine).values(heartbeat=now)).rowcount:
                raise _broken(_standing(connection, self._lock))
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
            now = self._clock()  # a hold lasts as long as it would have
            until = None if owner.until is None else owner.until + now - owner.since
            owner = replace(owner, since=now, heartbeat=now, until=until)

    def _take(self, owner: LockOwner) -> tuple[str, ...]:
        with self._database.write() as connection:
            one_at_a_time(connection)
            standing = _standing(connection, self._lock)
            notice = None if standing is None else self._notice(connection, standing)
            connection.execute(delete(SITE_LOCK).where(SITE_LOCK.c.id == self._lock))
            connection.execute(SITE_LOCK.insert(), {"id": int(self._lock), **asdict(owner)})
        return () if notice is None else (notice,)

    def _notice(self, connection: Connection, standing: LockOwner) -> str:
        """Return a sentence on why the standing lock may be taken over, or raise LockedError."""
        now = self._clock()
        line = standing.line(now)
        if standing.until is not None and standing.until <= now:
            return f"a hold is over: {line}"
        proof = "" if standing.until is not None else self._why_dead(connection, standing)
        if not proof:
            end = f"`cobweb lock break {standing.run}`"
            is_hold = standing.until is not None
            how = f"{end} ends it" if is_hold else f"if you know that it is dead: {end}"
            wait = f"wait, as --wait 10m does; {how}"
            raise LockedError(line, hint=_what_to_look_at(standing, now) or wait)
        return f"took over the lock of {line}: {proof}"

    def _why_dead(self, connection: Connection, standing: LockOwner) -> str:
        proof = why_dead(standing)
        if proof or is_alive(standing) or connection.dialect.name != "postgresql":
            return proof
        since = max(standing.heartbeat, connection.scalar(text(_SERVER_START)))
        if self._clock() - since < DEAD_S or connection.scalar(text(_IS_THERE), _key(standing.run)):
            return ""
        return "its session in the database is gone"


class HeldLock:
    """The site lock in our hands; a context manager that releases it.

    `notices` are sentences for people on what was found in the way, such as a dead owner.
    """

    def __init__(
        self, lock: SiteLock, session: _OwnerSession, *, owner: LockOwner, notices: tuple[str, ...]
    ) -> None:
        self._lock = lock
        self._session = session
        self._beat_at = owner.heartbeat
        self.owner = owner
        self.notices = notices

    def heartbeat(self) -> None:
        """Say that we live; may be called often, and is stored every few seconds.

        LockedError if someone has broken the lock.
        """
        if self._lock.now() - self._beat_at >= HEARTBEAT_S:
            self._session.keep()
            self._beat_at = self._lock.beat(self.owner.run)

    def release(self) -> None:
        """Give the lock back; from now on the store's writes are not fenced."""
        try:
            self._lock.give_back(self.owner.run)
        finally:
            self._session.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            self.release()
        except StoreError:
            if error is None:  # else that says more
                raise


class _OwnerSession:
    """The session by which others see on PostgreSQL that an owner lives; SQLite has no such."""

    def __init__(self, database: Database, run: str) -> None:
        self._database = database
        self._key = _key(run)
        self._connection: Connection | None = None

    def keep(self) -> None:
        """Make sure that it is there; one that was cut is made anew. StoreError where it cannot."""
        if self._database.engine.dialect.name != "postgresql" or self._is_there():
            return
        self.end()
        connection = self._database.session()
        with self._database.errors():
            for name, value in _SESSION.items():
                connection.execute(text(_SET), {"name": name, "value": str(value)})
            connection.execute(text(_HOLD), self._key)
        self._connection = connection

    def end(self) -> None:
        """End it, if it is there."""
        self._connection = None
        self._database.close_session()

    def _is_there(self) -> bool:
        if self._connection is None:
            return False
        with suppress(DBAPIError):
            return bool(self._connection.scalar(text(_IS_THERE), self._key))
        return False


def _what_to_look_at(owner: LockOwner, now: float) -> str:
    """Return where to look whether an owner is dead; "" where it was seen lately."""
    age = round(now - owner.heartbeat)
    if owner.until is not None or age < DEAD_S or is_alive(owner):
        return ""
    return (
        f"it was last seen {age} s ago: look on {owner.host} for process {owner.pid} and what that"
        f" has started; where all of it is gone, `cobweb lock break {owner.run}`"
    )


def _standing(connection: Connection, lock: Lock, *, is_kept: bool = True) -> LockOwner | None:
    """Return who holds a lock; it stays so until the transaction ends where `is_kept` says so."""
    chosen = _OWNER.where(SITE_LOCK.c.id == lock)
    chosen = chosen.with_for_update() if is_kept else chosen
    row = connection.execute(chosen).mappings().first()
    return None if row is None else LockOwner(**row)


def _key(run: str) -> dict[str, int]:
    """Return the key of an owner's advisory lock: two 31-bit halves."""
    digest = hashlib.sha256(run.encode()).digest()
    halves = (int.from_bytes(digest[at : at + 4]) >> 1 for at in (0, 4))
    return dict(zip(("high", "low"), halves, strict=True))


def _broken(standing: LockOwner | None) -> LockedError:
    if standing is None:
        return LockedError(
            "nobody any more: someone broke the lock of this run", hint="apply again"
        )
    return LockedError(
        f"the run {standing.run} of {standing.user}@{standing.host}, after someone broke our lock",
        hint="see `cobweb lock show`",
    )
