"""How changes are shown to people: signs, colours, and no more lines than anyone reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING

from cobweb._tables import Tone
from cobweb._text import plain
from cobweb.cli._output import Output
from cobweb.cli._text import count, cut

if TYPE_CHECKING:
    from cobweb.generation import FileDifference


SIGNS: Mapping[str, str] = {"added": "+", "changed": "~", "removed": "-", "renamed": "="}
"""What stands before a thing, by what became of it."""

_TONES: Mapping[str, Tone] = {"+": Tone.GOOD, "~": Tone.CAREFUL, "-": Tone.BAD}

Line = tuple[str, Tone]
"""A line of text and its colour."""

MOST_OF_ONE = 40
"""So many lines are shown of one object, unless all of them are asked for."""

MOST_OF_A_FILE = 12
"""So many lines are shown of a file in its tree then."""

_LONGEST = 1000
_INDENT = "    "
_JSON_HAS_ALL = "-o json has all"


def tone_of(line: str) -> Tone:
    """Return the colour of a line that begins with a sign."""
    return _TONES.get(line[:1], Tone.NONE)


def bounded(
    lines: Iterable[Line], most: int, indent: str = "", where: str = _JSON_HAS_ALL
) -> Iterator[Line]:
    """Yield the first lines, and in place of all others how many they are and `where`."""
    rest = iter(lines)
    yield from islice(rest, most)
    if more := sum(1 for _ in rest):
        text = f"{indent}... and {count(more, 'more line', 'more lines')} ({where})"
        yield text, Tone.QUIET


def detail_lines(
    lines: Iterable[str],
    files: Iterable[FileDifference] = (),
    *,
    whole: bool,
    where: str = _JSON_HAS_ALL,
) -> Iterator[Line]:
    """Yield what is told below an object: lines of its spec, then the files of its tree.

    Not `whole`, these are bounded, each file and all together; `where` says who tells the others.
    """
    of_spec = ((cut(plain(line), _LONGEST), tone_of(line)) for line in lines)
    of_files = (
        line if whole else bounded(line, MOST_OF_A_FILE, "  ", where)
        for line in map(_file_lines, files)
    )
    every = ((f"{_INDENT}{text}", tone) for text, tone in chain(of_spec, *of_files))
    yield from every if whole else bounded(every, MOST_OF_ONE, _INDENT, where)


def _file_lines(it: FileDifference) -> Iterator[Line]:
    """Yield what differs in a file: a line with all of it in short, then the hunks."""
    counts = [f"+{it.text.added} -{it.text.removed}"] if it.text else []
    sign = SIGNS[it.kind]
    said = ", ".join([*counts, *it.notes])
    yield f"{sign} {plain(it.name)}: {plain(said)}".removesuffix(": "), tone_of(sign)
    for line in it.text.lines if it.text else ():
        mark, rest = ("  ", line) if line.startswith("@@") else (f"{line[:1]} ", line[1:])
        yield f"{mark}{cut(plain(rest), _LONGEST)}", tone_of(mark)


def write_lines(output: Output, lines: Iterable[Line]) -> None:
    """Write lines to standard output."""
    for text, tone in lines:
        output.line(text, tone)
