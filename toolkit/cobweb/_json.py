"""Indented JSON of large data: the bytes of `json.dumps(indent=...)` at a third of its cost.

The standard library writes indented JSON in Python, one token at a time. Here a value is one
string, and only the outer levels come in pieces, so that a large text need not be in memory whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

_OUTER_LEVELS = 3
"""How many levels of nesting come in pieces; a piece is what is below them."""

_NO_NUMBERS = frozenset({"nan", "inf", "-inf"})


def indented(data: Any, *, indent: int, ascii_only: bool) -> Iterator[str]:
    """Yield the JSON text of plain data piece by piece, without a newline at the end.

    Mappings are dicts, sequences lists or tuples; TypeError for what `json.dumps` refuses.
    """
    quote = encode_basestring_ascii if ascii_only else encode_basestring
    return _Writer(quote, " " * indent).pieces(data, "\n", _OUTER_LEVELS)


class _Writer:
    """Writes values; `margin` is the line break with the indentation of what it stands before."""

    def __init__(self, quote: Callable[[str], str], step: str) -> None:
        self._quote = quote
        self._step = step

    def pieces(self, value: Any, margin: str, levels: int) -> Iterator[str]:
        """Yield a value, its members one by one where there are `levels` left."""
        if not levels or not value or not isinstance(value, dict | list | tuple):
            yield self._text(value, margin)
            return
        inner = margin + self._step
        is_mapping = isinstance(value, dict)
        before = ("{" if is_mapping else "[") + inner
        for member in value:
            yield before + self._key(member) + ": " if is_mapping else before
            yield from self.pieces(value[member] if is_mapping else member, inner, levels - 1)
            before = "," + inner
        yield margin + ("}" if is_mapping else "]")

    def _text(self, value: Any, margin: str) -> str:
        kind = type(value)
        if kind is str:
            return self._quote(value)
        if kind is float or kind is int:
            text = repr(value)
            return json.dumps(value) if text in _NO_NUMBERS else text
        if isinstance(value, dict):
            return self._mapping(value, margin)
        if isinstance(value, list | tuple):
            return self._sequence(value, margin)
        return self._quote(value) if isinstance(value, str) else json.dumps(value)

    def _mapping(self, value: Mapping[Any, Any], margin: str) -> str:
        if not value:
            return "{}"
        inner = margin + self._step
        members = [f"{self._key(key)}: {self._text(value[key], inner)}" for key in value]
        return "{" + inner + ("," + inner).join(members) + margin + "}"

    def _sequence(self, value: Sequence[Any], margin: str) -> str:
        if not value:
            return "[]"
        inner = margin + self._step
        return (
            "[" + inner + ("," + inner).join([self._text(it, inner) for it in value]) + margin + "]"
        )

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return self._quote(key)
        if key is None or isinstance(key, bool | int | float):
            return self._quote(json.dumps(key))
        raise TypeError(f"{type(key).__name__} is no key of JSON")
