"""The benchmark of node tasks runs in small on local hosts, and each kind of row has a figure."""

from __future__ import annotations

import pytest

from benchmarks.tasks import measure

pytestmark = [pytest.mark.full("the measurements on small sizes: make bench has them too")]


@pytest.mark.timeout(180)
def test_the_small_run_gives_every_row() -> None:
    """It raises where a tool has left work undone, or where a run broke a promise."""
    rows = list(measure("small"))
    assert all(row.value is not None for row in rows if not row.missing)
    words = " ".join(row.what for row in rows)
    for part in ("wall", "CPU per task", "nothing to do", "locks held", "one slow host each"):
        assert part in words
    targets = [row.peer for row in rows if row.target is not None]
    assert {"ansible-playbook linear", "ansible-playbook free", ""} <= set(targets)
