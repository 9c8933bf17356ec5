"""A database of an earlier format is read as it is, and upgraded when it is written."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cobweb.model import CobId
from cobweb.store import (
    CanaryWritten,
    HostGivenUp,
    HostLost,
    HostSwitched,
    ResultsWritten,
    RunInfo,
    ServedWritten,
    SlotWritten,
    StateWritten,
    Store,
    TransitionBegan,
    open_store,
)

SCRIPTS = Path(__file__).parent
REACHED = 1795271525.5115285
NEWEST = "5124b83889e32da03be0714411e818d6c53ce274cd65bb1d2a87de42e0cc86d0"


def run_sql(url: str, script: str) -> list[Any]:
    """Carry out statements on the database of a URL; return the rows of the last one."""
    if url.startswith("postgresql"):
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as server:
            cursor = server.execute(script.encode())
            return cursor.fetchall() if cursor.description else []
    file = Path(url.removeprefix("sqlite:///"))
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file)) as connection, connection:
        if ";" in script:
            connection.executescript(script)
            return []
        return connection.execute(script).fetchall()


def made(url: str, found: int) -> str:
    """Fill a database with what Cobweb 0.1 stored in the format `found`; return its URL."""
    kind = url.partition(":")[0].partition("+")[0]
    run_sql(url, (SCRIPTS / f"format{found}" / f"{kind}.sql").read_text())
    return url


@pytest.fixture
def old_url(fresh_url: Callable[[], str]) -> str:
    """Return the URL of a database of format 1 with two runs of two generations."""
    return made(fresh_url(), 1)


@pytest.fixture
def format_3_url(fresh_url: Callable[[], str]) -> str:
    """Return the URL of one of format 3; a third run of it was killed."""
    return made(fresh_url(), 3)


@pytest.fixture(params=[1, 3])
def any_old_url(request: pytest.FixtureRequest, fresh_url: Callable[[], str]) -> str:
    """Return the URL of a database of each format that there is a script for."""
    return made(fresh_url(), request.param)


def told(store: Store) -> Mapping[str, Any]:
    """Return all that a store tells."""
    runs = store.runs()
    return {
        "states": store.states(),
        "locks": store.locks(),
        "results": store.results(),
        "budgets": (store.slots(), store.canaries(2), store.given_up()),
        "revision": store.revision(),
        "runs": runs,
        "events": [list(store.events(run.info.id)) for run in runs],
        "generations": store.generations(),
        "contents": [store.generation(info.id) for info in store.generations()],
        "current": store.current_generation(),
        "hosts": store.host_generations(),
        "file": store.file("0" * 64),
    }


def form(url: str) -> str:
    return str(run_sql(url, "SELECT value FROM cobweb_meta WHERE key = 'format'")[0][0])


def test_reading_changes_nothing_and_tells_what_the_upgraded_one_tells(
    any_old_url: str, tmp_path: Path
) -> None:
    found = form(any_old_url)
    with open_store(any_old_url, tmp_path, create=False) as store:
        before = told(store)
    assert form(any_old_url) == found
    with open_store(any_old_url, tmp_path) as store:
        assert told(store) == before
    assert form(any_old_url) == "5"
    with open_store(any_old_url, tmp_path, create=False) as store:
        assert told(store) == before
    assert [run.info.generation for run in before["runs"]][-2:] == [2, 1]
    assert len(before["events"][-1]) > 5
    assert [record.served for record in before["states"].values()] == [False] * 3
    assert before["budgets"] == (frozenset(), {}, frozenset())


def test_hosts_are_in_the_newest_generation_which_was_reached(old_url: str, tmp_path: Path) -> None:
    with open_store(old_url, tmp_path) as store:
        newest, first = store.generations()
        assert store.host_generations() == {"h1": 2, "h2": 2}
    assert (newest.id, newest.parent, newest.digest) == (2, 1, NEWEST)
    assert (newest.message, newest.author, newest.commit) == ("second ü", "ann", "")
    assert (newest.reached, first.reached) == (REACHED, None)
    assert newest.size > 100


def test_upgraded_tables_are_those_of_a_new_database(
    any_old_url: str, fresh_url: Callable[[], str], tmp_path: Path
) -> None:
    new_url = fresh_url()
    for url in (any_old_url, new_url):
        open_store(url, tmp_path).close()
    assert columns(any_old_url) == columns(new_url)
    assert indexes(any_old_url) == indexes(new_url)


def columns(url: str) -> list[Any]:
    if url.startswith("postgresql"):
        described = "table_name, column_name, data_type, column_default, is_nullable"
        source = "information_schema.columns WHERE table_schema = current_schema()"
        return run_sql(url, f"SELECT {described} FROM {source} ORDER BY 1, 2")  # noqa: S608  # no input
    tables = run_sql(url, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
    return [(name, *run_sql(url, f"PRAGMA table_info({name})")) for (name,) in tables]


def indexes(url: str) -> list[Any]:
    if url.startswith("postgresql"):
        where = "pg_indexes WHERE schemaname = current_schema()"
        return run_sql(url, f"SELECT tablename, indexname FROM {where} ORDER BY 1, 2")  # noqa: S608  # no input
    where = "sqlite_master WHERE type = 'index'"
    return run_sql(url, f"SELECT tbl_name, name FROM {where} ORDER BY 1, 2")  # noqa: S608  # no input


def test_what_was_known_of_a_host_stays(old_url: str, tmp_path: Path) -> None:
    lost = "INSERT INTO cobweb_hosts (name, reachable, since) VALUES"
    run_sql(old_url, f"{lost} ('h1', false, 7.0), ('gone', false, 8.0);")
    with open_store(old_url, tmp_path) as store:
        assert store.host_generations() == {"h1": 2, "h2": 2}
        assert [record.reachable for record in store.states().values()] == [False, True, True]
    rows = run_sql(old_url, "SELECT name, since, generation FROM cobweb_hosts ORDER BY name")
    assert rows == [("gone", 8.0, 0), ("h1", 7.0, 2), ("h2", 0.0, 2)]


@pytest.mark.parametrize(
    "spoilt",
    [
        "DELETE FROM cobweb_runs;",
        "UPDATE cobweb_runs SET result = 'failed';",
        "UPDATE cobweb_runs SET ended = NULL, result = NULL, counts = NULL;",
        """UPDATE cobweb_runs SET counts = '{"cobs":3,"settled":2}';""",
        "UPDATE cobweb_runs SET counts = '{}';",
    ],
)
def test_generation_that_no_run_brought_about_was_not_reached(
    old_url: str, tmp_path: Path, spoilt: str
) -> None:
    run_sql(old_url, spoilt)
    with open_store(old_url, tmp_path) as store:
        assert [info.reached for info in store.generations()] == [None, None]
        assert store.host_generations() == {"h1": 2, "h2": 2}


def test_database_without_a_generation_is_upgraded(old_url: str, tmp_path: Path) -> None:
    run_sql(old_url, "DELETE FROM cobweb_generations;")
    with open_store(old_url, tmp_path, create=False) as store:
        assert (store.generations(), store.host_generations()) == ((), {})
    with open_store(old_url, tmp_path) as store:
        assert (store.generations(), store.host_generations()) == ((), {})
        assert len(store.states()) == 3


@pytest.mark.parametrize("content", ["{", "[]", '{"hosts":{}}', '{"hosts":1,"cobs":{}}'])
def test_damaged_generation_does_not_hinder_the_upgrade(
    old_url: str, tmp_path: Path, content: str
) -> None:
    packed = zlib.compress(content.encode()).hex()
    blob = f"'\\x{packed}'" if old_url.startswith("postgresql") else f"X'{packed}'"
    run_sql(old_url, f"UPDATE cobweb_generations SET content = {blob} WHERE id = 2;")  # noqa: S608  # no input
    with open_store(old_url, tmp_path) as store:
        assert store.host_generations() == {}
        assert store.generations()[0].reached is None
        assert len(store.states()) == 3


KILLED = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from cobweb.store import open_store
url, folder, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
count = 0
def die_at_last(*_):
    global count
    count += 1
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)
for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
    event.listen(Engine, moment, die_at_last)
open_store(url, folder).close()
"""


@pytest.mark.timeout(300)
def test_upgrade_that_is_killed_at_any_moment_leaves_the_old_format(
    any_old_url: str, tmp_path: Path
) -> None:
    found = form(any_old_url)
    with open_store(any_old_url, tmp_path, create=False) as store:
        before = told(store)
    moments = range(1, 100)
    for moment in moments:
        arguments = [sys.executable, "-c", KILLED, any_old_url, str(tmp_path), str(moment)]
        code = subprocess.run(arguments, check=False).returncode
        with open_store(any_old_url, tmp_path, create=False) as store:
            assert told(store) == before
        if code == 0:
            break
        assert (code, form(any_old_url)) == (-signal.SIGKILL, found)
    assert form(any_old_url) == "5"
    assert moment > {"1": 20, "3": 12}[found], "the moments are those of the upgrade"


def _open(url: str, folder: str) -> str:
    with open_store(url, Path(folder)) as store:
        return store.revision()


def test_two_processes_that_upgrade_at_once_do_it_once(any_old_url: str, tmp_path: Path) -> None:
    with get_context("spawn").Pool(3) as pool:
        revisions = pool.starmap(_open, [(any_old_url, str(tmp_path))] * 6)
    assert len(set(revisions)) == 1
    assert form(any_old_url) == "5"


def test_run_of_an_older_cobweb_goes_on_after_the_upgrade(old_url: str, tmp_path: Path) -> None:
    """Its statements name the columns that it knows."""
    open_store(old_url, tmp_path).close()
    run_sql(
        old_url,
        "INSERT INTO cobweb_generations (id, digest, parent, author, time, message, content)"
        " SELECT 3, digest, 2, 'ann', 1.0, '', content FROM cobweb_generations WHERE id = 2;"
        "INSERT INTO cobweb_hosts (name, reachable, since) VALUES ('h1', false, 7.0)"
        " ON CONFLICT (name) DO UPDATE SET reachable = excluded.reachable, since = excluded.since;",
    )
    with open_store(old_url, tmp_path) as store:
        assert store.generations()[0].commit == ""
        assert store.host_generations() == {"h1": 2, "h2": 2}


def test_upgraded_database_can_be_written(old_url: str, tmp_path: Path) -> None:
    with open_store(old_url, tmp_path) as store:
        up = StateWritten(cob=CobId("h3/c"), state="up", reason="check", time=9.0)
        store.write([up, HostLost(host="h1", time=9.0)])
        assert len(store.states()) == 4
        assert store.host_generations() == {"h1": 2, "h2": 2}


def test_run_of_format_3_goes_on_after_the_upgrade(format_3_url: str, tmp_path: Path) -> None:
    """What it writes meets defaults, and what it does not know stays."""
    served, given_up = ServedWritten(cob=CobId("h2/b")), HostGivenUp(host="h1", given_up=True)
    with open_store(format_3_url, tmp_path) as store:
        store.write([served, given_up])
    run_sql(
        format_3_url,
        "INSERT INTO cobweb_cobs (id, run, state, known) VALUES ('h2/b', 'r', 'up', 'up')"
        " ON CONFLICT (id) DO UPDATE SET state = excluded.state, known = excluded.known;"
        "INSERT INTO cobweb_cobs (id, run, state) VALUES ('h1/new', 'r', 'up');"
        "INSERT INTO cobweb_hosts (name, reachable, since) VALUES ('h1', true, 7.0)"
        " ON CONFLICT (name) DO UPDATE SET reachable = excluded.reachable, since = excluded.since;",
    )
    with open_store(format_3_url, tmp_path) as store:
        records = store.states()
        assert (records[CobId("h2/b")].state, records[CobId("h2/b")].served) == ("up", True)
        assert not records[CobId("h1/new")].served
        assert store.given_up() == {"h1"}


def test_upgraded_database_keeps_what_format_3_knows_and_takes_a_book(
    format_3_url: str, tmp_path: Path, run_info: RunInfo
) -> None:
    a, b = CobId("h2/a"), CobId("h2/b")
    with open_store(format_3_url, tmp_path) as store:
        records = store.states()
        assert records[a].in_transition == ("up", "down")
        assert (records[a].attempt, records[a].executor) == (2, "ansible")
        assert (records[b].state, records[b].known, records[b].failed) == ("unknown", "up", True)
        assert store.results() == {"h2": {"address": "10.0.0.2"}}
        assert store.lost_hosts() == {"h1"}
        store.begin_run(run_info)
        store.write(
            [
                ServedWritten(cob=a),
                SlotWritten(limit="rolling", unit="h2", time=9.0),
                CanaryWritten(limit="rolling", generation=2, units=("h2",), through=False),
                HostGivenUp(host="h1", given_up=True),
            ]
        )
    with open_store(format_3_url, tmp_path, create=False) as store:
        assert store.states() == {**records, a: replace(records[a], served=True)}
        assert store.slots() == {("rolling", "h2")}
        assert store.canaries(2) == {"rolling": (frozenset({"h2"}), False)}
        assert store.given_up() == {"h1"}
        assert store.lost_hosts() == {"h1"}


TO_FORMAT_2 = """
DROP TABLE cobweb_renames;
DROP TABLE cobweb_slots;
DROP TABLE cobweb_canaries;
ALTER TABLE cobweb_cobs DROP COLUMN served;
ALTER TABLE cobweb_cobs DROP COLUMN at_work;
ALTER TABLE cobweb_hosts DROP COLUMN given_up;
DROP TABLE cobweb_results;
ALTER TABLE cobweb_cobs DROP COLUMN attempt;
ALTER TABLE cobweb_cobs DROP COLUMN executor;
ALTER TABLE cobweb_cobs DROP COLUMN known;
UPDATE cobweb_meta SET value = '2' WHERE key = 'format';
"""


def test_format_2_is_read_as_it_is_and_upgraded_when_written(
    fresh_url: Callable[[], str], tmp_path: Path
) -> None:
    """It knows nothing of results and attempts; what it has stays."""
    url, new_url = fresh_url(), fresh_url()
    up = StateWritten(cob=CobId("h1/c"), state="up", reason="check", time=9.0, content="c1")
    began = TransitionBegan(cob=CobId("h1/d"), source="down", dest="up", time=9.0)
    with open_store(url, tmp_path) as store:
        store.write([up, began, HostSwitched(host="h1", generation=4)])
    run_sql(url, TO_FORMAT_2)
    with open_store(url, tmp_path, create=False) as store:
        before = told(store)
        assert store.results() == {}
        assert [record.attempt for record in store.states().values()] == [0, 0]
    assert form(url) == "2"
    with open_store(url, tmp_path) as store:
        assert told(store) == before
        store.write([began, ResultsWritten(host="h1", results={"ip": "10.0.0.1"})])
    assert form(url) == "5"
    open_store(new_url, tmp_path).close()
    assert columns(url) == columns(new_url)
    with open_store(url, tmp_path, create=False) as store:
        assert store.results() == {"h1": {"ip": "10.0.0.1"}}
        assert store.states()[CobId("h1/d")].attempt == 1
        assert store.host_generations() == {"h1": 4}
