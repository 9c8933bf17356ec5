"""Tables that fit the terminal: cells are wrapped, never cut off, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import gt

from cobweb._tables import Cell, Column, Row, Tone
from cobweb._text import plain
from cobweb.cli._output import Output
from cobweb.cli._text import cells, wrap

_GAP = "  "
_NARROWEST = 6
_LINES_AT_ONCE = 1000


def write_table(output: Output, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Write a table with a head line to standard output; nothing where there are no rows."""
    if rows:
        lines = table_lines(output, columns, rows)
        while text := "".join(line + "\n" for line in islice(lines, _LINES_AT_ONCE)):
            output.write(text)


def table_lines(output: Output, columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a table, none wider than `output.width` if that can be done.

    Each row is looked at twice, so that a long table takes no memory.
    """
    head: Row = [Cell(text=column.title, tone=Tone.HEAD) for column in columns]
    widths = _widths(columns, [head, *rows], output.width)
    for row in chain([head], rows):
        texts = _texts(row)
        if output.color or any(map(gt, map(cells, texts), widths)):
            yield from _row_lines(output, columns, row, widths)
        else:
            padded = map(_padded, columns, texts, widths)
            yield _GAP.join(padded).rstrip()


def _texts(row: Row) -> list[str]:
    """Return the plain texts of a row, which is looked at as a whole: nearly all are plain."""
    texts = [cell if isinstance(cell, str) else cell.text for cell in row]
    whole = "".join(texts)
    return texts if whole.isascii() and whole.isprintable() else [plain(text) for text in texts]


def _tone(cell: Cell | str) -> Tone:
    return Tone.NONE if isinstance(cell, str) else cell.tone


def _widths(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[int]:
    """Return the natural widths, less what has to go: from the widest flexible column first.

    Words (ids among them) stay whole for as long as any column can be narrowed at its spaces.
    """
    widths = [0] * len(columns)
    for row in rows:
        widths = list(map(max, widths, map(cells, _texts(row))))
    room = width - len(_GAP) * (len(columns) - 1)
    if sum(widths) <= room:
        return widths
    narrowest = [_NARROWEST] * len(columns)
    for least in (_longest_words(rows, narrowest), narrowest):
        for flexible in (True, False):
            own = [i for i, column in enumerate(columns) if column.flexible is flexible]
            _narrow(widths, own, least, room)
    return widths


def _longest_words(rows: Sequence[Row], least: Sequence[int]) -> list[int]:
    """Return how wide each column is at least so that no word of it is broken."""
    widths = list(least)
    for row in rows:
        for place, text in enumerate(_texts(row)):
            widths[place] = max([widths[place], *map(cells, text.split())])
    return widths


def _narrow(widths: list[int], own: Sequence[int], least: Sequence[int], room: int) -> None:
    """Narrow the columns `own`, the widest first, until all fit or none can be narrowed more."""
    while sum(widths) > room:
        wide = [i for i in own if widths[i] > least[i]]
        if not wide:
            return
        widths[max(wide, key=lambda i: widths[i])] -= 1


def _row_lines(
    output: Output, columns: Sequence[Column], row: Row, widths: Sequence[int]
) -> list[str]:
    parts = [wrap(text, width) for text, width in zip(_texts(row), widths, strict=True)]
    height = max(len(part) for part in parts)
    padded = [
        [_padded(column, line, width) for line in [*part, *[""] * (height - len(part))]]
        for column, part, width in zip(columns, parts, widths, strict=True)
    ]
    return [_line(output, row, [part[number] for part in padded]) for number in range(height)]


def _line(output: Output, row: Row, texts: Sequence[str]) -> str:
    last = max((i for i, text in enumerate(texts) if text.strip()), default=0)
    painted = [output.paint(text, _tone(cell)) for text, cell in zip(texts, row, strict=True)]
    painted[last] = output.paint(texts[last].rstrip(), _tone(row[last]))
    return _GAP.join(painted[: last + 1])


def _padded(column: Column, text: str, width: int) -> str:
    space = " " * (width - cells(text))
    return space + text if column.right else text + space
