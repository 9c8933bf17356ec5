"""The rows about loading a site: each has a figure, and the small run ends in seconds."""

from __future__ import annotations

from benchmarks.site import HOSTS, measure
from cobweb.inventory._kept import MIN_COBS


def test_the_small_run_gives_every_row() -> None:
    rows = list(measure("small"))
    assert [row.what.partition(":")[0] for row in rows] == ["site"] * len(rows)
    assert all(row.value is not None and row.value > 0 for row in rows)
    assert all(row.peer_value for row in rows if row.peer)
    assert len({row.what for row in rows}) == len(rows) == 8


def test_the_small_site_is_large_enough_to_be_kept() -> None:
    assert HOSTS["small"] * 50 >= MIN_COBS
