"""Types of option values: durations, and how much may fail."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

from cobweb._durations import seconds_of

_NUMBER = re.compile("[0-9]{1,9}")
_FAILURES = re.compile(r"([0-9]{1,9})(%?)")
_ALL_PERCENT = 100


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


class _Duration(click.ParamType[float]):
    name = "duration"

    def __init__(self, *, zero: bool = False) -> None:
        self._zero = zero

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return seconds_of(value.strip(), zero=self._zero)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


class _Bound(click.ParamType[tuple[str, int]]):
    name = "name=n"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, number = value.partition("=")
        if not name or not _NUMBER.fullmatch(number) or not int(number):
            self.fail(f"{value!r} is no limit with a number from 1, such as rolling=2", param, ctx)
        return name, int(number)


class _Failures(click.ParamType[Allowance]):
    name = "n|p%"

    def convert(
        self, value: str | Allowance, param: click.Parameter | None, ctx: click.Context | None
    ) -> Allowance:
        if isinstance(value, Allowance):
            return value
        match = _FAILURES.fullmatch(value.strip())
        if match is None:
            self.fail(f"{value!r} is neither a number nor a percentage such as 10%", param, ctx)
        allowance = Allowance(value=int(match[1]), percent=bool(match[2]))
        if allowance.percent and allowance.value > _ALL_PERCENT:
            self.fail(f"{value!r} is more than 100%", param, ctx)
        return allowance


BOUND = _Bound()
"""A name and a number from 1, from `rolling=2`."""

DURATION = _Duration()
"""Seconds as a float, from `90`, `90s`, `10m`, `1h30m` or `2d`."""

AGE = _Duration(zero=True)
"""As DURATION, or 0."""

GENERATION = click.IntRange(1, 2**31 - 1)  # the ids that a database keeps

FAILURES = _Failures()
"""An `Allowance`, from `3` or `10%`."""
