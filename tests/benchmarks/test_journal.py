"""The benchmark of the journal runs, on both databases, and says what it measured."""

from __future__ import annotations

import pytest

from benchmarks.journal import measure

pytestmark = [pytest.mark.full("the measurements on small sizes: make bench has them too")]


@pytest.mark.timeout(300)
def test_the_journal_is_measured_beside_the_bare_databases() -> None:
    rows = list(measure("small"))
    for row in rows:
        assert row.missing or (row.value is not None and row.value > 0), row.what
    compared = [row for row in rows if row.peer]
    assert compared
    assert all(row.peer_value for row in compared)
