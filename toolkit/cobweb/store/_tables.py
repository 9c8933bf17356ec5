"""The tables of the state database, in SQLAlchemy Core; the same on SQLite and PostgreSQL."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    JSON,
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
from sqlalchemy.schema import SchemaItem

FORMAT = 7
"""The version of these tables, in `META` under the key `format`."""

METADATA = MetaData()


def json_text(data: Any) -> str:
    """Return plain JSON data as the columns of text have it; ValueError for NaN and infinities."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def _table(name: str, *parts: SchemaItem, rowid: bool = False) -> Table:
    return Table(name, METADATA, *parts, sqlite_with_rowid=rowid)


def _text(name: str, default: str | None = "") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=default)


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _time(name: str) -> Column[float]:
    return Column(name, Double, nullable=False, server_default="0")


META = _table(
    "cobweb_meta", Column("key", Text, primary_key=True), _text("value", None), rowid=True
)

COBS = _table(
    "cobweb_cobs",
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
)

HOSTS = _table(
    "cobweb_hosts",
    Column("name", Text, primary_key=True),
    Column("reachable", Boolean, nullable=False, server_default=true()),
    _time("since"),
    _number("generation"),
    Column("given_up", Boolean, nullable=False, server_default=false()),
    rowid=True,
)

RESULTS = _table(
    "cobweb_results",
    Column("host", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    _text("value", None),
)

GRANTS = _table(
    "cobweb_grants",
    Column("cob", Text, primary_key=True),
    Column("holder", Text, primary_key=True),
    _text("state", None),
    Index("cobweb_grants_holder", "holder"),
)

SLOTS = _table(
    "cobweb_slots",
    Column("limit", Text, primary_key=True),
    Column("unit", Text, primary_key=True),
    _text("run"),
    _time("since"),
    Index("cobweb_slots_unit", "unit"),
)

CANARIES = _table(
    "cobweb_canaries",
    Column("limit", Text, primary_key=True),
    Column("contents", Text, primary_key=True),
    _number("generation"),
    _text("units", "[]"),
    Column("through", Boolean, nullable=False, server_default=false()),
    _text("covers"),
    _number("seq"),
)

RENAMES = _table(
    "cobweb_renames",
    Column("old", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True, autoincrement=False),
    _text("new", None),
)

RUNS = _table(
    "cobweb_runs",
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
    rowid=True,
)

EVENTS = _table(
    "cobweb_events",
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _time("time"),
    _text("type"),
    _text("data"),
)

GENERATIONS = _table(
    "cobweb_generations",
    Column("id", Integer, primary_key=True, autoincrement=False),
    _text("digest", None),
    _number("parent"),
    _text("author"),
    _time("time"),
    _text("message"),
    Column("content", LargeBinary, nullable=False),
    _text("commit"),
    Column("reached", Double),
    Column("decisions", JSON, nullable=False),
    rowid=True,
)

FILES = _table(
    "cobweb_files",
    Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    rowid=True,
)

DOCUMENTS = _table(
    "cobweb_documents",
    Column("kind", Text, primary_key=True),
    Column("section", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text),
    _text("author"),
    _text("reason"),
    _time("time"),
)

SITE_LOCK = _table(
    "cobweb_site_lock",
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
