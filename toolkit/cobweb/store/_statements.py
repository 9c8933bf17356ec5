"""The statements that write a batch, compiled once and given plain tuples.

SQLAlchemy Core makes them, so the tables are described in one place; their texts go to the driver's
cursor. A batch is small more often than not, and all that stands between costs several times what
the database does with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, Dialect, Table, and_, bindparam, delete, false, func, select, update
from sqlalchemy.engine.interfaces import DBAPICursor

from cobweb.store._tables import (
    CANARIES,
    COBS,
    EVENTS,
    GRANTS,
    HOSTS,
    RENAMES,
    RESULTS,
    SITE_LOCK,
    SLOTS,
)

_IDS_OF_COBS = (COBS.c.id, GRANTS.c.cob, GRANTS.c.holder, SLOTS.c.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An SQL text and the names of its parameters, in their order."""

    text: str
    names: tuple[str, ...]

    def many(self, cursor: DBAPICursor, rows: Iterable[Mapping[str, Any]]) -> None:
        """Carry it out for each row, which has a value for each name."""
        pick = itemgetter(*self.names)
        self.many_tuples(cursor, [pick(row) for row in rows])

    def many_tuples(self, cursor: DBAPICursor, rows: Sequence[tuple[Any, ...]]) -> None:
        """Carry it out for each row, a tuple in the order of `names`."""
        if rows:
            cursor.executemany(self.text, rows)


def write_or_delete(
    cursor: DBAPICursor, write: Statement, drop: Statement, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Write the rows that end in a value; delete, by their first two, those that end in None."""
    write.many_tuples(cursor, [row for row in rows if row[-1] is not None])
    drop.many_tuples(cursor, [row[:2] for row in rows if row[-1] is None])


@cache
def statements_of(dialect: str) -> Statements:
    """Return the statements of `postgresql` or `sqlite`: the same for all stores of a process."""
    return Statements(dialect)


class Statements:
    """The statements of one dialect; compiling them takes 10 ms."""

    def __init__(self, dialect: str) -> None:
        self._is_postgresql = dialect == "postgresql"
        self._sql: Any = import_module(f"sqlalchemy.dialects.{dialect}")  # each takes a while
        style = "format" if self._is_postgresql else "qmark"
        self._dialect: Dialect = self._sql.dialect(paramstyle=style)
        self._cobs: dict[frozenset[str], Statement] = {}
        owner = select(SITE_LOCK.c.run).where(SITE_LOCK.c.id == bindparam("id"))
        self.fence = self._compiled(owner.with_for_update()).text
        self.grant = self._upsert(GRANTS, ("cob", "holder", "state"))
        self.ungrant = self._delete(GRANTS.c.cob, GRANTS.c.holder)
        self.host = self._upsert(HOSTS, ("name", "reachable", "since"))
        self.switched = self._upsert(HOSTS, ("name", "generation"))
        self.given_up = self._upsert(HOSTS, ("name", "given_up"))
        self.served = self._upsert(COBS, ("id", "served"))
        self.still = self._compiled(
            update(COBS).where(COBS.c.id == bindparam("cob_")).values(at_work=false())
        )
        self.slot = self._upsert(SLOTS, ("limit", "unit", "run", "since"))
        self.drop_slot = self._delete(SLOTS.c.limit, SLOTS.c.unit)
        self.canary = self._upsert(CANARIES, CANARIES.columns.keys())
        self.last_canary = self._compiled(select(func.max(CANARIES.c.seq))).text
        self.forget = tuple(map(self._delete, _IDS_OF_COBS))
        self.rename = tuple(
            self._compiled(
                update(column.table)
                .where(column == bindparam("old_"))
                .values({column: bindparam("new_")})
            )
            for column in _IDS_OF_COBS
        )
        self.renamed = self._upsert(RENAMES, ("old", "generation", "new"))
        self.result = self._upsert(RESULTS, ("host", "key", "value"))
        self.drop_result = self._delete(RESULTS.c.host, RESULTS.c.key)
        self.forget_host = tuple(map(self._delete, (HOSTS.c.name, RESULTS.c.host, SLOTS.c.unit)))
        event = self._sql.insert(EVENTS)
        self._event = self._compiled(event)
        self._event_again = self._compiled(event.on_conflict_do_nothing())
        self._copy = f"COPY {EVENTS.name} ({', '.join(EVENTS.columns.keys())}) FROM STDIN"

    def cobs(self, names: frozenset[str]) -> Statement:
        """Return the upsert that sets the columns `names` of an object, and its run."""
        found = self._cobs.get(names)
        if found is None:
            found = self._cobs[names] = self._upsert(COBS, ("id", "run", *sorted(names)))
        return found

    def write_events(
        self, cursor: Any, rows: Sequence[tuple[Any, ...]], *, again: bool = False
    ) -> None:
        """Add events, tuples of all columns; PostgreSQL takes them three times as fast by COPY.

        With `again` those that are there already stay as they are.
        """
        if again:
            self._event_again.many_tuples(cursor, rows)
        elif not self._is_postgresql:
            self._event.many_tuples(cursor, rows)
        elif rows:
            with cursor.copy(self._copy) as copy:
                for row in rows:
                    copy.write_row(row)

    def _upsert(self, table: Table, names: Sequence[str]) -> Statement:
        statement = self._sql.insert(table).values({name: bindparam(name) for name in names})
        keys = [column.name for column in table.primary_key]
        changed = {name: statement.excluded[name] for name in names if name not in keys}
        if table is COBS and "run" in names and "failed" not in names:
            # That something failed is true of the run in which it did.
            changed["failed"] = and_(COBS.c.failed, COBS.c.run == statement.excluded.run)
        return self._compiled(statement.on_conflict_do_update(index_elements=keys, set_=changed))

    def _delete(self, *columns: Column[str]) -> Statement:
        """Return the statement that deletes rows by these columns of one table."""
        wanted = (column == bindparam(f"{column.name}_") for column in columns)
        return self._compiled(delete(columns[0].table).where(*wanted))

    def _compiled(self, statement: Any) -> Statement:
        compiled: Any = statement.compile(dialect=self._dialect)
        return Statement(text=str(compiled), names=tuple(compiled.positiontup or ()))
