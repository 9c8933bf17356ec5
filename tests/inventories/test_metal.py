"""The example of metal as a new user has it: the commands of the page, for real, and its output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metal.md").read_text(encoding="utf-8")
ALL_S = 300
PART = PAGE.partition("## Four machines in ten minutes")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PART, re.MULTILINE | re.DOTALL)
TYPED = [it for block in BLOCKS for it in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
STEPS = [(it.partition("\n")[0], it.splitlines()[1:]) for it in TYPED]
"""Lines that are typed, each with what the page shows of its output."""

VARIES = re.compile(r"127\.\d+\.\d+|\d+\.\d s|\d+ checks?|[\d-]{5,10} \d\d:\d\d(:\d\d)?")
"""Addresses, durations, times, and how many checks the moment asked for."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Return a home; what is left of its site afterwards is ended."""
    yield tmp_path
    site = tmp_path / "shop" / "site.yml"
    folders = re.findall(r"--folder=(.*)", site.read_text()) if site.exists() else []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(str(folder) in word for folder in (tmp_path, *folders) for word in words):
                os.kill(int(process.name), signal.SIGKILL)


@pytest.mark.full("most of a minute; the gate has the parts in tests/plugins/metal")
def test_the_ten_minutes_of_the_page(home: Path) -> None:
    said = typed([line for line, _ in STEPS], home)
    assert len(said) == len(STEPS) > 20
    missing = [
        (line, text)
        for (command, shown), (_, text) in zip(STEPS, said, strict=True)
        for line in shown
        if line != "..."
        and plain(line) not in {plain(it) for it in text.splitlines()}
        and not command.startswith("cobweb metal list")  # whose columns are as wide as addresses
    ]
    assert missing == []
    codes = [(command, code) for (command, _), (code, _) in zip(STEPS, said, strict=True) if code]
    assert codes == [("cobweb apply --yes", 1), ("cobweb drift", 2)], said


def typed(lines: list[str], home: Path) -> list[tuple[int, str]]:
    """Type lines into one shell; return exit code and output of each."""
    mark = "\nprintf '\\n@@%s\\n' $?\n"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/bash", "-c", f"exec 2>&1\n{mark.join(lines)}{mark}"],
        cwd=home,
        env={**os.environ, "HOME": str(home), "PATH": path, "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=ALL_S,
        check=False,
    )
    parts = re.split(r"^@@(\d+)\n", done.stdout, flags=re.MULTILINE)
    return [(int(code), text) for text, code in zip(parts[::2], parts[1::2], strict=False)]


def plain(line: str) -> str:
    """Return a line without what differs each time."""
    return " ".join(VARIES.sub("_", line).split())
