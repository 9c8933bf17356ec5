"""Plain data as YAML for people, with comments; every reader gets the same data from it.

Words are written as they are, all other texts as JSON texts, which YAML takes in any version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

WIDTH = 100
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[-./][A-Za-z0-9_]+)*", re.ASCII)
_NO_WORDS = frozenset(["null", "true", "false", "yes", "no", "on", "off", "y", "n"])


def yaml_lines(data: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the lines of a mapping of plain data, indented by two spaces for each `depth`."""
    for key, value in data.items():
        yield from _entry(f"{'  ' * depth}{_scalar(key)}:", value, depth)


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from yaml_lines(value, depth + 1)
        return
    line = f"{head} {_flow(value)}"
    if not isinstance(value, list) or not value or len(line) <= WIDTH:
        yield line
        return
    yield head
    for item in value:
        yield f"{'  ' * (depth + 1)}- {_flow(item)}"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items())
        return f"{{{inner}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_flow, value))}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", json.dumps(value))  # without a point it is a text
    if not isinstance(value, str):
        return json.dumps(value)
    if _WORD.fullmatch(value) and value.lower() not in _NO_WORDS:
        return value
    return "".join(map(_visible, json.dumps(value, ensure_ascii=False)))


def _visible(character: str) -> str:
    """Return a character of a JSON text, one that cannot be seen as YAML escapes it."""
    return character if character.isprintable() else f"\\U{ord(character):08x}"
