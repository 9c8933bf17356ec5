"""Types of option values: durations, and how much may fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import click

from cobweb._durations import seconds_of

_NUMBER = re.compile("[0-9]{1,9}")
_FAILURES = re.compile(r"([0-9]{1,9})(%?)")
_ALL_PERCENT = 100

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How many hosts or objects may fail: a number, or a percentage of all."""

    value: int
    percent: bool = False

    def bound(self, total: int) -> int:
        """Return the number that may fail out of `total`; a percentage is rounded down."""
        return total * self.value // _ALL_PERCENT if self.percent else self.value

    def __str__(self) -> str:
        return f"{self.value}{'%' if self.percent else ''}"


class _Parsed(click.ParamType[_T]):
    """What `parse` makes of a text; the text of its ValueError is a sentence's end."""

    def __init__(self, name: str, parse: Callable[[str], _T]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: str | _T, param: click.Parameter | None, ctx: click.Context | None
    ) -> _T:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


def _numbered(
    text: str, *, least: int = 1, words: str = "limit with a number from 1, such as rolling=2"
) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not _NUMBER.fullmatch(number) or int(number) < least:
        raise ValueError(f"is no {words}")
    return name, int(number)


def _failures(text: str) -> Allowance:
    match = _FAILURES.fullmatch(text.strip())
    if match is None:
        raise ValueError("is neither a number nor a percentage such as 10%")
    allowance = Allowance(value=int(match[1]), percent=bool(match[2]))
    if allowance.percent and allowance.value > _ALL_PERCENT:
        raise ValueError("is more than 100%")
    return allowance


BOUND = _Parsed("name=n", _numbered)
"""A name and a number from 1, from `rolling=2`."""

_REVISION = "section with a revision from 0, such as pools=7"
REVISION = _Parsed("section=revision", partial(_numbered, least=0, words=_REVISION))
"""A section and a revision of what was decided in it, from `pools=7`."""

DURATION = _Parsed("duration", lambda text: seconds_of(text.strip()))
"""Seconds as a float, from `90`, `90s`, `10m`, `1h30m` or `2d`."""

AGE = _Parsed("duration", lambda text: seconds_of(text.strip(), zero=True))
"""As DURATION, or 0."""

GENERATION = click.IntRange(1, 2**31 - 1)  # the ids that a database keeps

FAILURES = _Parsed("n|p%", _failures)
"""An `Allowance`, from `3` or `10%`."""
