"""The book of the boot server: a write-ahead file of records, one JSON line for each change.

A line is on the disk before anything is done about it. The last line of a machine counts; one that
a crash has torn is the last of the file, and was acted on by nobody. One server has the book.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError
from cobweb_plugins.metal.server._records import Record, record_of

_NAME = "book.jsonl"
_FORMAT = 1
_COMPACT_AT = 4 << 20
"""Bytes of the file from which on it is written anew."""


class Book:
    """Records of machines by id, kept in a file of `folder`; CobwebError where it cannot be."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._lock = (folder / "book.lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            message = f"another boot server has {folder}"
            raise CobwebError(message, hint="one folder is for one server") from error
        try:
            self._records = records_in(folder)
        except CobwebError:
            self._lock.close()
            raise
        self._file = self._path.open("ab")
        self._compact()

    def close(self) -> None:
        """Let another server have the book."""
        self._file.close()
        self._lock.close()

    def __iter__(self) -> Iterator[Record]:
        """Yield all records, sorted by id."""
        return iter([self._records[it] for it in sorted(self._records)])

    def get(self, id_: str) -> Record | None:
        """Return a machine; None if there is no such."""
        return self._records.get(id_)

    def write(self, record: Record) -> None:
        """Keep a record; it is on the disk when this returns."""
        self._append({"id": record.id, "record": record.as_json()})
        self._records[record.id] = record

    def forget(self, id_: str) -> None:
        """Keep nothing of a machine."""
        self._append({"id": id_, "record": None})
        self._records.pop(id_, None)

    def _append(self, line: Mapping[str, Any]) -> None:
        self._file.write(_bytes(line))
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._file.tell() > _COMPACT_AT:
            self._compact()

    def _compact(self) -> None:
        """Write the file anew, with one line for each machine."""
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(_bytes({"format": _FORMAT}))
            for record in self:
                file.write(_bytes({"id": record.id, "record": record.as_json()}))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        _sync_folder(self._path.parent)
        self._file.close()
        self._file = self._path.open("ab")


def records_in(folder: Path) -> dict[str, Record]:
    """Return what the book of a folder says, also while a server has it; CobwebError if damaged."""
    records: dict[str, Record] = {}
    for line in _lines(folder / _NAME):
        if line["record"] is None:
            records.pop(line["id"], None)
        else:
            records[line["id"]] = record_of(line["record"])
    return records


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what was written, without a torn last line."""
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):  # after the last \n is what was torn
        try:
            data = json.loads(line)
            is_record = data.keys() >= {"id", "record"}
        except (ValueError, AttributeError) as error:
            message = f"{path}:{number} is no record: the book was damaged"
            hint = "delete it: all machines are primed anew then"
            raise CobwebError(message, hint=hint) from error
        if is_record:
            yield data
        elif data.get("format") != _FORMAT:
            message = f"{path} is of another version of Cobweb"
            raise CobwebError(message, hint=f"this one reads format {_FORMAT}")


def _bytes(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
