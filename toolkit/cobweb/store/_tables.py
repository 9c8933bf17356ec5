"""The tables of the state database, in SQLAlchemy Core; the same on SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    false,
    true,
)

FORMAT = 6
"""The version of these tables, in `META` under the key `format`."""

METADATA = MetaData()


def _text(name: str, default: str | None = "") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=default)


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _time(name: str) -> Column[float]:
    return Column(name, Double, nullable=False, server_default="0")


META = Table(
    "cobweb_meta",
    METADATA,
    Column("key", Text, primary_key=True),
    _text("value", None),
)

COBS = Table(
    "cobweb_cobs",
    METADATA,
    Column("id", Text, primary_key=True),
    _text("state", "unknown"),
    _text("content"),
    Column("applied", Text),
    Column("source", Text),
    Column("dest", Text),
    _time("since"),
    _text("run"),
    _number("generation"),
    Column("failed", Boolean, nullable=False, server_default=false()),
    _text("reason"),
    _number("attempt"),
    _text("executor"),
    _text("known"),
    Column("served", Boolean, nullable=False, server_default=false()),
    Column("at_work", Boolean, nullable=False, server_default=false()),
    sqlite_with_rowid=False,
)

HOSTS = Table(
    "cobweb_hosts",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("reachable", Boolean, nullable=False, server_default=true()),
    _time("since"),
    _number("generation"),
    Column("given_up", Boolean, nullable=False, server_default=false()),
)

RESULTS = Table(
    "cobweb_results",
    METADATA,
    Column("host", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    _text("value", None),
    sqlite_with_rowid=False,
)

GRANTS = Table(
    "cobweb_grants",
    METADATA,
    Column("cob", Text, primary_key=True),
    Column("holder", Text, primary_key=True),
    _text("state", None),
    Index("cobweb_grants_holder", "holder"),
    sqlite_with_rowid=False,
)

SLOTS = Table(
    "cobweb_slots",
    METADATA,
    Column("limit", Text, primary_key=True),
    Column("unit", Text, primary_key=True),
    _text("run"),
    _time("since"),
    Index("cobweb_slots_unit", "unit"),
    sqlite_with_rowid=False,
)

CANARIES = Table(
    "cobweb_canaries",
    METADATA,
    Column("limit", Text, primary_key=True),
    Column("contents", Text, primary_key=True),
    _number("generation"),
    _text("units", "[]"),
    Column("through", Boolean, nullable=False, server_default=false()),
    _text("covers"),
    _number("seq"),
    sqlite_with_rowid=False,
)

RENAMES = Table(
    "cobweb_renames",
    METADATA,
    Column("old", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True, autoincrement=False),
    _text("new", None),
    sqlite_with_rowid=False,
)

RUNS = Table(
    "cobweb_runs",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    _text("command"),
    _time("started"),
    _text("user"),
    _text("host"),
    _number("pid"),
    _text("site"),
    _number("generation"),
    Column("result", Text),
    Column("exit_code", Integer),
    Column("counts", Text),
    Column("waits", Text),
    Column("ended", Double),
)

EVENTS = Table(
    "cobweb_events",
    METADATA,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _time("time"),
    _text("type"),
    _text("data"),
    sqlite_with_rowid=False,
)

GENERATIONS = Table(
    "cobweb_generations",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _text("digest", None),
    _number("parent"),
    _text("author"),
    _time("time"),
    _text("message"),
    Column("content", LargeBinary, nullable=False),
    _text("commit"),
    Column("reached", Double),
)

FILES = Table(
    "cobweb_files",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

SITE_LOCK = Table(
    "cobweb_site_lock",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _text("run", None),
    _text("user"),
    _text("host"),
    _number("pid"),
    _text("process_start"),
    _text("boot_id"),
    _text("machine_id"),
    _text("pid_space"),
    _text("reason"),
    _time("since"),
    _time("heartbeat"),
    Column("until", Double),
)
