"""Nothing leaves a run before its batch is committed; and what a batch costs, in counted steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from cobweb.model import Graph, JobKind
from cobweb.operations import Ending
from cobweb.store import Entry, RunInfo, Store, open_store
from tests.support.graphs import graph_of

UP = {"alpha/a": "up", "beta/b": "up", "alpha/cfg": "outdated"}
INFO = RunInfo(id="r1", command="apply", started=0.0, user="ann", host="here", pid=1)
FULL = 2
"""`PRAGMA synchronous`: a commit has been flushed to the disk when it returns."""

Rig = Any


@dataclass
class Spy:
    """What went through the one connection of a store; it can let a commit fail."""

    commits: int = 0
    statements: int = 0
    fail_at: int | None = None
    connection: sqlite3.Connection | None = None

    def attach(self, store: Store) -> None:
        """Have the store connect through this spy from now on."""
        spy, engine = self, store._database.engine

        class Watched(sqlite3.Connection):
            def commit(self) -> None:
                spy.commits += 1
                if spy.commits == spy.fail_at:
                    raise sqlite3.OperationalError("disk I/O error")
                super().commit()

        @event.listens_for(engine, "do_connect")
        def connect(_dialect: Any, _record: Any, _args: Any, parameters: dict[str, Any]) -> None:
            parameters["factory"] = Watched

        @event.listens_for(engine, "connect")
        def connected(connection: sqlite3.Connection, _record: Any) -> None:
            spy.connection = connection
            connection.set_trace_callback(spy.count)

        engine.dispose()

    def count(self, _statement: str) -> None:
        """Count a statement; one with many rows counts once for each."""
        self.statements += 1


@dataclass
class Onlooker:
    """Another process, as it were: it sees only what is committed."""

    file: Path
    seen: list[str] = field(default_factory=list)

    def __call__(self, kind: str, what: Any) -> None:
        """Look up in the database what has just left the run."""
        with sqlite3.connect(self.file) as database:
            if kind == "event":
                asked = "SELECT type FROM cobweb_events WHERE seq = ?", (what["seq"],)
                assert database.execute(*asked).fetchone() == (what["type"],)
            elif kind == "submit" and what.kind is JobKind.TRANSITION:
                asked = "SELECT source, dest FROM cobweb_cobs WHERE id = ?", (what.cob,)
                assert database.execute(*asked).fetchone() == (what.source, what.dest)
        self.seen.append(kind)


class Happened(list[tuple[str, Any]]):
    """What happened, each thing looked at when it does."""

    def __init__(self, look: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._look = look

    def append(self, happened: tuple[str, Any]) -> None:
        self._look(*happened)
        super().append(happened)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store("sqlite:///state.db", tmp_path) as opened:
        yield opened


def journalled(run: Rig, store: Store, look: Callable[[str, Any], None]) -> Rig:
    """Let a rig write to a real store, and have looked at all that leaves it."""
    run.tape.happened = Happened(look)
    run.tape.write = store.write
    store.begin_run(INFO)
    return run


def test_what_leaves_a_run_is_committed_and_flushed_before(
    rig: Callable[..., Rig], figure: Callable[..., Graph], store: Store, tmp_path: Path
) -> None:
    spy, look = Spy(), Onlooker(tmp_path / "state.db")
    spy.attach(store)
    assert journalled(rig(figure(), states=dict(UP)), store, look).go().ending is Ending.OK
    assert look.seen.count("submit") > 0
    assert look.seen.count("event") > look.seen.count("submit")
    assert spy.connection is not None
    assert spy.connection.execute("PRAGMA synchronous").fetchone() == (FULL,)
    assert spy.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("fail_at", range(2, 9))  # in the last one all is done already
def test_what_was_not_committed_never_leaves(
    rig: Callable[..., Rig],
    figure: Callable[..., Graph],
    store: Store,
    tmp_path: Path,
    fail_at: int,
) -> None:
    spy, look = Spy(fail_at=fail_at), Onlooker(tmp_path / "state.db")
    spy.attach(store)
    run = journalled(rig(figure(), states=dict(UP)), store, look)
    result = run.go()
    assert result.ending is (Ending.FAILED if result.waits else Ending.OK)
    assert ("cannot be used" in result.stopped) == bool(result.waits)
    assert spy.commits == fail_at + 1, "nothing new is begun, and the end is stored"
    told = [what["seq"] for kind, what in run.tape.happened if kind == "event"]
    with sqlite3.connect(tmp_path / "state.db") as database:
        stored = [seq for (seq,) in database.execute("SELECT seq FROM cobweb_events ORDER BY seq")]
        begun = database.execute("SELECT id FROM cobweb_cobs WHERE dest IS NOT NULL").fetchall()
    assert told == stored
    assert begun == [], "what was about to start is not taken for begun"


def chains(hosts: int) -> Graph:
    """Return a chain of three objects on each host, each after that of the host before."""
    ids = [f"h{host:03d}/{name}" for host in range(hosts) for name in ("a", "b", "c")]
    needs = [f"h{host:03d}/b down>up h{host:03d}/a up" for host in range(hosts)]
    needs += [f"h{host:03d}/c down>up h{host:03d}/b up" for host in range(hosts)]
    needs += [f"h{host:03d}/a down>up h{host - 1:03d}/a up" for host in range(1, hosts)]
    return graph_of(" ".join(ids), *needs)


def test_a_very_large_batch_is_written_in_parts_and_nothing_else_changes(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rig(chains(20), parallel=1000)
    assert whole.go().ending is Ending.OK
    monkeypatch.setattr("cobweb.kernel._kernel._LARGEST_BATCH", 10)
    parts = rig(chains(20), parallel=1000)
    assert parts.go().ending is Ending.OK
    assert parts.tape.batches > whole.tape.batches

    def but_batches(run: Rig) -> list[Any]:
        return [happened for happened in run.tape.happened if happened[0] != "journal"]

    def written(run: Rig) -> list[Entry]:
        return [entry for kind, what in run.tape.happened if kind == "journal" for entry in what]

    assert but_batches(parts) == but_batches(whole)
    assert {type(entry) for entry in written(parts)} == {type(entry) for entry in written(whole)}
    assert sorted(map(repr, written(parts))) == sorted(map(repr, written(whole)))


def test_the_lease_is_looked_after_between_the_parts_of_a_large_round(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobweb.kernel._kernel._LARGEST_BATCH", 10)
    run = rig(chains(20), parallel=1000)
    run.setting["beat"] = lambda: run.tape.happened.append(("beat", None))
    assert run.go().ending is Ending.OK
    kinds = [kind for kind, _ in run.tape.happened if kind in ("journal", "beat")]
    assert kinds.count("beat") >= kinds.count("journal") - 2  # but for the begin and the end


def test_reports_that_were_not_taken_are_named_when_a_part_cannot_be_stored(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobweb.kernel._kernel._LARGEST_BATCH", 10)
    run = rig(chains(20), parallel=1000)
    run.tape.fail_at = 2
    with pytest.raises(OSError, match="No space") as caught:
        run.go()
    notes = caught.value.__notes__
    checks = [job for _, job in run.tape.happened if _ == "submit"]
    assert 0 < len(notes) < len(checks)
    assert set(notes) <= {f"stopped in the middle: {job.cob}: check" for job in checks}


def cost_of(rig: Callable[..., Rig], hosts: int, folder: Path) -> dict[str, int]:
    """Return what a run over `hosts` hosts asks of the journal and of the clock."""
    folder.mkdir()
    spy, batches, looks = Spy(), [0], [0]
    with open_store("sqlite:///state.db", folder) as store:
        spy.attach(store)
        run = journalled(rig(chains(hosts), parallel=5), store, lambda _kind, _what: None)
        before, clock = spy.statements, run.executor.now

        def write(entries: Sequence[Entry]) -> None:
            batches[0] += 1
            store.write(entries)

        def now() -> float:
            looks[0] += 1
            return float(clock())

        run.tape.write, run.executor.now = write, now
        assert run.go().ending is Ending.OK
        events = len([kind for kind, _ in run.tape.happened if kind == "event"])
        jobs = len(run.executor.jobs)
    return {
        "batches": batches[0],
        "commits": spy.commits - 1,  # of `begin_run`
        "statements": spy.statements - before,
        "looks": looks[0],
        "events": events,
        "jobs": jobs,
    }


def test_a_run_costs_the_journal_a_few_statements_per_event_and_a_commit_per_round(
    rig: Callable[..., Rig], tmp_path: Path
) -> None:
    small, large = cost_of(rig, 10, tmp_path / "small"), cost_of(rig, 40, tmp_path / "large")
    for cost in (small, large):
        assert cost["commits"] == cost["batches"]
        assert cost["batches"] <= cost["jobs"] + 1
        assert cost["statements"] <= 2 * cost["events"] + 3 * cost["batches"]
        assert cost["looks"] <= 5 * cost["batches"]
    assert large["statements"] <= 1.05 * 4 * small["statements"]
    assert large["looks"] <= 1.05 * 4 * small["looks"]
