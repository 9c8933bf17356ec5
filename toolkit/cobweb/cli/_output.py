"""The one way to standard output and standard error: plain data, text, colour, width.

Data goes to standard output, the human summary to standard error. Whatever came from outside is
made visible (`_text.plain`) before it reaches a terminal. `-o json` and `-o yaml` write the same
plain data.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import click

from cobweb._tables import Tone
from cobweb._text import plain
from cobweb.cli._request import Format, Request
from cobweb.cli._streams import write_stdout
from cobweb.cli._text import escaped_json, has_control, wrap

_WIDTH = 80
_NARROWEST = 40
_PIECES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where and how a command writes; `width` is in terminal cells.

    With `aside` text goes to standard error, for standard output is kept for data.
    """

    format: Format = Format.TEXT
    color: bool = False
    width: int = _WIDTH
    aside: bool = False

    @classmethod
    def of(cls, request: Request) -> Output:
        """Return the output for the options, the environment and the terminal of this call."""
        width = shutil.get_terminal_size((_WIDTH, 24)).columns
        return cls(
            format=request.format or Format.TEXT,
            color=not request.no_color and _terminal_with_color(),
            width=max(width, _NARROWEST),
        )

    def data(self, data: Any) -> bool:
        """Write plain data if JSON or YAML is asked for, and say whether it was."""
        if self.format is Format.JSON:
            for text in _json_texts(data):
                self.write(text)
        elif self.format is Format.YAML:
            self.write(as_yaml(data))
        else:
            return False
        return True

    def write(self, text: str) -> None:
        """Write text as it is to standard output; CobwebError where that cannot be done."""
        if self.aside:
            _write_stderr(text)
        else:
            write_stdout(text)

    def line(self, text: str = "", tone: Tone = Tone.NONE) -> None:
        """Write one line of text, made safe for a terminal, to standard output."""
        self.write(self.paint(plain(text), tone) + "\n")

    def wrapped(self, text: str, tone: Tone = Tone.NONE) -> None:
        """Write text as lines that are no longer than the terminal is wide."""
        for part in wrap(plain(text), self.width):
            self.line(part, tone)

    def summary(self, text: str, tone: Tone = Tone.NONE) -> None:
        """Write one line for people to standard error."""
        colored = self.color and sys.stderr.isatty()
        _write_stderr((click.style(plain(text), tone) if colored and tone else plain(text)) + "\n")

    def note(self, text: str) -> None:
        """Write a line on standard error that is good to know, and no failure."""
        self.summary(f"note: {text}", Tone.CAREFUL)

    def paint(self, text: str, tone: Tone) -> str:
        """Return text in the colour of its tone, if there are colours at all."""
        return click.style(text, fg=tone.value) if self.color and tone else text


def as_json(data: Any) -> str:
    """Return JSON, two spaces deep, with every control character escaped; ends with a newline."""
    return "".join(_json_texts(data))


def _json_texts(data: Any) -> Iterator[str]:
    """Yield JSON in parts that are neither many nor long."""
    from cobweb._json import indented

    pieces = indented(data, indent=2, ascii_only=False)
    while text := "".join(islice(pieces, _PIECES_AT_ONCE)):
        yield escaped_json(text)
    yield "\n"


def as_yaml(data: Any) -> str:
    """Return YAML in the order of the data, with every control character escaped."""
    import yaml

    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    if has_control(text):
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=False)
    return text


def _write_stderr(text: str) -> None:
    """Write for people; where nobody can read it any more, the exit code still tells the truth."""
    with suppress(OSError):
        sys.stderr.write(text)


def _terminal_with_color() -> bool:
    wants_none = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not wants_none
