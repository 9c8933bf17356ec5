"""How changes are shown to people: signs, colours, and no more lines than anyone reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from cobweb.cli._output import Output, Tone
from cobweb.cli._text import count

__all__ = ["SIGNS", "Line", "bounded", "tone_of", "write_lines"]

SIGNS: Mapping[str, str] = {"added": "+", "changed": "~", "removed": "-"}
"""What stands before a thing, by what became of it."""

_TONES: Mapping[str, Tone] = {"+": Tone.GOOD, "~": Tone.CAREFUL, "-": Tone.BAD}

Line = tuple[str, Tone]
"""A line of text and its colour."""


def tone_of(line: str) -> Tone:
    """Return the colour of a line that begins with a sign."""
    return _TONES.get(line[:1], Tone.NONE)


def bounded(lines: Iterable[Line], most: int, indent: str = "") -> Iterator[Line]:
    """Yield the first lines, and in place of all others how many they are."""
    rest = iter(lines)
    yield from islice(rest, most)
    if more := sum(1 for _ in rest):
        text = f"{indent}... and {count(more, 'more line', 'more lines')} (-o json has all)"
        yield text, Tone.QUIET


def write_lines(output: Output, lines: Iterable[Line]) -> None:
    """Write lines to standard output."""
    for text, tone in lines:
        output.line(text, tone)
