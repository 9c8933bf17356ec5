"""From earlier formats of the tables to ours, and what a database of them says in its words.

Format 2 knows which generation was reached and which one each host is in. Format 1 had neither: a
whole run brought all hosts to the newest generation at once. So that is what its hosts are in, and
a database that is only read answers the same before it is upgraded as after. Format 3 keeps results
of tasks, and of a transition its attempt and who carries it out; format 4 the names that objects
had, and the book of budgets: who has served, slots, canaries, hosts that are given up. Before them
none of this is known. Format 5 keeps whose jobs may still be at work; before it these were taken
to be the ones whose end was never written.

The upgrade is part of the transaction that opens the database: a crash leaves one format or the
other. A run of an older Cobweb that is going on meanwhile is not disturbed, since all that is new
has a default.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, false, literal, select, text, update
from sqlalchemy.schema import CreateColumn

from cobweb.store._statements import Statements
from cobweb.store._tables import (
    CANARIES,
    COBS,
    FILES,
    FORMAT,
    GENERATIONS,
    HOSTS,
    META,
    RENAMES,
    RESULTS,
    RUNS,
    SLOTS,
)

OLDEST_FORMAT = 1
"""From this on formats are upgraded when they are to be written."""

RESULTS_SINCE = 3
"""The first format that has results."""

BUDGETS_SINCE = 4
"""The first format that has the book of budgets."""

AT_WORK_SINCE = 5
"""The first format that has the jobs at work."""

_ADDED_2 = (GENERATIONS.c.commit, GENERATIONS.c.reached, HOSTS.c.generation)
_ADDED_3 = (COBS.c.attempt, COBS.c.executor, COBS.c.known)
_ADDED_4 = (COBS.c.served, HOSTS.c.given_up)
_ADDED_5 = (COBS.c.at_work,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format1:
    """What a database of format 1 means: the newest generation, 0 for none, and its hosts."""

    newest: int = 0
    reached: float | None = None
    hosts: Iterable[str] = field(default=())

    def host_generations(self) -> Mapping[str, int]:
        """Return the generation of each host, by sorted name."""
        return dict.fromkeys(sorted(self.hosts), self.newest)


def format_1(connection: Connection) -> Format1:
    """Read what is new in format 2 out of the rest; a damaged generation tells of no host."""
    chosen = select(GENERATIONS.c.id, GENERATIONS.c.content)
    row = connection.execute(chosen.order_by(GENERATIONS.c.id.desc()).limit(1)).first()
    if row is None:
        return Format1()
    try:
        content = json.loads(zlib.decompress(row.content))
        hosts, objects = tuple(content["hosts"]), len(content["cobs"])
    except (KeyError, TypeError, ValueError, zlib.error):
        return Format1(newest=row.id)
    return Format1(newest=row.id, reached=_reached(connection, row.id, objects), hosts=hosts)


def cob_columns(found: int) -> list[ColumnElement[Any]]:
    """Return the columns of an object in a database of the format `found`, in our order."""
    missing: dict[str, ColumnElement[Any]] = {}
    if found < RESULTS_SINCE:
        missing |= {"attempt": literal(0), "executor": literal(""), "known": literal("")}
    if found < BUDGETS_SINCE:
        missing["served"] = false()
    if found < AT_WORK_SINCE:
        missing["at_work"] = COBS.c.dest.is_not(None)
    return [missing.get(column.name, column) for column in COBS.columns]


def upgrade(connection: Connection, found: int) -> None:
    """Make our format out of the format `found`, in the transaction of `connection`."""
    if found == OLDEST_FORMAT:
        _to_format_2(connection)
    if found < RESULTS_SINCE:
        _add(connection, _ADDED_3)
        RESULTS.create(connection)
    if found < BUDGETS_SINCE:
        _add(connection, _ADDED_4)
        SLOTS.create(connection)
        CANARIES.create(connection)
        RENAMES.create(connection)
    _add(connection, _ADDED_5)
    connection.execute(update(COBS).where(COBS.c.dest.is_not(None)).values(at_work=True))
    connection.execute(update(META).where(META.c.key == "format").values(value=str(FORMAT)))


def _add(connection: Connection, columns: Iterable[Column[Any]]) -> None:
    for column in columns:
        described = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {described}"))


def _to_format_2(connection: Connection) -> None:
    meaning = format_1(connection)
    _add(connection, _ADDED_2)
    FILES.create(connection)
    reached = update(GENERATIONS).where(GENERATIONS.c.id == meaning.newest)
    connection.execute(reached.values(reached=meaning.reached))
    rows = list(meaning.host_generations().items())
    switched = Statements(connection.dialect).switched
    switched.many_tuples(connection.connection.cursor(), rows)


def _reached(connection: Connection, generation: int, objects: int) -> float | None:
    """Return the end of the last run after which every object was where it should be."""
    chosen = select(RUNS.c.ended, RUNS.c.counts).where(
        RUNS.c.generation == generation, RUNS.c.result == "ok"
    )
    for ended, counts in connection.execute(chosen.order_by(RUNS.c.number.desc())):
        if json.loads(counts).get("settled") == objects:
            return float(ended)
    return None
