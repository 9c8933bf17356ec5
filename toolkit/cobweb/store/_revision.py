"""The revision of what is believed: a digest of all that a plan takes from the database.

It is worked out from the rows each time, never counted: whoever wrote them, by whatever version of
Cobweb or by hand, another belief is another revision. A row comes as one text, which is four times
as quick as making a record of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import reduce
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, select

from cobweb.generation import canonical_json
from cobweb.model import Results
from cobweb.store import _budgets
from cobweb.store._tables import COBS, GENERATIONS, HOSTS

_ROWS_AT_ONCE = 1000
_SEPARATOR = "\x1f"
"""Between columns: neither a name nor JSON has it."""

_COLUMNS: tuple[ColumnElement[Any], ...] = (
    COBS.c.id,
    COBS.c.state,
    COBS.c.content,
    func.coalesce("=" + COBS.c.applied, ""),
    func.coalesce(COBS.c.source + _SEPARATOR + COBS.c.dest, ""),
    case((COBS.c.served, "served"), else_=""),
)


def revision(connection: Connection, host_generations: Mapping[str, int], results: Results) -> str:
    """Return the digest of states, contents, results, lost hosts, their and the current generation.

    The book of budgets is in it.
    """
    found = hashlib.sha256()
    row = reduce(lambda one, other: one + _SEPARATOR + other, _COLUMNS)
    for rows in connection.scalars(select(row).order_by(COBS.c.id)).partitions(_ROWS_AT_ONCE):
        found.update("".join(f"{text}\n" for text in rows).encode())
    lost = connection.scalars(select(HOSTS.c.name).where(~HOSTS.c.reachable).order_by(HOSTS.c.name))
    newest = connection.scalar(select(func.max(GENERATIONS.c.id)))
    found.update(repr((list(lost), newest, sorted(host_generations.items()))).encode())
    found.update(canonical_json(results).encode())
    found.update(repr(_budgets.book(connection)).encode())
    return found.hexdigest()
