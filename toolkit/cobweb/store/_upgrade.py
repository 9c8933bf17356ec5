"""From format 1 of the tables to format 2, and what a database of format 1 says in its words.

Format 2 knows which generation was reached and which one each host is in. Format 1 had neither: a
whole run brought all hosts to the newest generation at once. So that is what its hosts are in, and
a database that is only read answers the same before it is upgraded as after.

The upgrade is part of the transaction that opens the database: a crash leaves one format or the
other. A run of an older Cobweb that is going on meanwhile is not disturbed, since all that is new
has a default.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select, text, update
from sqlalchemy.schema import CreateColumn

from cobweb.store._statements import Statements
from cobweb.store._tables import FILES, FORMAT, GENERATIONS, HOSTS, META, RUNS

__all__ = ["OLD_FORMAT", "Format1", "format_1", "upgrade"]

OLD_FORMAT = 1
"""What is upgraded when it is to be written."""

_ADDED = (GENERATIONS.c.commit, GENERATIONS.c.reached, HOSTS.c.generation)


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


def upgrade(connection: Connection) -> None:
    """Make format 2 out of format 1, in the transaction of `connection`."""
    meaning = format_1(connection)
    for column in _ADDED:
        described = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {described}"))
    FILES.create(connection)
    reached = update(GENERATIONS).where(GENERATIONS.c.id == meaning.newest)
    connection.execute(reached.values(reached=meaning.reached))
    rows = list(meaning.host_generations().items())
    switched = Statements(connection.dialect).switched
    switched.many_tuples(connection.connection.cursor(), rows)
    connection.execute(update(META).where(META.c.key == "format").values(value=str(FORMAT)))


def _reached(connection: Connection, generation: int, objects: int) -> float | None:
    """Return the end of the last run after which every object was where it should be."""
    chosen = select(RUNS.c.ended, RUNS.c.counts).where(
        RUNS.c.generation == generation, RUNS.c.result == "ok"
    )
    for ended, counts in connection.execute(chosen.order_by(RUNS.c.number.desc())):
        if json.loads(counts).get("settled") == objects:
            return float(ended)
    return None
