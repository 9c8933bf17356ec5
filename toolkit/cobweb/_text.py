"""Texts that are too long to be kept whole."""

from __future__ import annotations

_LEFT_OUT = " ... "


def shortened(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: its middle goes, for causes stand at the end.

    `longest` is at least 7.
    """
    if len(text) <= longest:
        return text
    room = longest - len(_LEFT_OUT)
    return text[: room // 2] + _LEFT_OUT + text[-(room - room // 2) :]
