"""The benchmark of reports runs in small and measures what it says."""

from __future__ import annotations

import pytest

from benchmarks.report import measure

pytestmark = [pytest.mark.full("the measurements on small sizes: make bench has them too")]


def test_every_form_is_measured_and_every_promise_held() -> None:
    rows = {row.what: row for row in measure("small")}
    (promises,) = [row for what, row in rows.items() if what.startswith("promises broken")]
    assert promises.value == 0
    assert {"page, CPU", "page, size", "page, peak memory"} <= set(rows)
    assert all(row.value for row in rows.values() if row is not promises)
    assert all(row.peer_value for row in rows.values() if row is not promises)
