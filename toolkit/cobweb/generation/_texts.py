"""How texts and trees of files differ, counted and as the hunks of a unified diff; pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

from cobweb.generation._trees import TreeEntry, TreeKind, in_order

MAX_LINES = 10_000
"""Texts that have more lines together are not compared line by line."""

MAX_TREE_LINES = 50_000
"""Of a tree so many lines are compared; of further files it is only told that they differ."""

_NO_NEWLINE = "\\ no newline at the end"
_TOO_LONG = "too long to be compared"


class ChangeKind(StrEnum):
    """What became of a thing."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDifference:
    """How many lines were added and removed, and the hunks of a unified diff, as lines."""

    added: int
    removed: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """An entry of a tree that differs; `notes` say what is no matter of lines, such as modes."""

    name: str
    kind: ChangeKind
    notes: tuple[str, ...] = ()
    text: TextDifference | None = None


def text_difference(old: str, new: str) -> TextDifference | None:
    """Return how two texts differ; None where they are too long to be compared."""
    before, after = _lines(old), _lines(new)
    if len(before) + len(after) > MAX_LINES:
        return None
    lines = tuple(islice(difflib.unified_diff(before, after, lineterm=""), 2, None))
    return TextDifference(
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        lines=lines,
    )


def tree_difference(
    old: Mapping[str, TreeEntry], new: Mapping[str, TreeEntry]
) -> tuple[FileDifference, ...]:
    """Return the entries that differ between two trees, in order of their names."""
    names = in_order(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return tuple(_bounded(_entry(name, old.get(name), new.get(name)) for name in names))


def _bounded(found: Iterator[FileDifference]) -> Iterator[FileDifference]:
    """Yield differences until there are too many lines, and then what they are of."""
    total = 0
    for it in found:
        total += len(it.text.lines) if it.text else 0
        too_many = it.text is not None and total > MAX_TREE_LINES
        yield replace(it, text=None, notes=(*it.notes, _TOO_LONG)) if too_many else it


def _entry(name: str, old: TreeEntry | None, new: TreeEntry | None) -> FileDifference:
    notes, text = _contents(old, new)
    if old is None or new is None:
        kind = ChangeKind.ADDED if old is None else ChangeKind.REMOVED
        return FileDifference(name=name, kind=kind, notes=notes, text=text)
    if old.mode != new.mode and old.kind is new.kind:
        notes = (f"mode {old.mode:04o} -> {new.mode:04o}", *notes)
    return FileDifference(name=name, kind=ChangeKind.CHANGED, notes=notes, text=text)


def _contents(
    old: TreeEntry | None, new: TreeEntry | None
) -> tuple[tuple[str, ...], TextDifference | None]:
    """Return how the contents of two entries differ, of which one may not be there."""
    there = [it for it in (old, new) if it is not None]
    if {it.kind for it in there} != {TreeKind.FILE}:
        said = dict.fromkeys(_said(it) for it in there)
        is_same = len(there) > 1 and len(said) == 1
        return (() if is_same else (" -> ".join(said),)), None
    texts = [_text(it) for it in (old, new)]
    known = [text for text in texts if text is not None]
    if len(known) != len(texts):
        sizes = " -> ".join(str(len(it.data)) for it in there)
        return (f"binary, {sizes} bytes",), None
    if known[0] == known[1]:
        return (), None
    found = text_difference(*known)
    return (() if found else (_TOO_LONG,)), found


def _said(entry: TreeEntry) -> str:
    return f"link to {entry.target}" if entry.kind is TreeKind.LINK else str(entry.kind)


def _text(entry: TreeEntry | None) -> str | None:
    """Return the content of a file as text, "" where there is no file; None for what is no text."""
    if entry is None:
        return ""
    if b"\0" in entry.data:
        return None
    try:
        return entry.data.decode()
    except UnicodeDecodeError:
        return None


def _lines(text: str) -> Sequence[str]:
    lines = text.split("\n")
    return [*lines, _NO_NEWLINE] if lines[-1] else lines[:-1]
