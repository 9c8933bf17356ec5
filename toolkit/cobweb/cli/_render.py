"""Tables that fit the terminal: cells are wrapped, never cut off, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobweb.cli._output import Output, Tone
from cobweb.cli._text import cells, plain, wrap

__all__ = ["Cell", "Column", "table_lines", "write_table"]

_GAP = "  "
_NARROWEST = 6


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


def write_table(output: Output, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Write a table with a head line to standard output; nothing where there are no rows."""
    if rows:
        output.write("".join(line + "\n" for line in table_lines(output, columns, rows)))


def table_lines(output: Output, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table, none wider than `output.width` if that can be done."""
    head = [Cell(text=column.title, tone=Tone.HEAD) for column in columns]
    grid = [head, *([_cell(cell) for cell in row] for row in rows)]
    widths = _widths(columns, grid, output.width)
    return [line for row in grid for line in _row_lines(output, columns, row, widths)]


def _cell(cell: Cell | str) -> Cell:
    if isinstance(cell, str):
        return Cell(text=plain(cell))
    return Cell(text=plain(cell.text), tone=cell.tone)


def _widths(columns: Sequence[Column], grid: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """Return the natural widths, less what has to go: from the widest flexible column first."""
    widths = [max(cells(row[i].text) for row in grid) for i in range(len(columns))]
    room = width - len(_GAP) * (len(columns) - 1)
    for flexible in (True, False):
        shrinking = [i for i, column in enumerate(columns) if column.flexible is flexible]
        while shrinking and sum(widths) > room:
            widest = max(shrinking, key=lambda i: widths[i])
            if widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
    return widths


def _row_lines(
    output: Output, columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int]
) -> list[str]:
    parts = [wrap(cell.text, width) for cell, width in zip(row, widths, strict=True)]
    height = max(len(part) for part in parts)
    padded = [
        [_padded(column, line, width) for line in [*part, *[""] * (height - len(part))]]
        for column, part, width in zip(columns, parts, widths, strict=True)
    ]
    return [_line(output, row, [part[number] for part in padded]) for number in range(height)]


def _line(output: Output, row: Sequence[Cell], texts: Sequence[str]) -> str:
    last = max((i for i, text in enumerate(texts) if text.strip()), default=0)
    painted = [output.paint(text, cell.tone) for text, cell in zip(texts, row, strict=True)]
    painted[last] = output.paint(texts[last].rstrip(), row[last].tone)
    return _GAP.join(painted[: last + 1])


def _padded(column: Column, text: str, width: int) -> str:
    space = " " * (width - cells(text))
    return space + text if column.right else text + space
