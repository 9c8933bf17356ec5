"""Fixtures of the store's tests: every test of the journal runs on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from cobweb.store import RunInfo, Store, open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a maker of URLs of databases that do not exist or are empty."""
    if request.param == "postgresql":
        make: Callable[[], str] = request.getfixturevalue("postgresql_url")
        return make
    numbers = count(1)
    return lambda: f"sqlite:///{tmp_path}/fresh{next(numbers)}/state.db"


@pytest.fixture
def url(fresh_url: Callable[[], str]) -> str:
    """Return the URL of one empty database."""
    return fresh_url()


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    """Return an open store."""
    with open_store(url, tmp_path) as opened:
        yield opened


@pytest.fixture
def run_info() -> RunInfo:
    """Return a run."""
    return RunInfo(
        id="r1",
        command="apply",
        started=10.0,
        user="ann",
        host="admin1",
        pid=4711,
        site="abc",
        generation=3,
    )


class Clock:
    """A clock that stands until a test sets it on."""

    def __init__(self, time: float) -> None:
        self.time = time

    def __call__(self) -> float:
        return self.time
