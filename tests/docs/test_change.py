"""The how-to on changing a cluster is true: its commands, run in order, print what it says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.ports import free_ports
from tests.support.supervised import end_supervised, supervisors
from tests.support.transcript import File, Reader, steady, steps

PAGE = Path(__file__).parents[2] / "docs" / "change-a-running-cluster.md"
BASE = "/tmp/cobweb-live"  # noqa: S108  the page's own words; the test puts another folder there
PORTS = ("18111", "18112")
TOLD_AS_THEY_END = ("cobweb apply", "cobweb rollback")
"""What goes on at the same time ends in any order, and so do these commands' lines."""


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return where the hosts are, a short path; end what the site started there."""
    made = tmp_path_factory.mktemp("live")
    yield made
    end_supervised(made)


@pytest.fixture
def reader(base: Path, tmp_path: Path) -> Reader:
    """Make a reader whose site is at `tmp_path`."""
    here = [str(base), quote(str(base), safe=""), *map(str, free_ports(len(PORTS)))]
    return Reader(
        folder=tmp_path,
        places=dict(zip((BASE, quote(BASE, safe=""), *PORTS), here, strict=True)),
        path=f"{Path(sys.executable).parent}:/usr/bin:/bin",
    )


@pytest.mark.full("a page of commands on real processes; the gate has the demo of README")
@pytest.mark.timeout(600)
def test_each_command_prints_what_the_page_says(reader: Reader, base: Path) -> None:
    for step in steps(PAGE.read_text(encoding="utf-8")):
        if isinstance(step, File):
            reader.write(step)
            continue
        printed, said = steady(reader.run(step)), steady(step.output)
        if step.line.startswith(TOLD_AS_THEY_END):
            assert sorted(printed.splitlines()) == sorted(said.splitlines()), f"$ {step.line}"
        else:
            assert printed == said, f"$ {step.line}"
    assert supervisors(base) == []
