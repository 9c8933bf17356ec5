"""The large site of the benchmarks is the same as files and as a graph."""

from __future__ import annotations

from pathlib import Path

from benchmarks._sites import COBS_PER_HOST, NEEDS_PER_HOST, large_graph, write_site
from cobweb.site import load_site

HOSTS = 200


def test_the_site_evaluates_to_the_graph(tmp_path: Path) -> None:
    write_site(tmp_path, HOSTS)
    made, direct = load_site(tmp_path).graph(), large_graph(HOSTS)
    assert list(made.cobs) == list(direct.cobs)
    assert made.needs == direct.needs
    assert len(made.cobs) == COBS_PER_HOST * HOSTS
    assert len(made.needs) == NEEDS_PER_HOST * HOSTS - 1
