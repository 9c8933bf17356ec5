"""The book of budgets: who has served, slots, canaries and hosts given up (design, section 5b).

All of it belongs to units, not to runs: a new run, also of another generation, starts with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, select
from sqlalchemy.engine.interfaces import DBAPICursor

from cobweb.store._fold import Batch
from cobweb.store._statements import Statements
from cobweb.store._tables import CANARIES, HOSTS, SLOTS


def slots(connection: Connection) -> list[tuple[str, str]]:
    """Return the slots that are lent as (limit, unit), sorted."""
    rows = connection.execute(select(SLOTS.c.limit, SLOTS.c.unit))
    return sorted((limit, unit) for limit, unit in rows)


def canaries(connection: Connection, generation: int) -> list[tuple[str, list[str], bool]]:
    """Return the canaries for a generation as (limit, units, through), sorted."""
    chosen = select(CANARIES.c.limit, CANARIES.c.units, CANARIES.c.through)
    rows = connection.execute(chosen.where(CANARIES.c.generation == generation))
    return sorted((limit, json.loads(units), through) for limit, units, through in rows)


def given_up(connection: Connection) -> list[str]:
    """Return the hosts that are given up, sorted."""
    return sorted(connection.scalars(select(HOSTS.c.name).where(HOSTS.c.given_up)))


def book(connection: Connection, generation: int) -> tuple[list[Any], ...]:
    """Return what a plan for `generation` takes from the book, but for who has served."""
    return slots(connection), canaries(connection, generation), given_up(connection)


def delete_canaries(connection: Connection, generations: Sequence[int]) -> None:
    """Delete the canaries for these generations."""
    connection.execute(delete(CANARIES).where(CANARIES.c.generation.in_(generations)))


def write(cursor: DBAPICursor, statements: Statements, batch: Batch, *, run: str) -> None:
    """Write what a batch says of the book; `run` is who lends the slots."""
    statements.served.many_tuples(cursor, [(cob, True) for cob in batch.served])
    statements.given_up.many_tuples(cursor, list(batch.given_up.items()))
    rows = [(limit, unit, at) for unit, of in batch.slots.items() for limit, at in of.items()]
    lent = [(limit, unit, run, at) for limit, unit, at in rows if at is not None]
    statements.slot.many_tuples(cursor, lent)
    gone = [(limit, unit) for limit, unit, at in rows if at is None]
    statements.drop_slot.many_tuples(cursor, gone)
    found = [
        (limit, generation, json.dumps(sorted(units)), through)
        for limit, (generation, units, through) in batch.canaries.items()
    ]
    statements.canary.many_tuples(cursor, found)
