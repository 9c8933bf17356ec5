"""Machines of namespaces for tests, in a corner of their own, which is clean afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cobweb.plugin import NodeRequest
from tests.support.machines import Corner
from tests.support.needed import need_fabric


@pytest.fixture
def corner(tmp_path: Path) -> Iterator[Corner]:
    """Return a corner; whatever a test left in it goes, and the test fails for it."""
    need_fabric()
    made = Corner(tmp_path, number=os.getpid() % 250)
    yield made
    made.close()


@pytest.fixture
def request_for(corner: Corner) -> NodeRequest:
    """Return what asks for a machine that is quick to start."""
    return corner.request("web1-1")
