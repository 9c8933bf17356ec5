"""The benchmark of planners measures both beside the lower bound, and its page has its figures."""

from __future__ import annotations

import pytest

from benchmarks import tasks_plan

pytestmark = [pytest.mark.full("the measurements on small sizes: make bench has them too")]


def test_the_small_size_runs_through() -> None:
    rows = list(tasks_plan.measure("small"))
    assert all(row.value is not None for row in rows)
    makespans = [row for row in rows if row.what.startswith("makespan")]
    assert len(makespans) == 16
    for row in makespans:
        assert row.value is not None
        assert row.peer_value is not None
        assert 1 - 1e-9 <= row.value <= row.peer_value
