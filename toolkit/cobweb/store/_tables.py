"""The tables of the state database, in SQLAlchemy Core; the same on SQLite and PostgreSQL."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem

FORMAT = 7
"""The version of these tables, in `META` under the key `format`."""

METADATA = sa.MetaData()


def json_text(data: Any) -> str:
    """Return plain JSON data as the columns of text have it; ValueError for NaN and infinities."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def _table(name: str, *parts: SchemaItem, rowid: bool = False) -> sa.Table:
    return sa.Table(name, METADATA, *parts, sqlite_with_rowid=rowid)


def _key(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, primary_key=True)


def _flag(name: str, *, default: bool = False) -> sa.Column[bool]:
    server_default = sa.true() if default else sa.false()
    return sa.Column(name, sa.Boolean, nullable=False, server_default=server_default)


def _text(name: str, default: str | None = "") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


def _time(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False, server_default="0")


META = _table("cobweb_meta", _key("key"), _text("value", None), rowid=True)

COBS = _table(
    "cobweb_cobs",
    _key("id"),
    _text("state", "unknown"),
    _text("content"),
    sa.Column("applied", sa.Text),
    sa.Column("source", sa.Text),
    sa.Column("dest", sa.Text),
    _time("since"),
    _text("run"),
    _number("generation"),
    _flag("failed"),
    _text("reason"),
    _number("attempt"),
    _text("executor"),
    _text("known"),
    _flag("served"),
    _flag("at_work"),
)

HOSTS = _table(
    "cobweb_hosts",
    _key("name"),
    _flag("reachable", default=True),
    _time("since"),
    _number("generation"),
    _flag("given_up"),
    rowid=True,
)

RESULTS = _table("cobweb_results", _key("host"), _key("key"), _text("value", None))

GRANTS = _table(
    "cobweb_grants",
    _key("cob"),
    _key("holder"),
    _text("state", None),
    sa.Index("cobweb_grants_holder", "holder"),
)

SLOTS = _table(
    "cobweb_slots",
    _key("limit"),
    _key("unit"),
    _text("run"),
    _time("since"),
    sa.Index("cobweb_slots_unit", "unit"),
)

CANARIES = _table(
    "cobweb_canaries",
    _key("limit"),
    _key("contents"),
    _number("generation"),
    _text("units", "[]"),
    _flag("through"),
    _text("covers"),
    _number("seq"),
)

RENAMES = _table(
    "cobweb_renames",
    _key("old"),
    sa.Column("generation", sa.BigInteger, primary_key=True, autoincrement=False),
    _text("new", None),
)

RUNS = _table(
    "cobweb_runs",
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    _text("command"),
    _time("started"),
    _text("user"),
    _text("host"),
    _number("pid"),
    _text("site"),
    _number("generation"),
    sa.Column("result", sa.Text),
    sa.Column("exit_code", sa.Integer),
    sa.Column("counts", sa.Text),
    sa.Column("waits", sa.Text),
    sa.Column("ended", sa.Double),
    rowid=True,
)

EVENTS = _table(
    "cobweb_events",
    sa.Column("run", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    _time("time"),
    _text("type"),
    _text("data"),
)

GENERATIONS = _table(
    "cobweb_generations",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    _text("digest", None),
    _number("parent"),
    _text("author"),
    _time("time"),
    _text("message"),
    sa.Column("content", sa.LargeBinary, nullable=False),
    _text("commit"),
    sa.Column("reached", sa.Double),
    sa.Column("decisions", sa.JSON, nullable=False),
    rowid=True,
)

FILES = _table(
    "cobweb_files",
    _key("digest"),
    sa.Column("content", sa.LargeBinary, nullable=False),
    rowid=True,
)

DOCUMENTS = _table(
    "cobweb_documents",
    _key("kind"),
    _key("section"),
    _key("key"),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text),
    _text("author"),
    _text("reason"),
    _time("time"),
)

SITE_LOCK = _table(
    "cobweb_site_lock",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
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
    sa.Column("until", sa.Double),
)
