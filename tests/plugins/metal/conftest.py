"""Fixtures of the tests of metal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import check_schema, run
from tests.plugins.metal.fake import FakeServer, serving

__all__ = ["check_schema", "run"]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeServer]:
    """Return a boot server that knows no machine and has no image."""
    with serving(tmp_path / "server") as server:
        yield server
