"""Read JSON that comes from outside: plans, options that name a file, inventories, entities.

Size, depth and the length of numbers have limits, and what is wrong is told with its place, so that
nothing that somebody hands over ends in a traceback or in a full memory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from cobweb.errors import Place

MAX_JSON_BYTES = 64 * 2**20
"""A longer text is not read, if the reader does not say another bound."""

MAX_JSON_DEPTH = 100
"""Deeper nesting is an error."""


class JsonError(ValueError):
    """A text is not the JSON that is asked for; `place` is where, as far as it is known."""

    def __init__(self, place: Place, message: str, hint: str) -> None:
        super().__init__(f"{place}: {message}")
        self.place = place
        self.message = message
        self.hint = hint


def json_file(path: Path) -> Any:
    """Return the plain data of a file; JsonError for what is no JSON, or cannot be read."""
    try:
        data = read_bounded(path, MAX_JSON_BYTES)
    except OSError as error:
        place = Place(file=str(path))
        raise JsonError(place, f"cannot read the file: {error.strerror}", "") from error
    return json_of(data, str(path))


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file, of one that is too long one more than the bound; OSError."""
    with path.open("rb") as file:
        return file.read(max_bytes + 1)


def json_of(text: str | bytes, name: str, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Return the plain data of a text; `name` is what messages call it. JsonError otherwise."""
    if len(text) > max_bytes:
        message = f"it is longer than {max_bytes // 2**20} MiB"
        raise JsonError(Place(file=name), message, "hand over less")
    try:
        data = json.loads(_decoded(text, name), parse_constant=_refused)
    except json.JSONDecodeError as error:
        place = Place(file=name, line=error.lineno, column=error.colno)
        raise JsonError(place, f"this is no JSON: {error.msg}", "mend the syntax") from error
    except RecursionError as error:
        raise _too_deep(name) from error
    except JsonError:
        raise
    except ValueError as error:  # of numbers
        message = f"this is no JSON that Cobweb reads: {error}"
        raise JsonError(Place(file=name), message, "write a shorter number, or a text") from error
    if _is_deep(data):
        raise _too_deep(name)
    return data


def _decoded(text: str | bytes, name: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        column = error.start - text.rfind(b"\n", 0, error.start)
        place = Place(file=name, line=line, column=column)
        raise JsonError(place, "the text is not UTF-8", "save it as UTF-8") from error


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _is_deep(data: Any) -> bool:
    """Say whether lists and mappings are nested too deeply; level by level, so at any depth."""
    level = [data]
    for _ in range(MAX_JSON_DEPTH + 1):
        inner = [each for each in level if type(each) is dict or type(each) is list]
        if not inner:
            return False
        level = [
            item
            for each in inner
            for item in (each.values() if type(each) is dict else each)
            if type(item) is dict or type(item) is list
        ]
    return True


def _too_deep(name: str) -> JsonError:
    message = f"more than {MAX_JSON_DEPTH} levels of nesting"
    return JsonError(Place(file=name), message, "hand over plainer data")
