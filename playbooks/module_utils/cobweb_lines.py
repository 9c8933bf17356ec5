# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a line or a block of ours is in a text, and the text with it and without it. Pure.

A text is its lines without their line feeds; a line may end with a carriage return, which is no
part of what is compared. Lines that are not ours to touch, since another COB has them, are
`foreign`, a set of indexes. What a line of ours has replaced is a list of `{"line": ..., "after":
...}`: what stood there, and the line before it.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Pattern, Tuple

from ansible.module_utils.cobweb_host import Failed

Replaced = List[Dict[str, Any]]


class Text(NamedTuple):
    """The lines of a file, and whether the last one is ended."""

    lines: List[str]
    is_ended: bool

    @property
    def end(self) -> str:
        """What stands at the end of a line of this file, before the line feed."""
        return "\r" if self.lines and self.lines[0].endswith("\r") else ""


class Spot(NamedTuple):
    """Where something new goes: after the last line, or before the first, that a pattern finds."""

    after: Optional[str]
    before: Optional[str]


class Line(NamedTuple):
    """A line to be had once; `match` finds what it replaces. `known` are texts that were ours."""

    text: str
    match: Optional[Pattern[str]]
    known: Tuple[str, ...]


class Found(NamedTuple):
    """Indexes of lines: with the text, with an earlier one of ours, others that `match` hits."""

    same: List[int]
    older: List[int]
    hits: List[int]


class Block(NamedTuple):
    """Indexes of the first and the last line, those of the markers, and what is between."""

    first: int
    last: int
    body: List[str]


def split(content: bytes) -> Text:
    """Read a file; bytes that are no text survive."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    is_ended = lines[-1] == ""
    return Text(lines[:-1] if is_ended else lines, is_ended)


def join(text: Text) -> bytes:
    """Return the bytes of a file."""
    end = "\n" if text.is_ended and text.lines else ""
    return ("\n".join(text.lines) + end).encode("utf-8", "surrogateescape")


def bare(line: str) -> str:
    """Return a line without its carriage return."""
    # str.removesuffix came with Python 3.9.
    return line[:-1] if line.endswith("\r") else line


def pattern(name: str, given: Optional[str]) -> Optional[Pattern[str]]:
    """Return a regular expression; Failed says which key has none."""
    if given is None:
        return None
    try:
        return re.compile(given)
    except re.error as error:
        raise Failed(f"`{name}` is no regular expression: {error}") from None


def spot_index(lines: List[str], spot: Spot) -> int:
    """Return where something new goes; Failed if the line is not there that says so."""
    for name, given in (("after", spot.after), ("before", spot.before)):
        wanted = pattern(name, given)
        if wanted is None:
            continue
        found = [index for index, line in enumerate(lines) if wanted.search(bare(line))]
        if not found:
            raise Failed(f"no line matches `{name}`: {given}")
        return found[-1] + 1 if name == "after" else found[0]
    return len(lines)


# --- lines


def find_line(lines: List[str], line: Line, foreign: AbstractSet[int]) -> Found:
    """Find what a line is about."""
    found = Found([], [], [])
    for index, each in enumerate(map(bare, lines)):
        if index in foreign:
            continue
        if each == line.text:
            found.same.append(index)
        elif each in line.known:
            found.older.append(index)
        elif line.match is not None and line.match.search(each):
            found.hits.append(index)
    return found


def replaced_lines(lines: List[str], found: Found) -> Replaced:
    """Return what a line replaces that is written for the first time."""
    indexes = sorted(found.same + found.hits)
    return [{"line": lines[it], "after": lines[it - 1] if it else None} for it in indexes]


def with_line(text: Text, line: Line, found: Found, spot: Spot) -> Text:
    """Return the text with the line in the place of the first that it replaces, or in its spot."""
    own = found.same or found.older or found.hits
    new = line.text + text.end
    dropped = {*found.same, *found.older, *found.hits}
    at = own[0] if own else spot_index(text.lines, spot)
    lines: List[str] = []
    for index, each in enumerate(text.lines):
        if index == at:
            lines.append(new)
        if index not in dropped:
            lines.append(each)
    if at == len(text.lines):
        lines.append(new)
    return Text(lines, text.is_ended)


def without_line(text: Text, own: List[int], replaced: Replaced) -> Text:
    """Return the text with what the line has replaced in its place, as far as it is not there."""
    lines: List[str] = []
    todo = list(replaced)
    for index, each in enumerate(text.lines):
        if index not in own:
            lines.append(each)
        elif index == own[0] and todo:
            lines.append(todo.pop(0)["line"])
    kept = {bare(text.lines[index]) for index in range(len(text.lines)) if index not in own}
    for each in todo:
        if bare(each["line"]) not in kept:
            lines.insert(_index_after(lines, each["after"]), each["line"])
    return Text(lines, text.is_ended)


def _index_after(lines: List[str], after: Optional[str]) -> int:
    if after is None:
        return 0
    return lines.index(after) + 1 if after in lines else len(lines)


# --- blocks


def block_markers(marker: str) -> Tuple[str, str]:
    """Return the first and the last line of a block."""
    return marker.replace("{mark}", "BEGIN"), marker.replace("{mark}", "END")


def find_blocks(lines: List[str], marker: str) -> List[Block]:
    """Return the blocks with a marker; Failed if one has no end, or no beginning."""
    begin, end = block_markers(marker)
    blocks: List[Block] = []
    first: Optional[int] = None
    for index, line in enumerate(map(bare, lines)):
        if line == begin and first is None:
            first = index
        elif line == end and first is not None:
            body = [bare(each) for each in lines[first + 1 : index]]
            blocks.append(Block(first, index, body))
            first = None
        elif line in (begin, end):
            raise Failed(f"line {index + 1}: `{line}` without its other half; mend it by hand")
    if first is not None:
        raise Failed(f"line {first + 1}: `{begin}` without its `{end}`; mend it by hand")
    return blocks


def with_block(
    text: Text, blocks: List[Block], new: Optional[List[str]], spot: Optional[Spot] = None
) -> Text:
    """Return the text with `new`, markers and all, in the place of the first block, or its spot.

    None takes the blocks out.
    """
    lines = [] if new is None else [line + text.end for line in new]
    dropped = {index for block in blocks for index in range(block.first, block.last + 1)}
    at = blocks[0].first if blocks else spot_index(text.lines, spot or Spot(None, None))
    head = [line for index, line in enumerate(text.lines[:at]) if index not in dropped]
    tail = [line for index, line in enumerate(text.lines[at:], start=at) if index not in dropped]
    return Text(head + lines + tail, text.is_ended)
