"""The conformance kit for adapters: each broken promise is caught by the check named for it."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from cobweb.errors import CobwebError
from cobweb.model import (
    Host,
)
from cobweb.testing import (
    AdapterCase,
    NamedCheck,
    adapter_checks,
    check_adapter,
)

Failing = Callable[[Iterable[NamedCheck]], set[str]]


class Lines:
    """An adapter for files that name one host a line."""

    name: ClassVar[str] = "lines"

    def reads(self, source: Path) -> bool:
        return source.suffix == ".lines"

    def hosts(self, source: Path) -> Iterable[Host]:
        for line in source.read_text().splitlines():
            if not line.isidentifier():
                raise CobwebError(f"{source}: {line!r} is no host")
            yield Host(name=line, groups=("web",), variables={"x": 1})


class Greedy(Lines):
    def reads(self, source: Path) -> bool:
        return source.exists()


class Blind(Lines):
    def reads(self, source: Path) -> bool:
        del source
        return False


class Doubles(Lines):
    def hosts(self, source: Path) -> Iterable[Host]:
        return [*super().hosts(source), *super().hosts(source)]


class Everything(Lines):
    def hosts(self, source: Path) -> Iterable[Host]:
        return [replace(host, groups=("all",)) for host in super().hosts(source)]


class Unsorted(Lines):
    def hosts(self, source: Path) -> Iterable[Host]:
        return [replace(host, groups=("b", "a")) for host in super().hosts(source)]


class Lenient(Lines):
    def hosts(self, source: Path) -> Iterable[Host]:
        return [Host(name=line) for line in source.read_text().splitlines()]


class Empty(Lines):
    def hosts(self, source: Path) -> Iterable[Host]:
        del source
        return []


class Fickle(Lines):
    calls: ClassVar[list[int]] = []

    def hosts(self, source: Path) -> Iterable[Host]:
        self.calls.append(1)
        return [*super().hosts(source), Host(name=f"h{len(self.calls)}")]


def _adapter_case(make: Callable[[], Lines], folder: Path) -> AdapterCase:
    files = {"good.lines": "a\nb\n", "other.txt": "a\n", "bad.lines": "a b\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    source, foreign, damaged = (folder / name for name in files)
    return AdapterCase(make=make, source=source, foreign=foreign, damaged=damaged)


def test_a_good_adapter_passes_all_checks(tmp_path: Path) -> None:
    assert len(adapter_checks(_adapter_case(Lines, tmp_path))) == 5
    check_adapter(_adapter_case(Lines, tmp_path))


@pytest.mark.parametrize(
    ("make", "caught"),
    [
        (Greedy, "leaves_foreign_sources_alone"),
        (Blind, "reads_its_source"),
        (Fickle, "reads_its_source"),
        (Doubles, "hosts_are_well_formed"),
        (Everything, "hosts_are_well_formed"),
        (Unsorted, "hosts_are_well_formed"),
        (Empty, "hosts_are_well_formed"),
        (Lenient, "damaged_source_is_an_error"),
    ],
)
def test_an_adapter_that_breaks_a_promise_is_caught(
    make: type[Lines], caught: str, tmp_path: Path, failing: Failing
) -> None:
    assert caught in failing(adapter_checks(_adapter_case(make, tmp_path)))
