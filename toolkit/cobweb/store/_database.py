"""Opening the state database, and the one border where its errors become `StoreError`.

SQLite runs in WAL mode with `synchronous=FULL`: a transaction is on the disk when it has returned.
All that is written takes the write lock first (BEGIN IMMEDIATE), so no transaction fails half-way
because another process came between. On PostgreSQL `synchronous_commit` is at least `on`.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError
from sqlalchemy.pool import StaticPool

from cobweb.errors import StoreAwayError, StoreError, foreign_format
from cobweb.store._tables import FORMAT, META, METADATA

BUSY_TIMEOUT_S = 30
"""How long SQLite waits for another process's write transaction; ours take milliseconds."""

WAL_ATTEMPTS = 20
"""How often a new database is switched to WAL mode while others do the same."""

CONNECT_TIMEOUT_S = 10
"""How long PostgreSQL may take to answer a new connection, and to acknowledge what it is sent."""

_ANSWERS = {
    "connect_timeout": str(CONNECT_TIMEOUT_S),
    "tcp_user_timeout": str(CONNECT_TIMEOUT_S * 1000),
    "keepalives_idle": str(CONNECT_TIMEOUT_S),
    "keepalives_interval": "5",
    "keepalives_count": "2",
}
"""What of libpq finds out that a server is gone which says nothing, as after a failover."""

RESERVE_BYTES = 4 * 1024 * 1024
"""Room beside an SQLite database that is kept for the end of a run: about what a full WAL takes."""

WORTH_COMPACTING = 10
"""An SQLite file is made smaller where more than one page in so many is free."""

_SQLITE_DRIVERS = ("sqlite", "sqlite+pysqlite")
_POSTGRESQL_DRIVERS = ("postgresql", "postgresql+psycopg")
_URL_HINT = "use sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
_RIGHTS_HINT = "check the owner and the permissions of the file and its directory"
_ROOM_HINT = "make room and run again; what was stored is not lost"

_ADVISORY_KEY = 0x636F62776562
"""The key of the lock of `one_at_a_time` on PostgreSQL: `cobweb` in ASCII."""

_SQLITE_ERRORS = {
    "SQLITE_NOTADB": ("is not a state database", "move it away, or set `state` to another file"),
    "SQLITE_CORRUPT": (
        "is damaged",
        "restore it from a backup, or move it away: the next apply then checks every object",
    ),
    "SQLITE_FULL": ("cannot be written: the disk is full", _ROOM_HINT),
    "SQLITE_READONLY": ("cannot be written", _RIGHTS_HINT),
    "SQLITE_CANTOPEN": ("cannot be opened", _RIGHTS_HINT),
    "SQLITE_BUSY": (
        "is in use by another process that does not end its transaction",
        "see who has it open, and run again",
    ),
    "SQLITE_IOERR": ("cannot be read or written", "check the disk and the free space on it"),
}

_MAY_COME_BACK = ("SQLITE_FULL", "SQLITE_BUSY")
"""What somebody else may mend while we wait."""

_AWAY = ("08", "53", "57P")
"""How the SQLSTATE begins where a PostgreSQL server goes away, starts, or has no room."""

_OTHER_ERROR = ("cannot be used", "check the server, and the rights of this user in the database")


class Database:
    """A connection pool, and what the database is called in messages.

    `reserve` is the file that keeps room for the end of a run, None where a server has to see to
    that.
    """

    def __init__(self, engine: Engine, label: str, *, readonly: bool) -> None:
        self.engine = engine
        self.label = label
        self.readonly = readonly
        self.reserve: Path | None = None
        self._session: Connection | None = None
        self._driver = engine.dialect.loaded_dbapi

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that sees one moment; errors become StoreError."""
        with self.errors(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a write transaction, durable when the block has ended."""
        if self.readonly:
            raise StoreError(f"{self.label} was opened for reading only")
        with self.errors(), self.engine.connect() as connection:
            connection = connection.execution_options(cobweb_write=True)  # noqa: PLW2901
            with connection.begin():
                yield connection

    def session(self) -> Connection:
        """Open the one connection that is in no transaction, until `close_session` or `close`.

        StoreError where that cannot be done.
        """
        with self.errors():
            self._session = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            self._session.detach()  # so that closing it ends it
        return self._session

    def close_session(self) -> None:
        """Close the connection of `session`, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(DBAPIError):
                session.close()

    def keep_reserve(self) -> None:
        """Make sure that there is room for the end of a run; StoreError where there is none."""
        if self.reserve is None:
            return
        try:
            with os.fdopen(os.open(self.reserve, os.O_RDWR | os.O_CREAT, 0o600)) as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except OSError as error:
            self.use_reserve()
            size = f"{RESERVE_BYTES // 1024**2} MiB beside it for the end of a run"
            raise StoreError(
                f"{self.label} cannot be written: {error.strerror}, and it keeps {size}",
                hint=_ROOM_HINT,
            ) from error

    def use_reserve(self) -> None:
        """Give the room up that was kept, if there is any."""
        if self.reserve is not None:
            with suppress(OSError):
                self.reserve.unlink()

    def compact(self) -> None:
        """Make an SQLite file smaller of which a good part is free; a server reuses its own room.

        VACUUM writes the file anew in one transaction: whoever is killed in it has the old one.
        Others read on, and who writes waits. It needs room for a copy, twice.
        """
        if self.engine.dialect.name != "sqlite":
            return
        with self.errors(), closing(self.engine.raw_connection()) as connection:
            cursor = connection.cursor()
            free = cursor.execute("PRAGMA freelist_count").fetchone()[0]
            pages = cursor.execute("PRAGMA page_count").fetchone()[0]
            if free * WORTH_COMPACTING > pages:
                cursor.execute("VACUUM")
                cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")  # which waits for no reader

    def close(self) -> None:
        """Close all connections."""
        self.close_session()
        self.engine.dispose()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Let errors of the driver become StoreError."""
        try:
            yield
        except (IntegrityError, DataError, self._driver.IntegrityError, self._driver.DataError):
            raise  # a bug of ours, to be seen as one
        except (DBAPIError, self._driver.Error) as error:  # of SQLAlchemy, or past it
            raise _store_error(self.label, getattr(error, "orig", error)) from error
        except (json.JSONDecodeError, UnicodeDecodeError, zlib.error) as error:
            raise _damaged(self.label) from error


def open_database(url: str, site_dir: Path, *, create: bool) -> Database:
    """Open the database at `url`, made and filled with empty tables where `create` says so.

    Without `create` and without a database the result is an empty one that cannot be written.
    StoreError where it cannot be used; its message names the file, or the URL without password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError("state: this is no URL of a database", hint=_URL_HINT) from error
    if parsed.drivername in _POSTGRESQL_DRIVERS:
        return _open_postgresql(parsed, create=create)
    if parsed.drivername not in _SQLITE_DRIVERS:
        message = f"state: databases of the kind {parsed.drivername} are not supported"
        raise StoreError(message, hint=_URL_HINT)
    if parsed.database in (None, "", ":memory:"):
        return _memory()
    return _open_sqlite(site_dir / str(parsed.database), create=create)


def one_at_a_time(connection: Connection) -> None:
    """Let no other transaction that calls this go on before ours ends; SQLite's never do."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_KEY})


# --- SQLite


def _open_sqlite(path: Path, *, create: bool) -> Database:
    label = f"the state database {path}"
    try:
        if create:
            _make_file(path)
        elif not path.exists():
            return _memory(readonly=True)
        _check_readable(path)
        query = _query(path, readonly=not create)
    except OSError as error:
        message = f"{label} cannot be opened: {error.strerror}"
        raise StoreError(message, hint=_RIGHTS_HINT) from error
    if create:
        _check_writable(path, label)
        if path.stat().st_size:  # what is refused is left as it is, also its journal mode
            _open_sqlite(path, create=False).close()
    engine = create_engine(
        URL.create("sqlite", database=f"file:{quote(os.fsencode(path))}", query=query),
        connect_args={"timeout": BUSY_TIMEOUT_S},
    )
    _listen(engine, wal=create)
    database = Database(engine, label, readonly=not create)
    if create:
        database.reserve = path.with_name(path.name + "-reserve")
    return _ready(database, create=create)


def _make_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives its side files the mode of the database, so that no one else reads those either.
    # A file that is there is not opened here: closing it would drop the locks that another
    # connection of this process has on it (POSIX).
    with suppress(FileExistsError):
        path.touch(0o600, exist_ok=False)


def _check_readable(path: Path) -> None:
    """Raise the real reason where SQLite would only say that it cannot open the file."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _check_writable(path: Path, label: str) -> None:
    """Raise StoreError where the file, or others beside it, cannot be written."""
    for place in (path, path.parent):
        if os.access(place, os.W_OK):
            continue
        what, hint = _SQLITE_ERRORS["SQLITE_READONLY"]
        code = errno.EACCES
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            code, hint = errno.EROFS, "mount it for writing, or set `state` to another file"
        raise StoreError(f"{label} {what}: {place}: {os.strerror(code)}", hint=hint)


def _query(path: Path, *, readonly: bool) -> dict[str, str]:
    """Return the URI parameters; who may not write can still read what no one else has open."""
    query = {"uri": "true"}
    if readonly and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        if path.with_name(path.name + "-wal").exists():
            return query | {"mode": "ro"}
        return query | {"immutable": "1"}
    return query


def _memory(*, readonly: bool = False) -> Database:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    _listen(engine, wal=False)
    label = "the state database in memory"
    database = _ready(Database(engine, label, readonly=False), create=True)
    database.readonly = readonly
    return database


def _listen(engine: Engine, *, wal: bool) -> None:
    @event.listens_for(engine, "connect")
    def connect(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.isolation_level = None  # we say BEGIN ourselves
        if wal:
            _set_wal(dbapi_connection)
        dbapi_connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("cobweb_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _set_wal(connection: Any) -> None:
    """Switch to WAL mode; where two do this to a new file at once, SQLite itself does not wait."""
    for _ in range(WAL_ATTEMPTS - 1):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            connection.execute("BEGIN IMMEDIATE")  # this waits until the other one is done
            connection.execute("ROLLBACK")
        else:
            return
    connection.execute("PRAGMA journal_mode=WAL")


# --- PostgreSQL


def _open_postgresql(url: URL, *, create: bool) -> Database:
    url = url.set(drivername="postgresql+psycopg")
    label = f"the state database {url.render_as_string(hide_password=True)}"
    try:
        engine = create_engine(url.set(query={**_ANSWERS, **url.query}), pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{label} needs the Python package {error.name}",
            hint="install Cobweb with its extra `postgresql`",
        ) from error

    @event.listens_for(engine, "do_connect")
    def do_connect(_dialect: Any, _record: Any, _arguments: Any, parameters: Any) -> Any:
        from cobweb.store._postgresql import WatchfulConnection  # needs psycopg

        return WatchfulConnection.connect(**parameters)

    @event.listens_for(engine, "connect")
    def connect(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )
        dbapi_connection.commit()

    return _ready(Database(engine, label, readonly=not create), create=create)


# --- the tables


def _ready(database: Database, *, create: bool) -> Database:
    try:
        if _prepare(database, create=create):
            return database
    except StoreError:
        database.close()
        raise
    database.close()
    return _memory(readonly=True)


def _prepare(database: Database, *, create: bool) -> bool:
    """Make the tables, and say whether there are some; refuse those of another format."""
    with database.write() if create else database.read() as connection:
        if create:
            one_at_a_time(connection)
        tables = inspect(connection).get_table_names()
        if META.name in tables:
            _check_format(database.label, connection)
            return True
        if tables and connection.dialect.name == "sqlite":
            raise StoreError(
                f"{database.label} holds something else: it has the table {tables[0]}",
                hint="set `state` to another file",
            )
        if create:
            METADATA.create_all(connection, checkfirst=False)
            connection.execute(META.insert(), {"key": "format", "value": str(FORMAT)})
        return create


def _check_format(label: str, connection: Connection) -> None:
    found = connection.scalar(select(META.c.value).where(META.c.key == "format"))
    if found is None or not found.isdecimal():
        raise _damaged(label)
    if int(found) != FORMAT:
        raise foreign_format(label, int(found), FORMAT)


# --- errors


def _damaged(label: str) -> StoreError:
    what, hint = _SQLITE_ERRORS["SQLITE_CORRUPT"]
    return StoreError(f"{label} {what}", hint=hint)


def _store_error(label: str, error: BaseException | None) -> StoreError:
    reason = _first_words(str(error))
    name = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
    what, hint = _SQLITE_ERRORS.get(name, _OTHER_ERROR)
    kind = StoreAwayError if name in _MAY_COME_BACK or _is_away(error) else StoreError
    return kind(f"{label} {what}{reason and ': '}{reason}", hint=hint)


def _first_words(text: str) -> str:
    """Return the first line that says something; what only announces it is not the whole of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = " ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1])
    return said.removesuffix(":")


def _is_away(error: BaseException | None) -> bool:
    """Say whether a PostgreSQL server cannot be reached, or not now; without a code it cannot."""
    code: str | None = getattr(error, "sqlstate", "")
    if code is None:
        return "OperationalError" in (kind.__name__ for kind in type(error).__mro__)
    return code.startswith(_AWAY)
