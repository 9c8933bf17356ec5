"""The benchmark of `apply` runs, its runs keep the promises, and it says what it measured."""

from __future__ import annotations

import pytest

from benchmarks.apply import measure

pytestmark = [pytest.mark.full("the measurements on small sizes: make bench has them too")]


@pytest.mark.timeout(300)
def test_apply_is_measured_beside_the_bare_engine() -> None:
    rows = {row.what: row for row in measure("small")}
    assert rows.pop("promises broken").value == 0.0
    for row in rows.values():
        assert row.value is not None, row.what
        assert row.value > 0, row.what
