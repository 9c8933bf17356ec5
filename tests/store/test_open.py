"""What cannot be opened or written says which file, why, and what to do; nothing is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from cobweb.errors import StoreError
from cobweb.model import CobId
from cobweb.store import EventWritten, RunInfo, StateWritten, Store, open_store
from cobweb.store._database import Database, _set_wal
from tests.support.postgresql import PostgreSQL

URL = "sqlite:///.cobweb/state.db"
UP = StateWritten(cob=CobId("h/a"), state="up", reason="check", time=1.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a state database with one object."""
    with open_store(URL, tmp_path) as store:
        store.write([UP])
    return tmp_path / ".cobweb/state.db"


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a folder that every user can reach, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="cobweb-store-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def refused(site: Path, url: str = URL, *, create: bool = True) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_store(url, site, create=create).close()
    assert caught.value.exit_code == 1
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- where it is, and who may read it


def test_relative_file_starts_at_the_site_and_is_private(tmp_path: Path) -> None:
    with open_store(URL, tmp_path) as store:
        store.write([UP])
        folder = tmp_path / ".cobweb"
        assert mode(folder) == 0o700
        assert {mode(path) for path in folder.iterdir()} == {0o600}
        assert folder / "state.db" in folder.iterdir()


def test_absolute_file_stays_where_it_is(tmp_path: Path) -> None:
    other = tmp_path / "a folder?#%20" / "state.db"
    other.parent.mkdir(mode=0o755)
    open_store(f"sqlite:///{other}".replace("?", "%3F"), tmp_path / "site").close()
    assert not (tmp_path / "site").exists()


def test_folder_with_odd_name_is_fine(tmp_path: Path) -> None:
    site = tmp_path / "a folder?#%20é"
    open_store(URL, site).close()
    assert (site / ".cobweb/state.db").exists()


def test_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / ".cobweb").mkdir(mode=0o755)
    open_store(URL, tmp_path).close()
    assert mode(tmp_path / ".cobweb") == 0o755


def test_missing_database_reads_as_empty_and_is_not_made(tmp_path: Path) -> None:
    with open_store(URL, tmp_path, create=False) as store:
        assert store.states() == {}
        assert store.last_run() is None
    assert list(tmp_path.iterdir()) == []


def test_empty_file_reads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    with open_store("sqlite:///state.db", tmp_path, create=False) as store:
        assert store.states() == {}
    assert (tmp_path / "state.db").stat().st_size == 0


def test_commits_are_on_the_disk(file: Path, tmp_path: Path) -> None:
    with open_store(URL, tmp_path) as store, store._database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    assert file.exists()


def test_database_in_memory_is_for_trials(tmp_path: Path) -> None:
    with open_store("sqlite://", tmp_path) as store:
        store.write([UP])
        assert list(store.states()) == ["h/a"]
    assert list(tmp_path.iterdir()) == []


# --- bad URLs


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("state.db", "no URL of a database"),
        ("", "no URL of a database"),
        ("mysql://db/x", "databases of the kind mysql are not supported"),
        ("postgresql+nodriver://db/x", "of the kind postgresql+nodriver are not supported"),
        ("sqlite:///.cobweb", ".cobweb cannot be opened: Is a directory"),
    ],
)
def test_bad_url_is_refused(tmp_path: Path, url: str, told: str) -> None:
    (tmp_path / ".cobweb").mkdir()
    assert told in refused(tmp_path, url).message


# --- bad files


@pytest.mark.parametrize("create", [True, False])
def test_file_that_is_no_database(file: Path, tmp_path: Path, *, create: bool) -> None:
    file.write_text("cobweb: 1\n" * 1000)
    error = refused(tmp_path, create=create)
    assert f"{file} is not a state database" in error.message
    assert file.read_text() == "cobweb: 1\n" * 1000


@pytest.mark.parametrize("create", [True, False])
def test_database_of_something_else(tmp_path: Path, *, create: bool) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        connection.execute("CREATE TABLE songs (title)")
    before = (tmp_path / "state.db").read_bytes()
    error = refused(tmp_path, "sqlite:///state.db", create=create)
    assert f"{tmp_path}/state.db holds something else: it has the table songs" in error.message
    assert (tmp_path / "state.db").read_bytes() == before


def test_overwritten_pages_are_told(tmp_path: Path) -> None:
    with open_store(URL, tmp_path) as store:
        cobs = [CobId(f"h{number}/a") for number in range(5000)]
        store.write([StateWritten(cob=cob, state="up", reason="check", time=1.0) for cob in cobs])
    file = tmp_path / ".cobweb/state.db"
    with file.open("r+b") as data:
        data.seek(8192)
        data.write(os.urandom(file.stat().st_size - 8192))
    told = pytest.raises(StoreError, match="is damaged")
    with told as caught, open_store(URL, tmp_path) as store:
        store.states()
    assert str(file) in caught.value.message


def test_damaged_values_are_told(file: Path, tmp_path: Path, run_info: RunInfo) -> None:
    with open_store(URL, tmp_path) as store:
        store.begin_run(run_info)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE cobweb_cobs SET applied = '{'")
        connection.execute("UPDATE cobweb_runs SET counts = '{'")
    with open_store(URL, tmp_path) as store:
        with pytest.raises(StoreError, match="is damaged"):
            store.runs()
        with pytest.raises(StoreError, match="damaged"):
            _ = store.states()[UP.cob].applied


def test_a_damaged_name_in_an_error_is_told(file: Path, tmp_path: Path) -> None:
    """SQLite quotes the damaged part of its schema, and Python cannot decode that."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    data = file.read_bytes()
    assert b"CREATE TABLE cobweb_hosts" in data
    file.write_bytes(data.replace(b"CREATE TABLE cobweb_hosts", b"CREATE TABLE \xd5obweb_hosts"))
    assert f"{file} is damaged" in refused(tmp_path).message


def test_the_number_of_a_lost_run_is_not_used_again(
    file: Path, tmp_path: Path, run_info: RunInfo
) -> None:
    told = EventWritten(seq=0, time=1.0, type="run.begin", data="{}")
    for number in range(2):
        with open_store(URL, tmp_path) as store:
            store.begin_run(replace(run_info, id=f"run-{number}"))
            store.write([told])
            assert [event["seq"] for event in store.events(f"run-{number}")] == [0]
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("DELETE FROM cobweb_runs")


def test_missing_tables_are_told(file: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE cobweb_cobs")
    with pytest.raises(StoreError, match="cobweb_cobs"), open_store(URL, tmp_path) as store:
        store.states()


# --- no right to read or write; root may do everything, so another process gives that up

AS_NOBODY = """
import os, sys
from pathlib import Path
import sqlite3
import cobweb.store._store
from cobweb.errors import StoreError
from cobweb.store import StateWritten, open_store
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
site, create = Path(sys.argv[1]), sys.argv[2] == "create"
try:
    with open_store("sqlite:///.cobweb/state.db", site, create=create) as store:
        print("read", *store.states())
        if create:
            store.write([StateWritten(cob="h/b", state="up", reason="check", time=1.0)])
            print("written")
except StoreError as error:
    print("refused", error)
"""


def as_nobody(site: Path, *, create: bool) -> str:
    what = "create" if create else "read"
    arguments = [sys.executable, "-c", AS_NOBODY, str(site), what]
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.strip()


def rights(folder: Path, folder_mode: int, file_mode: int) -> None:
    for path in folder.iterdir():
        path.chmod(file_mode)
    folder.chmod(folder_mode)


@pytest.mark.gate("becomes another user in a process of its own")
def test_read_only_database_can_be_read_but_not_opened_for_writing(public: Path) -> None:
    with open_store(URL, public) as store:
        store.write([UP])
    folder = public / ".cobweb"
    rights(folder, 0o555, 0o444)
    assert as_nobody(public, create=False) == "read h/a"
    answer = as_nobody(public, create=True)
    said = f"refused the state database {folder}/state.db cannot be written"
    assert answer.startswith(f"{said}: {folder}/state.db: Permission denied")
    assert "check the owner and the permissions" in answer
    rights(folder, 0o555, 0o666)
    assert as_nobody(public, create=True).startswith(f"{said}: {folder}: Permission denied")
    folder.chmod(0o755)


@pytest.mark.gate("becomes another user in a process of its own")
def test_unreadable_database_is_refused(public: Path) -> None:
    with open_store(URL, public) as store:
        store.write([UP])
    folder = public / ".cobweb"
    rights(folder, 0o555, 0o000)
    for create in (True, False):
        answer = as_nobody(public, create=create)
        assert answer.startswith(f"refused the state database {folder}/state.db cannot be opened")
        assert "Permission denied" in answer
    folder.chmod(0o755)


@pytest.mark.gate("becomes another user in a process of its own")
def test_folder_that_cannot_be_made_is_told(public: Path) -> None:
    public.chmod(0o555)
    answer = as_nobody(public, create=True)
    assert answer.startswith(f"refused the state database {public}/.cobweb/state.db cannot be")
    assert as_nobody(public, create=False) == "read"


# --- no room

FILL = """
import resource, sys
from pathlib import Path
from cobweb.errors import StoreError
from cobweb.store import StateWritten, open_store
site, limit = Path(sys.argv[1]), int(sys.argv[2])
with open_store("sqlite:///.cobweb/state.db", site) as store:
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    written = 0
    try:
        while True:
            entries = [
                StateWritten(cob=f"h{written}/{n}", state="up", reason="x" * 500, time=1.0)
                for n in range(20)
            ]
            store.write(entries)
            written += 1
    except StoreError as error:
        print(error)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        store.write(entries)
        written += 1
    print(written, len(store.states()))
"""


@pytest.mark.gate("a process of its own with a limit")
def test_write_that_hits_a_limit_stores_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", FILL, str(tmp_path), "400000"]
    output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    message, counts = output.splitlines()
    written, known = map(int, counts.split())
    assert message.startswith(f"the state database {tmp_path}/.cobweb/state.db cannot be")
    assert written > 1
    assert known == written * 20
    with open_store(URL, tmp_path) as store:
        assert len(store.states()) == known


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_full_disk_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=600k none "$1" && exec "$2" -c "$3" "$1" 0'
    output = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FILL],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    message, counts = output.splitlines()
    written, known = map(int, counts.split())
    assert "state.db cannot be written: the disk is full" in message
    assert "make room" in message
    assert written > 1
    assert known == written * 20


# --- two at once


def test_busy_database_is_waited_for(file: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with open_store(URL, tmp_path, create=False) as store:
            assert list(store.states()) == ["h/a"]  # reading needs not wait
        other.execute("ROLLBACK")


def test_new_database_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    opened = threading.Event()

    def open_it() -> None:
        open_store("sqlite:///state.db", tmp_path).close()
        opened.set()

    with closing(
        sqlite3.connect(tmp_path / "state.db", isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN EXCLUSIVE")
        thread = threading.Thread(target=open_it)
        thread.start()
        other.execute("ROLLBACK")
        thread.join()
    assert opened.is_set()


def test_error_that_is_no_collision_is_not_waited_out(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    with (
        closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as readonly,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        _set_wal(readonly)


def test_database_that_stays_busy_is_told(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobweb.store._database.BUSY_TIMEOUT_S", 0)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert f"{file} is in use by another process" in refused(tmp_path).message


# --- PostgreSQL


def test_server_that_does_not_answer_is_told_without_the_password(tmp_path: Path) -> None:
    error = refused(tmp_path, "postgresql+psycopg://ann:hunter2@127.0.0.1:1/cobweb")
    assert "postgresql+psycopg://ann:***@127.0.0.1:1/cobweb" in error.message
    assert "hunter2" not in str(error)


def test_wrong_password_is_told_without_it(tmp_path: Path, postgresql: PostgreSQL) -> None:
    error = refused(tmp_path, postgresql.url("postgres").replace("cobweb-test", "hunter2"))
    assert "password authentication failed" in error.message
    assert "hunter2" not in str(error)


def test_missing_database_on_a_server_is_told(tmp_path: Path, postgresql: PostgreSQL) -> None:
    assert '"nowhere" does not exist' in refused(tmp_path, postgresql.url("nowhere")).message


def test_missing_driver_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "its extra `postgresql`" in refused(tmp_path, "postgresql://db/x").hint


def test_url_without_a_driver_means_psycopg(store: Store, url: str, tmp_path: Path) -> None:
    store.write([UP])
    with open_store(url.replace("+psycopg", ""), tmp_path) as again:
        assert list(again.states()) == ["h/a"]


def test_connection_that_was_cut_while_idle_is_made_anew(
    tmp_path: Path, postgresql: PostgreSQL, postgresql_url: Callable[[], str]
) -> None:
    with open_store(postgresql_url(), tmp_path) as store:
        store.write([UP])
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        assert list(store.states()) == ["h/a"]
        store.write([UP])


def test_server_may_hold_other_tables(
    tmp_path: Path, postgresql: PostgreSQL, postgresql_url: Callable[[], str]
) -> None:
    url = postgresql_url()
    schema = url.rpartition("%3D")[2]
    postgresql.execute(f"CREATE TABLE {schema}.songs (title text)")
    with open_store(url, tmp_path) as store:
        store.write([UP])
        assert list(store.states()) == ["h/a"]


def test_two_sites_share_a_server_in_schemas_of_their_own(
    tmp_path: Path, postgresql_url: Callable[[], str]
) -> None:
    with (
        open_store(postgresql_url(), tmp_path) as one,
        open_store(postgresql_url(), tmp_path) as two,
    ):
        one.write([UP])
        assert two.states() == {}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("", "the database cannot be used"),
        ("consuming input failed: ", "the database cannot be used: consuming input failed"),
        ("all failed:\n\n - host: no\nmore", "the database cannot be used: all failed: - host: no"),
        ("no way\nperhaps", "the database cannot be used: no way"),
    ],
)
def test_a_message_has_what_the_driver_says_and_no_colon_before_nothing(
    said: str, told: str
) -> None:
    database = Database(create_engine("sqlite://"), "the database", readonly=False)
    with pytest.raises(StoreError) as caught, database.errors():
        raise sqlite3.OperationalError(said)
    assert caught.value.message == told
