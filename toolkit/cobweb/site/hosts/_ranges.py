"""Host ranges of Ansible inventories: `app[01:10]`, `db-[a:c]`, `n[1:9:2]`, several in one name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_letters

MAX_HOSTS = 100_000
"""A range that stands for more hosts is an error."""

_RANGE = re.compile(r"\[([^\[\]]*)\]")


def expand(pattern: str) -> list[str]:
    """Return the names that a host of an inventory stands for; ValueError if it is wrong."""
    names = [""]
    position = 0
    for match in _RANGE.finditer(pattern):
        parts = _parts(match[1])
        if len(names) * len(parts) > MAX_HOSTS:
            raise ValueError(f"the range stands for more than {MAX_HOSTS} hosts")
        head = pattern[position : match.start()]
        names = [name + head + part for name in names for part in parts]
        position = match.end()
    rest = pattern[position:]
    if "[" in rest or "]" in rest:
        raise ValueError("a bracket of the range is missing")
    return [name + rest for name in names]


def _parts(text: str) -> Sequence[str]:
    bounds = text.split(":")
    if len(bounds) not in (2, 3):
        raise ValueError("a range is written [first:last] or [first:last:step]")
    first, last = bounds[0] or "0", bounds[1]
    step = bounds[2] if len(bounds) == 3 else "1"  # noqa: PLR2004  the third part is the step
    if not (step.isascii() and step.isdigit() and int(step) > 0):
        raise ValueError("the step of a range is a number above 0")
    if _is_number(first) and _is_number(last):
        return _numbers(first, last, int(step))
    return _letters(first, last, int(step))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _numbers(first: str, last: str, step: int) -> Sequence[str]:
    width = len(first) if first[0] == "0" and len(first) > 1 else 0
    if width and width != len(last):
        raise ValueError("both ends of a range with leading zeros must have the same length")
    if int(first) > int(last):
        raise ValueError("the range goes backwards")
    count = (int(last) - int(first)) // step + 1
    if count > MAX_HOSTS:
        raise ValueError(f"the range stands for more than {MAX_HOSTS} hosts")
    return [str(number).zfill(width) for number in range(int(first), int(last) + 1, step)]


def _letters(first: str, last: str, step: int) -> Sequence[str]:
    if len(first) != 1 or len(last) != 1 or first not in ascii_letters or last not in ascii_letters:
        raise ValueError("the ends of a range are two numbers or two letters")
    begin, end = ascii_letters.index(first), ascii_letters.index(last)
    if begin > end:
        raise ValueError("the range goes backwards")
    return ascii_letters[begin : end + 1 : step]
