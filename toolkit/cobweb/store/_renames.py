"""Renames of objects: what is known of one goes on under another name, and the old one is kept."""

from __future__ import annotations

from sqlalchemy import Connection, select
from sqlalchemy.engine.interfaces import DBAPICursor

from cobweb.model import CobId
from cobweb.store._fold import Batch
from cobweb.store._statements import Statements
from cobweb.store._tables import RENAMES
from cobweb.store._values import CobRenamed


def renames(connection: Connection) -> tuple[CobRenamed, ...]:
    """Return all renames, by generation and old name."""
    chosen = select(RENAMES.c.old, RENAMES.c.new, RENAMES.c.generation)
    rows = connection.execute(chosen.order_by(RENAMES.c.generation, RENAMES.c.old))
    return tuple(
        CobRenamed(old=CobId(old), new=CobId(new), generation=generation)
        for old, new, generation in rows
    )


def write(cursor: DBAPICursor, statements: Statements, batch: Batch) -> None:
    """Rename the objects of a batch in all tables that have their ids."""
    pairs = [{"old_": it.old, "new_": it.new} for it in batch.renamed]
    for statement in statements.rename:
        statement.many(cursor, pairs)
    rows = [(it.old, it.generation, it.new) for it in batch.renamed]
    statements.renamed.many_tuples(cursor, rows)
