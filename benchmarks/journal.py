"""The journal, written ahead: events a second as a run records them, beside the bare database.

The rounds of a run are taken on tape and played again: all at once as many as reports may come
together. The limit is what the database alone does with the same rows in the same transactions.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks._postgresql import MISSING, server
from benchmarks._row import Cost, Row, cost
from benchmarks._tape import Round, merged, play, rounds_of_a_run
from cobweb.kernel._events import EventPublisher
from cobweb.kernel._record import Record
from cobweb.store import RunInfo, open_store
from cobweb.store._statements import Statement, Statements

__all__ = ["measure"]

TARGET = 20_000.0
TOGETHER = (1, 10, 100)
TIMES = 3
MOST_ROUNDS = 1000
CHECKS = 2
"""How many rounds at the start tell of all the checks at once; they are no measure of others."""

FSYNCS = 500
PAGES = 8

Rows = Sequence[tuple[Any, ...]]
Sent = tuple[Callable[[Any, Rows], None], Rows]
"""What carries a statement out with a cursor, and the rows that it is carried out for."""

Transaction = Sequence[Sent]


def measure(size: str) -> Iterator[Row]:
    """Yield events a second and CPU per event, on SQLite and on PostgreSQL."""
    rounds = rounds_of_a_run(200 if size == "full" else 5)[CHECKS:]
    with tempfile.TemporaryDirectory(dir=_disk()) as folder:
        yield _fsync_row(Path(folder))
        for together in TOGETHER:
            played = list(merged(rounds, together))[:MOST_ROUNDS]
            yield from _sqlite_rows(Path(folder), played, together)
    with server() as made:
        if made is None:
            yield Row(what="events/s, PostgreSQL", missing=MISSING)
            return
        for together in TOGETHER:
            played = list(merged(rounds, together))[:MOST_ROUNDS]
            yield from _postgresql_rows(made, played, together)


def _disk() -> Path:
    """Return a folder on a disk: a file system in memory has nothing to wait for."""
    folder = Path(__file__).resolve().parents[1] / "build"
    folder.mkdir(exist_ok=True)
    return folder


def _fsync_row(folder: Path) -> Row:
    file = os.open(folder / "fsync", os.O_CREAT | os.O_WRONLY)
    with cost() as spent:
        for number in range(FSYNCS):
            os.pwrite(file, b"x" * 4096 * PAGES, number * 4096 * PAGES)
            os.fdatasync(file)
    os.close(file)
    note = f"{PAGES * 4} KiB appended each time; a commit needs one"
    return Row(what="fsyncs of this disk", value=FSYNCS / spent.wall_s, unit="/s", note=note)


def _sqlite_rows(folder: Path, rounds: Sequence[Round], together: int) -> Iterator[Row]:
    def url(name: str) -> str:
        return f"sqlite:///{name}{together}.db"

    def bare(name: str, tape: Sequence[Transaction]) -> Cost:
        return _bare(folder / f"{name}{together}.db", tape)

    yield from _compare("SQLite", (url, folder, bare), rounds, together)


def _postgresql_rows(base: str, rounds: Sequence[Round], together: int) -> Iterator[Row]:
    import psycopg

    plain = base.replace("+psycopg", "")

    def url(name: str) -> str:
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}{together}".encode())
        return f"{base}&options=-csearch_path%3D{name}{together}"

    def bare(name: str, tape: Sequence[Transaction]) -> Cost:
        at = f"{plain}&options=-csearch_path%3D{name}{together}"
        with psycopg.connect(at) as connection:
            return _through(connection.cursor(), tape, connection.commit)

    yield from _compare("PostgreSQL", (url, Path(), bare), rounds, together)


Place = tuple[Callable[[str], str], Path, Callable[[str, Sequence[Transaction]], Cost]]
"""The URL of a database by its name, the folder that it is in, and what fills one without us."""


def _compare(kind: str, place: Place, rounds: Sequence[Round], together: int) -> Iterator[Row]:
    """Play the rounds to fresh databases, ours and bare by turns, and take the median of each."""
    url, folder, bare = place
    tape = _taped(url("taped"), folder, rounds)
    ours, others, events = [], [], 0
    for time in range(TIMES):
        spent, events = _play(url(f"ours{time}_"), folder, rounds)
        ours.append(spent)
        with open_store(url(f"bare{time}_"), folder) as store:
            store.begin_run(_INFO)
        others.append(bare(f"bare{time}_", tape))
    costs = _middle(ours), _middle(others)
    yield from _rows(kind, costs, (events, len(rounds)), together)


def _middle(costs: Sequence[Cost]) -> Cost:
    """Return the median of both figures, each for itself."""
    return Cost(
        cpu_s=median(spent.cpu_s for spent in costs), wall_s=median(spent.wall_s for spent in costs)
    )


def _rows(
    name: str, costs: tuple[Cost, Cost], counts: tuple[int, int], together: int
) -> Iterator[Row]:
    (ours, bare), (events, rounds) = costs, counts
    how = "one report a round" if together == 1 else f"{together} reports a round"
    peer = f"bare {name}, same rows and transactions"
    yield Row(
        what=f"events/s, {name}, {how}",
        value=events / ours.wall_s,
        unit="/s",
        peer=peer,
        peer_value=events / bare.wall_s,
        target=TARGET if together > 1 else None,
        more_is_better=True,
        note=f"{events} events in {rounds} transactions, {events / rounds:.0f} each",
    )
    yield Row(
        what=f"CPU per event, {name}, {how}",
        value=ours.cpu_s / events * 1e6,
        unit="us",
        peer=peer,
        peer_value=bare.cpu_s / events * 1e6,
    )


_INFO = RunInfo(id="bench", command="apply", started=0.0, user="u", host="h", pid=1, generation=1)


def _play(url: str, folder: Path, rounds: Sequence[Round]) -> tuple[Cost, int]:
    """Play the rounds to a store and return what that took, and how many events it has then."""
    with open_store(url, folder) as store:
        store.begin_run(_INFO)
        record = Record(store, EventPublisher([], lambda: 1.5))
        with cost() as spent:
            play(rounds, record)
        return spent, sum(1 for _ in store.events(_INFO.id))


def _taped(url: str, folder: Path, rounds: Sequence[Round]) -> Sequence[Transaction]:
    """Return what the store sends to its database, one list for each round."""
    transactions: list[list[Sent]] = []
    send, send_events = Statement.many_tuples, Statements.write_events

    def noted(statement: Statement, cursor: Any, rows: Rows) -> None:
        if rows:
            transactions[-1].append((partial(send, statement), rows))
        send(statement, cursor, rows)

    def noted_events(
        statements: Statements, cursor: Any, rows: Rows, *, again: bool = False
    ) -> None:
        if hasattr(cursor, "copy"):  # no statement then
            transactions[-1].append((partial(send_events, statements), rows))
        send_events(statements, cursor, rows, again=again)

    with (
        open_store(url, folder) as store,
        patch.object(Statement, "many_tuples", noted),
        patch.object(Statements, "write_events", noted_events),
    ):
        store.begin_run(_INFO)
        record = Record(store, EventPublisher([], lambda: 1.5))
        for calls in rounds:
            transactions.append([])
            play([calls], record)
    return transactions


def _bare(file: Path, transactions: Sequence[Transaction]) -> Cost:
    connection = sqlite3.connect(file)
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=FULL")
    begin = "BEGIN IMMEDIATE"
    cursor = connection.cursor()
    spent = _through(cursor, transactions, lambda: cursor.execute("COMMIT"), begin)
    connection.close()
    return spent


def _through(
    cursor: Any, transactions: Sequence[Transaction], commit: Callable[[], Any], begin: str = ""
) -> Cost:
    """Send the same statements with nothing between us and the driver."""
    with cost() as spent:
        for statements in transactions:
            if begin:
                cursor.execute(begin)
            for carry_out, rows in statements:
                carry_out(cursor, rows)
            commit()
    return spent
