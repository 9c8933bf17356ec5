"""Text of a terminal: JSON without control characters, width in cells, wrapping."""

from __future__ import annotations

import re
import time
import unicodedata

from cobweb._text import SPECIAL

_CONTROL_BUT_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{SPECIAL}]")
_DELETE = "\x7f"
_DOTS = "..."
_WIDE = frozenset("WF")
_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def has_control(text: str) -> bool:
    """Say whether text has control characters other than newline and tab."""
    return _CONTROL_BUT_LINES.search(text) is not None


def escaped_json(text: str) -> str:
    r"""Return JSON text with the control characters that JSON allows as they are as `\u001b`."""
    if text.isascii() and _DELETE not in text:
        return text  # JSON has no other control character in ASCII but line breaks
    return _CONTROL_BUT_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def day(seconds: float) -> str:
    """Return a time in seconds since the epoch as the clock here shows it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def moment(seconds: float) -> str:
    """Return a time in seconds since the epoch to the second, and without its year."""
    return time.strftime("%m-%d %H:%M:%S", time.localtime(seconds))


def count(number: int, noun: str, plural: str = "") -> str:
    """Return `1 host`, `2 hosts`; `plural` where an s is not enough."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def cells(text: str) -> int:
    """Return how many cells of a terminal plain text takes."""
    if text.isascii():
        return len(text)
    return sum(_cell(character) for character in text)


def cut(text: str, width: int) -> str:
    """Return plain text cut to at most `width` cells; three dots say that something is missing."""
    if cells(text) <= width:
        return text
    return (text[: _fitting(text, width - len(_DOTS))] + _DOTS)[:width]


def wrap(text: str, width: int) -> list[str]:
    """Return plain text as lines of at most `width` cells, broken at spaces where there are any.

    A word that is longer than a line is broken after a `/`, `.`, `,` or `-` if it can be.
    """
    lines: list[str] = []
    rest = text
    while cells(rest) > width:
        end = _break(rest, width)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, rest] if rest or not lines else lines


def _break(text: str, width: int) -> int:
    end = max(_fitting(text, width), 1)
    space = text.rfind(" ", 0, end + 1)
    if space > 0:
        return space
    after = max(text.rfind(mark, 0, end) for mark in "/.,-") + 1
    return after if after > end // 2 else end


def _fitting(text: str, width: int) -> int:
    """Return how many characters of a text fit into so many cells."""
    end = taken = 0
    while end < len(text) and taken + _cell(text[end]) <= width:
        taken += _cell(text[end])
        end += 1
    return end


def _cell(character: str) -> int:
    if unicodedata.category(character) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1
