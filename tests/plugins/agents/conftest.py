"""Fixtures of the tests of agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import check_schema, run
from tests.support.agents import Base, Owned, owned

__all__ = ["check_schema", "run"]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Base]:
    """Return the folder of a site, with keys and a server at work."""
    made = Base(tmp_path_factory.mktemp("agents"))
    yield made
    made.take_down()


@pytest.fixture
def site(base: Base, tmp_path: Path) -> Iterator[Owned]:
    """Return the site in one test."""
    with owned(base, tmp_path) as made:
        yield made
