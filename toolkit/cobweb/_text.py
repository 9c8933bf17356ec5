"""Text that is safe to show, and not too long to be kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SPECIAL = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
"""Characters that turn the direction of a line around, end it, or are not there to see."""

_CONTROL = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{SPECIAL}]")
_LAST_BYTE = 0xFF
_LEFT_OUT = " ... "


def shortened(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: its middle goes, for causes stand at the end.

    `longest` is at least 7.
    """
    if len(text) <= longest:
        return text
    room = longest - len(_LEFT_OUT)
    return text[: room // 2] + _LEFT_OUT + text[-(room - room // 2) :]


def some_of(names: Sequence[str], shown: int) -> str:
    """Return the first names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def did_you_mean(
    word: str, known: Iterable[str], *, otherwise: str = "", likeness: float = 0.6
) -> str:
    """Return the hint for a misspelt word; `otherwise` where nothing that is known is so like it.

    A likeness of 1 is that of equal words.
    """
    from difflib import get_close_matches  # takes a while, and is for mistakes alone

    close = get_close_matches(word, list(known), n=1, cutoff=likeness)
    return f"did you mean {close[0]}?" if close else otherwise


def plain(text: str) -> str:
    r"""Return text with every control character written out, such as `\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    return named or (f"\\x{code:02x}" if code <= _LAST_BYTE else f"\\u{code:04x}")


def is_below(path: str, folder: str) -> bool:
    """Say whether a path is inside a folder; both are absolute and without `..`."""
    return path.startswith(folder.rstrip("/") + "/")
