"""The book of budgets: who has served, slots, canaries and hosts given up (design, section 5b).

All of it belongs to units, not to runs: a new run, also of another generation, starts with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, and_, delete, func, select, tuple_
from sqlalchemy.engine.interfaces import DBAPICursor

from cobweb.store._fold import Batch
from cobweb.store._statements import Statements, write_or_delete
from cobweb.store._tables import CANARIES, HOSTS, SLOTS
from cobweb.store._values import CanaryWritten


def slots(connection: Connection) -> list[tuple[str, str]]:
    """Return the slots that are lent as (limit, unit), sorted."""
    rows = connection.execute(select(SLOTS.c.limit, SLOTS.c.unit))
    return sorted((limit, unit) for limit, unit in rows)


def canaries(connection: Connection) -> list[CanaryWritten]:
    """Return what is known of canaries: by limit, what was written last first."""
    columns = (CANARIES.c[it.name] for it in fields(CanaryWritten))
    order = (CANARIES.c.limit, CANARIES.c.seq.desc(), CANARIES.c.contents)
    rows = connection.execute(select(*columns).order_by(*order)).mappings()
    return [CanaryWritten(**{**row, "units": tuple(json.loads(row["units"]))}) for row in rows]


def given_up(connection: Connection) -> list[str]:
    """Return the hosts that are given up, sorted."""
    return sorted(connection.scalars(select(HOSTS.c.name).where(HOSTS.c.given_up)))


def book(connection: Connection) -> tuple[list[Any], ...]:
    """Return what a plan takes from the book, but for who has served."""
    return slots(connection), canaries(connection), given_up(connection)


def delete_canaries(connection: Connection, generations: Sequence[int]) -> None:
    """Delete the canaries for these generations but the last one of each limit.

    It may be about the contents of a later generation, too.
    """
    last = select(CANARIES.c.limit, func.max(CANARIES.c.seq)).group_by(CANARIES.c.limit)
    which = tuple_(CANARIES.c.limit, CANARIES.c.seq)
    gone = and_(CANARIES.c.generation.in_(generations), which.not_in(last))
    connection.execute(delete(CANARIES).where(gone))


def write(cursor: DBAPICursor, statements: Statements, batch: Batch, *, run: str) -> None:
    """Write what a batch says of the book; `run` is who lends the slots."""
    statements.served.many_tuples(cursor, [(cob, True) for cob in batch.served])
    statements.given_up.many_tuples(cursor, list(batch.given_up.items()))
    rows = [(limit, unit, run, at) for unit, of in batch.slots.items() for limit, at in of.items()]
    write_or_delete(cursor, statements.slot, statements.drop_slot, rows)
    for it in batch.canaries:
        cursor.execute(statements.last_canary)
        (last,) = cursor.fetchone() or (None,)
        units = json.dumps(sorted(it.units))
        row = (it.limit, it.contents, it.generation, units, it.through, it.covers, (last or 0) + 1)
        statements.canary.many_tuples(cursor, [row])
