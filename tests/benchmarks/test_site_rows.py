"""The rows about loading and planning a site: each has a figure, and the small run is short."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.site import HOSTS, measure
from cobweb.site._cache import MIN_COBS

pytestmark = [pytest.mark.full("the measurements on small sizes: make bench has them too")]


def test_the_small_run_gives_every_row() -> None:
    rows = list(measure("small"))
    assert Counter(row.what.partition(":")[0] for row in rows) == {"site": 8, "plan": 13}
    assert all(row.value is not None and row.value > 0 for row in rows)
    assert all(row.peer_value for row in rows if row.peer)
    assert len({row.what for row in rows}) == len(rows)
    assert "P1 to P5 checked and P6 compared" in rows[-4].note


def test_the_small_site_is_large_enough_to_be_kept() -> None:
    assert HOSTS["small"] * 50 >= MIN_COBS
