"""Takes secret values out of text that people and files will see."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MASK = "********"
SHORTEST = 4
"""Characters of a value that is hidden; a shorter one is found in any text, and hides nothing."""

RESULT_KEYS = frozenset(
    (
        "censored",
        "failed",
        "module_stderr",
        "msg",
        "reason",
        "results",
        "stderr",
        "stdout",
        "unreachable",
    )
)
"""Ansible's own words, by which results are read; they stay, also where a value is one of them."""


class Hidden:
    """Replaces whole secret values by `MASK`.

    A value is found as it is, without blanks around it, with its blanks made one, and as JSON,
    Python and a shell write it. Parts of a value and other encodings of it are not found.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        found = {it for value in values for it in _spellings(value) if len(it) >= SHORTEST}
        longest_first = sorted(found, key=lambda it: (-len(it), it))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if found else None

    def text(self, text: str) -> str:
        """Return a text without the values."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def data(self, value: Any) -> Any:
        """Return the plain data of a result without the values in its texts and numbers."""
        match value:
            case _ if self._pattern is None or isinstance(value, bool):
                return value
            case str() | int() | float():
                told = self.text(str(value))
                return value if told == str(value) else told
            case Mapping():
                return {self._key(key): self.data(item) for key, item in value.items()}
            case list() | tuple():
                return [self.data(item) for item in value]
            case _:
                return value

    def _key(self, key: object) -> object:
        return self.text(str(key)) if isinstance(key, str) and key not in RESULT_KEYS else key


def _spellings(value: str) -> Iterator[str]:
    bare = value.strip()
    if len(bare) < SHORTEST:
        return
    for text in (value, bare):
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        yield shlex.quote(text)
    yield " ".join(bare.split())
