"""Decisions in the database: documents of the kind `decision`, one row for each revision of a key.

A write gives all its keys the next revision of their section. What a section was at a revision are
the newest rows up to it, so that what an earlier site was made from can be read again. Of documents
of the kind `memory`, which are no part of the site, only the newest row of a key is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, bindparam, delete, func, select

from cobweb.errors import ConflictError
from cobweb.model import Decision, Decisions
from cobweb.store._tables import DOCUMENTS, GENERATIONS, json_text

DECISION, MEMORY = "decision", "memory"
_COLUMNS = DOCUMENTS.c
_VALUES = tuple(_COLUMNS[name] for name in Decision.__dataclass_fields__)


def _rows(section: str | None, *columns: Any, kind: str = DECISION) -> Select[Any]:
    chosen = select(*columns).where(_COLUMNS.kind == kind)
    return chosen if section is None else chosen.where(_COLUMNS.section == section)


def decisions(
    connection: Connection, section: str, at: int | None = None, kind: str = DECISION
) -> Decisions:
    """Return what a section has at a revision (None: now), and which revision that is."""
    chosen = _rows(section, *_VALUES, kind=kind).order_by(_COLUMNS.revision)
    chosen = chosen if at is None else chosen.where(_COLUMNS.revision <= at)
    newest = {row["key"]: row for row in connection.execute(chosen).mappings()}
    by_key = {key: _decision(row) for key, row in sorted(newest.items()) if row["body"] is not None}
    revision = max((row["revision"] for row in newest.values()), default=0)
    return Decisions(revision=revision, by_key=by_key)


def history(connection: Connection, section: str | None) -> tuple[Decision, ...]:
    """Return all that was decided in a section, or in any, and is kept, the newest first."""
    chosen = _rows(section, *_VALUES).order_by(_COLUMNS.revision.desc(), _COLUMNS.key)
    return tuple(map(_decision, connection.execute(chosen).mappings()))


def write(  # noqa: PLR0913  # what, on which ground, by whom, and of which kind
    connection: Connection,
    section: str,
    expected: int | None,
    bodies: Mapping[str, Any],
    common: Mapping[str, Any],
    *,
    kind: str = DECISION,
) -> int:
    """Store bodies by key as the next revision, with `common` in each row; return the revision.

    ConflictError where the section's revision is not the `expected` one (None: any). The caller
    sees to it that no other transaction is between the two.
    """
    found = connection.scalar(_rows(section, func.max(_COLUMNS.revision), kind=kind)) or 0
    if expected not in (None, found):
        raise ConflictError(section, expected, found)
    common = {**common, "kind": kind, "section": section, "revision": found + 1}
    rows = [
        {**common, "key": key, "body": None if body is None else json_text(body)}
        for key, body in sorted(bodies.items())
    ]
    if kind == MEMORY:
        mine = delete(DOCUMENTS).where(_COLUMNS.kind == kind, _COLUMNS.section == section)
        connection.execute(mine.where(_COLUMNS.key.in_(bodies)))
    if rows:
        connection.execute(DOCUMENTS.insert(), rows)
    return found + bool(rows)


def delete_unnamed(connection: Connection) -> None:
    """Delete the rows that no generation was made from, and none can be any more.

    A row is seen from its revision on until the next one of its key. Kept is what some generation
    saw, and what is replaced only later than all of them: a plan may name that.
    """
    named: dict[str, set[int]] = {}
    for revisions in connection.scalars(select(GENERATIONS.c.decisions)):
        for section, revision in revisions.items():
            named.setdefault(section, set()).add(revision)
    for section, seen in named.items():
        keys: dict[str, list[int]] = {}
        chosen = _rows(section, _COLUMNS.key, _COLUMNS.revision).order_by(_COLUMNS.revision)
        for key, revision in connection.execute(chosen):
            keys.setdefault(key, []).append(revision)
        gone = [
            {"of_key": key, "from_revision": since}
            for key, revisions in keys.items()
            for since, until in pairwise(revisions)
            if until <= max(seen) and not any(since <= it < until for it in seen)
        ]
        if gone:
            connection.execute(
                delete(DOCUMENTS).where(
                    _COLUMNS.kind == DECISION,
                    _COLUMNS.section == section,
                    _COLUMNS.key == bindparam("of_key"),
                    _COLUMNS.revision == bindparam("from_revision"),
                ),
                gone,
            )


def _decision(row: RowMapping) -> Decision:
    body = None if row["body"] is None else json.loads(row["body"])
    return Decision(**{**row, "body": body})
