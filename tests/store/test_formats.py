"""A database of another format is refused and left as it is; on SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cobweb.errors import StoreError
from cobweb.model import CobId
from cobweb.store import StateWritten, open_store

UP = StateWritten(cob=CobId("h/a"), state="up", reason="check", time=1.0)


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def run_sql(url: str, *statements: str) -> list[Any]:
    """Carry out statements on the database of a URL; return the rows of the last one."""
    is_server = url.startswith("postgresql")
    opened: Any = (
        psycopg.connect(url.replace("+psycopg", ""))
        if is_server
        else sqlite3.connect(file_of(url), isolation_level=None)
    )
    rows: list[Any] = []
    with closing(opened) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
        connection.commit()
    return rows


def all_there_is(url: str) -> Any:
    """Return what a database has, byte for byte, or with who wrote each row."""
    if not url.startswith("postgresql"):
        return {path: path.read_bytes() for path in file_of(url).parent.iterdir()}
    columns = run_sql(
        url,
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = current_schema() ORDER BY 1, 2",
    )
    tables = sorted({table for table, *_ in columns})
    rows = [
        run_sql(url, f"SELECT xmin::text, {name}::text FROM {name} ORDER BY 2")  # noqa: S608  # no input
        for name in tables
    ]
    return columns, rows


@pytest.fixture
def url(fresh_url: Callable[[], str], tmp_path: Path) -> str:
    """Return the URL of a database with one object."""
    made = fresh_url()
    with open_store(made, tmp_path) as store:
        store.write([UP])
    return made


def refused(url: str, site: Path, *, create: bool) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_store(url, site, create=create).close()
    return caught.value


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("found", "hint"),
    [
        *((older, "an earlier Cobweb without release wrote it: move") for older in ("0", "1", "4")),
        *((newer, "use the Cobweb that wrote it, or a newer one") for newer in ("8", "99")),
    ],
)
def test_another_format_is_refused_and_left_as_it_is(
    url: str, tmp_path: Path, found: str, hint: str, *, create: bool
) -> None:
    """Whatever tables there are; with SQLite also where the file was restored from a text."""
    if url.startswith("sqlite"):
        run_sql(url, "PRAGMA journal_mode=DELETE")
    run_sql(
        url,
        f"UPDATE cobweb_meta SET value = '{found}' WHERE key = 'format'",  # noqa: S608  # no input
        "DROP TABLE cobweb_slots",
    )
    before = all_there_is(url)
    error = refused(url, tmp_path, create=create)
    assert error.message.startswith("the state database ")
    assert error.message.endswith(f" has format {found}, and this Cobweb knows format 7")
    assert error.hint.startswith(hint)
    assert all_there_is(url) == before


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "damage", ["UPDATE cobweb_meta SET value = 'two'", "DELETE FROM cobweb_meta"]
)
def test_a_database_without_a_number_is_damaged(
    url: str, tmp_path: Path, damage: str, *, create: bool
) -> None:
    run_sql(url, damage)
    before = all_there_is(url)
    assert refused(url, tmp_path, create=create).message.endswith(" is damaged")
    assert all_there_is(url) == before


def test_what_was_moved_away_is_made_anew(url: str, tmp_path: Path) -> None:
    run_sql(url, "UPDATE cobweb_meta SET value = '4' WHERE key = 'format'")
    refused(url, tmp_path, create=True)
    if url.startswith("sqlite"):
        file_of(url).rename(tmp_path / "moved.db")
    else:
        schema = run_sql(url, "SELECT current_schema()")[0][0]
        run_sql(url, f"DROP SCHEMA {schema} CASCADE", f"CREATE SCHEMA {schema}")
    with open_store(url, tmp_path) as store:
        assert store.states() == {}
        store.write([UP])
    with open_store(url, tmp_path, create=False) as store:
        assert list(store.states()) == [UP.cob]
