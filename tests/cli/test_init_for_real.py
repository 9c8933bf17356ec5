"""The site that `cobweb init` makes runs as it is: a real file, a real process."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

Run = Callable[..., Any]
pytestmark = [
    pytest.mark.full("what init writes is applied for real; the gate simulates it"),
    pytest.mark.timeout(180),
]


def _processes(words: str) -> list[int]:
    """Return the processes that have these words in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended since
            continue
        if words in command:
            found.append(int(path.parent.name))
    return sorted(found)


@pytest.fixture
def made(run: Run, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Make a site; yield its folder and the one that it uses on the host, and clean both up."""
    site = tmp_path / "hello"
    assert run("init", site).code == 0
    hosts = yaml.safe_load((site / "hosts.yml").read_text(encoding="utf-8"))
    base = Path(hosts["all"]["vars"]["base"])
    yield site, base
    for process in _processes(str(base)):
        os.kill(process, signal.SIGKILL)
    shutil.rmtree(base, ignore_errors=True)


def test_it_comes_up_stays_and_follows_a_change(run: Run, made: tuple[Path, Path]) -> None:
    site, base = made
    ran = run("-C", site, "apply", "--yes")
    assert ran.code == 0, ran.err
    assert (base / "greeting.txt").read_text(encoding="utf-8") == "Hello from local\n"
    reader = _processes(f"tail -f {base}")
    assert len(reader) == 1
    assert run("-C", site, "plan", "--detailed-exitcode").code == 0

    hosts = site / "hosts.yml"
    text = hosts.read_text(encoding="utf-8")
    hosts.write_text(text.replace("greeting: Hello", "greeting: Good morning"), encoding="utf-8")
    assert run("-C", site, "plan", "--detailed-exitcode").code == 2
    ran = run("-C", site, "apply", "--yes")
    assert ran.code == 0, ran.err
    assert (base / "greeting.txt").read_text(encoding="utf-8") == "Good morning from local\n"
    again = _processes(f"tail -f {base}")
    assert len(again) == 1
    assert again != reader
