"""The tutorial is true: its commands, run in their order, print what the page says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.ports import free_ports
from tests.support.supervised import end_supervised, supervisors
from tests.support.transcript import INTERRUPT, Command, File, Reader, steady, steps

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BASE = "/tmp/cobweb-shop"  # noqa: S108  the page's own words; the test puts another folder there
SUPERVISORS = "/state/process"
PORTS = ("18091", "18092")
MIGRATION_RUNS = ('"transition.start"', '"cob":"back01/migration","holder":"back01/api"')
"""What the events say when the migration runs, all checks are in, and the api waits for it."""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Make a reader whose site and hosts live below `tmp_path`; end what the site started."""
    base = tmp_path / "hosts"
    here = [str(base), *map(str, free_ports(len(PORTS)))]
    yield Reader(
        folder=tmp_path,
        places=dict(zip((BASE, *PORTS), here, strict=True)),
        path=f"{Path(sys.executable).parent}:/usr/bin:/bin",
        ripe=MIGRATION_RUNS,
    )
    end_supervised(base)


@pytest.mark.full("a page of commands on real processes; the gate has the demo of README")
@pytest.mark.timeout(600)
def test_each_command_prints_what_the_page_says(reader: Reader) -> None:
    for step in steps(PAGE.read_text(encoding="utf-8")):
        if isinstance(step, File):
            reader.write(step)
            continue
        printed = steady(reader.run(step))
        assert printed == _said(step), f"$ {step.line}"
    _check_the_last_words(Path(reader.places[BASE]))


def _said(command: Command) -> str:
    lines = steady(command.output).splitlines(keepends=True)
    return "".join(line for line in lines if line.strip() != INTERRUPT)


def _check_the_last_words(base: Path) -> None:
    """Check that the pattern with which the page ends the services fits them and nothing else."""
    words = f"pkill -f {BASE}{SUPERVISORS}\n"
    assert words in PAGE.read_text(encoding="utf-8")
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if str(base) + SUPERVISORS in command:
            found.append(process.pid)
    assert sorted(found) == supervisors(base)
    assert len(found) == 2
