"""The parts of a table, as values: columns, cells and what their colours say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """What a coloured word says."""

    NONE = ""
    GOOD = "green"
    BAD = "red"
    CAREFUL = "yellow"
    QUIET = "bright_black"
    HEAD = "cyan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; flexible ones are narrowed first where the table is too wide."""

    title: str
    flexible: bool = False
    right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The text of a cell, and its colour."""

    text: str
    tone: Tone = Tone.NONE


Row = Sequence[Cell | str]
