"""Old runs go with their events, at once or not at all; the file shrinks, and others read on."""

from __future__ import annotations

import hashlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import LockedError, StoreError
from cobweb.model import CobId
from cobweb.store import (
    EventWritten,
    Generation,
    RunInfo,
    StateWritten,
    Store,
    open_store,
    this_process,
)

SQLITE = "sqlite:///state.db"
RUNS = 6
EVENTS = 30


def run_with(store: Store, info: RunInfo, number: int, events: int = EVENTS) -> None:
    """Store a run with events and a state of its own."""
    store.begin_run(replace(info, id=f"r{number}", started=float(number)))
    told = [EventWritten(seq=seq, time=1.0, type="x", data="{}") for seq in range(events)]
    state = StateWritten(cob=CobId(f"h/{number}"), state="up", reason="check", time=1.0)
    store.write([*told, state])


def fill(store: Store, info: RunInfo) -> None:
    """Store runs, and a generation with a file for each."""
    for number in range(1, RUNS + 1):
        run_with(store, info, number)
        content = f'{{"files":["{digest_of(str(number))}"]}}'
        saved = Generation(
            digest=digest_of(content), author="", time=1.0, message="", content=content
        )
        store.save_generation(saved, {digest_of(str(number)): str(number).encode()})


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def left(store: Store) -> dict[str, int]:
    """Return how many events each run has."""
    return {run.info.id: len(list(store.events(run.info.id))) for run in store.runs()}


def known(store: Store) -> tuple[Any, ...]:
    return store.states(), store.revision(), store.site_id()


def test_a_run_goes_with_its_events_and_leaves_what_it_found(
    store: Store, run_info: RunInfo
) -> None:
    fill(store, run_info)
    before = known(store)
    store.delete_history(runs=["r4", "r1", "never"])
    assert left(store) == dict.fromkeys(["r6", "r5", "r3", "r2"], EVENTS)
    assert (store.run("r4"), list(store.events("r4"))) == (None, [])
    assert known(store) == before
    run_with(store, run_info, 7)
    assert left(store) == dict.fromkeys(["r7", "r6", "r5", "r3", "r2"], EVENTS)


def test_the_newest_run_that_was_deleted_is_known(
    store: Store, run_info: RunInfo, url: str, tmp_path: Path
) -> None:
    assert store.newest_deleted_run() == ""
    fill(store, run_info)
    store.delete_history(generations=[1])
    assert store.newest_deleted_run() == ""
    for gone, newest in ((["r3", "r4"], "r4"), (["r1"], "r4"), (["r5"], "r5")):
        store.delete_history(runs=gone)
        assert store.newest_deleted_run() == newest
    with open_store(url, tmp_path) as another:
        assert another.newest_deleted_run() == "r5"


def test_history_is_fenced_by_the_site_lock(store: Store, run_info: RunInfo) -> None:
    fill(store, run_info)
    lock = store.site_lock(clock=lambda: 1.0)
    held = lock.acquire(this_process(run="r", reason="gc", since=1.0))
    lock.break_lock("r")
    with pytest.raises(LockedError):
        store.delete_history(runs=["r1"], generations=[1])
    held.release()
    assert (len(store.runs()), len(store.generations())) == (RUNS, RUNS)


def test_who_reads_a_run_that_is_deleted_is_told_and_gets_no_half_a_story(
    store: Store, run_info: RunInfo, url: str, tmp_path: Path
) -> None:
    run_with(store, run_info, 1, events=1500)
    run_with(store, run_info, 2)
    with open_store(url, tmp_path, create=False) as reader:
        events, other = reader.events("r1"), reader.events("r2")
        assert (next(events)["seq"], next(other)["seq"]) == (0, 0)
        store.delete_history(runs=["r1"])
        store.compact()
        with pytest.raises(StoreError, match="run r1 was deleted by `cobweb gc`") as caught:
            list(events)
        assert caught.value.hint == "`cobweb runs` lists those that are left"
        assert len(list(other)) == EVENTS - 1


def test_the_file_gets_smaller(tmp_path: Path, run_info: RunInfo) -> None:
    with open_store(SQLITE, tmp_path) as store:
        run_with(store, run_info, 1, events=20_000)
        run_with(store, run_info, 2)
        before = known(store)
        full = pages(tmp_path)
        store.delete_history(runs=["r1"])
        assert pages(tmp_path) == full
        store.compact()
        assert pages(tmp_path) < full / 4
        assert known(store) == before
        assert left(store) == {"r2": EVENTS}
    assert (tmp_path / "state.db").stat().st_size < full * 4096 / 4


def pages(folder: Path, pragma: str = "page_count") -> int:
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        found: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        return found


def test_a_file_of_which_little_is_free_stays_as_it_is(tmp_path: Path, run_info: RunInfo) -> None:
    with open_store(SQLITE, tmp_path) as store:
        run_with(store, run_info, 1, events=500)
        run_with(store, run_info, 2, events=20_000)
        store.delete_history(runs=["r1"])
        free = pages(tmp_path, "freelist_count")
        store.compact()
        assert pages(tmp_path, "freelist_count") == free > 0


def test_who_is_in_the_middle_of_reading_sees_what_was_and_is_not_waited_for(
    tmp_path: Path, run_info: RunInfo
) -> None:
    with open_store(SQLITE, tmp_path) as store:
        run_with(store, run_info, 1, events=20_000)
        run_with(store, run_info, 2)
        with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as reader:
            count = "SELECT count(*) FROM cobweb_events"
            reader.execute("BEGIN")
            assert reader.execute(count).fetchone() == (20_000 + EVENTS,)
            store.delete_history(runs=["r1"])
            store.compact()
            assert reader.execute(count).fetchone() == (20_000 + EVENTS,)
            reader.execute("COMMIT")
            assert reader.execute(count).fetchone() == (EVENTS,)
        assert left(store) == {"r2": EVENTS}


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
with open_store(url, folder) as store:
    for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, moment, die_at_last)
    @event.listens_for(Engine, "checkout")  # what VACUUM does is no statement of SQLAlchemy
    def count_steps(connection, *_):
        if hasattr(connection, "set_progress_handler"):
            connection.set_progress_handler(die_at_last, 1500)
    CALL
"""
DELETE = 'store.delete_history(runs=["r1", "r3"], generations=[1, 2])'


def killed_at(url: str, folder: Path, moment: int, call: str) -> int:
    """Call something of a store in a process that dies at a moment, and return its code."""
    program = KILLED.replace("CALL", call)
    arguments = [sys.executable, "-c", program, url, str(folder), str(moment)]
    code = subprocess.run(arguments, check=False).returncode
    assert code in (0, -signal.SIGKILL)
    return code


def is_gone(store: Store) -> bool:
    """Say whether the deletion was made; it is so as a whole or not at all."""
    generations = [info.id for info in store.generations()]
    if left(store) == dict.fromkeys(["r6", "r5", "r4", "r2"], EVENTS):
        assert generations == [6, 5, 4, 3]
        assert [store.file(digest_of(it)) for it in "123"] == [None, None, b"3"]
        assert store.newest_deleted_run() == "r3"
        return True
    assert left(store) == {f"r{number}": EVENTS for number in range(RUNS, 0, -1)}
    assert generations == [6, 5, 4, 3, 2, 1]
    assert [store.file(digest_of(it)) for it in "12"] == [b"1", b"2"]
    assert store.newest_deleted_run() == ""
    return False


@pytest.mark.full("a kill at each statement; the gate has kills of a writer")
@pytest.mark.timeout(300)
def test_a_deletion_that_is_killed_at_any_moment_was_made_or_not(
    url: str, tmp_path: Path, run_info: RunInfo
) -> None:
    with open_store(url, tmp_path) as store:
        fill(store, run_info)
        before = known(store)
    gone, moment = False, 0
    while not gone:
        moment += 1
        code = killed_at(url, tmp_path, moment, DELETE)
        with open_store(url, tmp_path) as store:
            assert known(store) == before
            gone = is_gone(store)
        assert gone or code != 0
    assert moment > 15, "the moments are those of the deletion"


@pytest.mark.full("a kill at each step; the gate has kills of a writer")
@pytest.mark.timeout(300)
def test_a_file_whose_compaction_is_killed_at_any_moment_holds_the_same(
    tmp_path: Path, run_info: RunInfo
) -> None:
    with open_store(SQLITE, tmp_path) as store:
        run_with(store, run_info, 1, events=8000)
        run_with(store, run_info, 2, events=3000)
        store.delete_history(runs=["r1"])
        before = known(store)
    full = pages(tmp_path)
    code, moment, folder = -1, 0, tmp_path
    while code != 0:
        moment += 1
        folder = tmp_path / str(moment)
        folder.mkdir()
        shutil.copy(tmp_path / "state.db", folder)
        code = killed_at(SQLITE, folder, moment, "store.compact()")
        with closing(sqlite3.connect(folder / "state.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        with open_store(SQLITE, folder) as store:
            assert known(store) == before
            assert left(store) == {"r2": 3000}
        assert code == 0 or pages(folder) == full
    assert pages(folder) < full * 2 / 3
    assert moment > 5, "the moments are those of the compaction"
