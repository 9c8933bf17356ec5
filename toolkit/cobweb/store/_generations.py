"""Generations in the database: their contents, what is told of them without, and kept files.

A content is checked against its digest whenever it is read, so that nobody acts on a damaged one.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, select, update

from cobweb.errors import StoreError
from cobweb.store._tables import FILES, GENERATIONS
from cobweb.store._values import Generation, GenerationFacts, GenerationInfo

_PARTS = tuple(field.name for field in fields(GenerationFacts))
_INFOS = select(*(GENERATIONS.c[name] for name in _PARTS)).order_by(GENERATIONS.c.id.desc())
_WHOLE = _INFOS.add_columns(GENERATIONS.c.content)
_DIGEST = re.compile(r'"([0-9a-f]{64})"')

_HINT = (
    "restore a backup; without one, `cobweb gc` deletes it as soon as another"
    " generation is the current one"
)


def infos(connection: Connection) -> tuple[GenerationInfo, ...]:
    """Return what is told of all generations, the newest first."""
    chosen = _INFOS.add_columns(func.length(GENERATIONS.c.content).label("size"))
    return tuple(GenerationInfo(**row) for row in connection.execute(chosen).mappings())


def one(connection: Connection, generation: int | None = None) -> Row[Any] | None:
    """Return the row of the generation with this id, or of the newest."""
    chosen = _WHOLE if generation is None else _WHOLE.where(GENERATIONS.c.id == generation)
    return connection.execute(chosen.limit(1)).first()


def value(row: Row[Any], label: str) -> Generation:
    """Return the generation of a row; StoreError where the content is not what was saved."""
    content = _unpacked(row.content, row.digest)
    if content is None:
        raise StoreError(f"generation {row.id} in {label} is damaged", hint=_HINT)
    return Generation(**{name: getattr(row, name) for name in _PARTS}, content=content.decode())


def add(connection: Connection, generation: Generation, files: Mapping[str, bytes]) -> Generation:
    """Store a generation after the newest one, and the files that are not there yet.

    If the newest one has the same digest and is sound, it is returned, with these revisions of
    decisions.
    """
    known = set(connection.scalars(select(FILES.c.digest))) if files else set()
    for digest in sorted(files.keys() - known):  # one at a time: the archive of a tree is large
        row = {"digest": digest, "content": _packed(files[digest])}
        connection.execute(FILES.insert(), row)
    current = one(connection)
    if (
        current is not None
        and current.digest == generation.digest
        and _unpacked(current.content, current.digest) is not None
    ):
        same = GENERATIONS.c.id == current.id
        connection.execute(update(GENERATIONS).where(same).values(decisions=generation.decisions))
        parts = {name: getattr(current, name) for name in _PARTS if name != "decisions"}
        return replace(generation, **parts)
    parent = 0 if current is None else current.id
    added = replace(generation, id=parent + 1, parent=parent)
    values = {name: getattr(added, name) for name in _PARTS}
    content = _packed(added.content.encode())
    connection.execute(GENERATIONS.insert(), {**values, "content": content})
    return added


def file(connection: Connection, digest: str) -> bytes | None:
    """Return the kept file with this SHA-256; None where it is missing or damaged."""
    packed = connection.scalar(select(FILES.c.content).where(FILES.c.digest == digest))
    return None if packed is None else _unpacked(packed, digest)


def delete_unused_files(connection: Connection) -> None:
    """Delete the kept files that no generation names; none where a generation is damaged."""
    unused = set(connection.scalars(select(FILES.c.digest)))
    ids = connection.scalars(select(GENERATIONS.c.id)).all() if unused else ()
    for generation in ids:
        row = one(connection, generation)
        content = None if row is None else _unpacked(row.content, row.digest)
        if content is None:
            return
        unused.difference_update(_DIGEST.findall(content.decode()))
    gone = [{"gone": digest} for digest in sorted(unused)]
    if gone:
        connection.execute(delete(FILES).where(FILES.c.digest == bindparam("gone")), gone)


def _packed(content: bytes) -> bytes:
    return zlib.compress(content, level=1)


def _unpacked(packed: bytes, digest: str) -> bytes | None:
    """Return what was packed, None where it has not this SHA-256."""
    try:
        content = zlib.decompress(packed)
    except zlib.error:
        return None
    return content if hashlib.sha256(content).hexdigest() == digest else None
