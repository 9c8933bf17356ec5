"""The benchmark of layouts compares the same layouts, and names what it measured."""

from __future__ import annotations

import pytest

from benchmarks import layout

pytestmark = [pytest.mark.full("the measurements on small sizes: make bench has them too")]


def test_the_small_size_runs_through() -> None:
    rows = {row.what: row for row in layout.measure("small")}
    assert len(rows) == 8
    assert all(row.value is not None for row in rows.values())
    assert rows["8 services on 20 nodes, CPU"].peer_value
    assert [row.target for row in rows.values() if row.target] == [0.5, 3.0]
