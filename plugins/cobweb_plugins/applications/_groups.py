"""Answers grouped by what they say, and names of hosts folded for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cobweb_plugins.applications._broadcast import Answer

_NUMBER = re.compile(r"([^.]*?)(\d+)([^\d.]*(?:\..*)?)", re.ASCII | re.DOTALL)
"""The last number of a name's first label, and what is around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Hosts that gave equal answers, in their order; `answer` is the first one's."""

    hosts: tuple[str, ...]
    answer: Answer


def groups_of(answers: Iterable[Answer]) -> list[Group]:
    """Return groups of equal answers: those with an exit code first, large ones before small."""
    found: dict[object, list[Answer]] = {}
    for it in answers:
        key = (it.code, it.output, it.errors, it.lost, it.reason)
        found.setdefault(key, []).append(it)
    groups = [Group(hosts=tuple(it.host for it in some), answer=some[0]) for some in found.values()]
    return sorted(groups, key=lambda it: (it.answer.code is None, -len(it.hosts)))


def folded(names: Iterable[str]) -> str:
    """Return names with ranges of their last number: `n[01-46,49],db` for `n01`, ..., `db`.

    The numbers between two have as many zeros before them as the first one's width asks for.
    """
    found: dict[tuple[str, str, bool], set[str]] = {}
    for name in names:
        match = _NUMBER.fullmatch(name)
        stem, number, rest = match.groups() if match else (name, "", "")
        found.setdefault((stem, rest, bool(number)), set()).add(number)
    return ",".join(_folded(stem, rest, numbers) for (stem, rest, _), numbers in found.items())


def _folded(stem: str, rest: str, numbers: set[str]) -> str:
    if len(numbers) == 1:
        return f"{stem}{next(iter(numbers))}{rest}"
    in_order = sorted(numbers, key=lambda it: (int(it), len(it)))
    return f"{stem}[{','.join(_ranges(in_order))}]{rest}"


def _ranges(numbers: list[str]) -> Iterator[str]:
    runs: list[list[str]] = []
    for number in numbers:
        if runs and _follows(runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    for run in runs:
        yield run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}"


def _follows(before: str, number: str) -> bool:
    return str(int(before) + 1).zfill(len(before)) == number
