"""The demo as a user runs it: a process of its own, with nothing but `cobweb` on the PATH."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "inventories" / "demo" / "demo.py"
TIMEOUT_S = 280
WIDTH = 80


@pytest.mark.full("what README shows; the gate runs it from the package")
@pytest.mark.timeout(TIMEOUT_S + 10)
def test_the_demo_keeps_its_promise(tmp_path: Path) -> None:
    """It ends well, tells the order, fits a terminal, and leaves neither file nor process."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = _run(scratch, str(Path(sys.executable).parent))
    assert done.returncode == 0, done.stdout + done.stderr
    order = re.findall(r"^ +[0-9.]+ s  ([AB] \w+)$", done.stdout, re.MULTILINE)
    assert order == ["A up", "B up", "B down", "A down", "A up", "B up"]
    assert "asked B:  B heard: A says: good morning" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= WIDTH
    assert list(scratch.iterdir()) == []
    assert not [found for found in _command_lines() if str(tmp_path) in found]


@pytest.mark.full("that the verdict of the demo can fail")
def test_a_cobweb_that_does_nothing_fails_the_demo(tmp_path: Path) -> None:
    """The verdict comes from outside, not from what Cobweb says of itself."""
    lazy = tmp_path / "bin" / "cobweb"
    lazy.parent.mkdir()
    lazy.write_text("#!/bin/sh\n")
    lazy.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = _run(scratch, str(lazy.parent))
    assert done.returncode == 1
    assert done.stderr == "\nThe demo failed: expected from outside: A up, B up\n"
    assert list(scratch.iterdir()) == []


def _run(scratch: Path, folder: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DEMO)],
        cwd="/",
        env={
            "PATH": f"{folder}:/usr/bin:/bin",
            "TMPDIR": str(scratch),
            "HOME": str(scratch.parent),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def _command_lines() -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text())
        except OSError:
            continue
    return lines
