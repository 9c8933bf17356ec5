"""The example of pools as a new user has it: the commands of the page, for real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pools.md").read_text(encoding="utf-8")
STEP_S = 120


class User:
    """Types lines of the page into a shell; `site` is what they have made."""

    def __init__(self, home: Path) -> None:
        self.site = home / "mine"
        self.folder = home
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._env = {**os.environ, "HOME": str(home), "PATH": path}

    def types(self, line: str) -> tuple[int, str]:
        """Run a line; return its exit code and all that it has written."""
        if line.startswith("cd "):
            done = self._bash(f"{line} && pwd", self.folder)
            self.folder = Path(done.stdout.strip())
        else:
            done = self._bash(line, self.folder)
        return done.returncode, done.stdout + done.stderr

    def _bash(self, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )


@pytest.mark.full("three quarters of a minute; the gate has its moves in tests/plugins/pools")
def test_the_ten_minutes_of_the_page(tmp_path: Path) -> None:
    user = User(tmp_path)
    part = PAGE.partition("## A first pool in ten minutes")[2].partition("\n## ")[0]
    lines = re.findall(r"^\$ (.*)$", part, re.MULTILINE)
    gate, codes, said = tmp_path / "gate", [], []
    os.mkfifo(gate)
    for line in lines:
        # The job of the page lasts as long as this test wants it to.
        typed = line.replace("sleep 30", f"read _ < {gate}")
        if "--drain" in line:
            threading.Thread(target=gate.write_text, args=("go\n",), daemon=True).start()
        if "ls batch/running" in line:
            until(user.folder / "batch" / "running" / "n01" / "job1")
        code, text = user.types(typed)
        codes.append(code)
        said.append(text)
    moves = [(line, code) for line, code in zip(lines, codes, strict=True) if "pool move" in line]
    assert [code for _, code in moves] == [2, 0], said
    assert [code for code in codes if code] == [2], said
    assert "n01/pool-batch-n01  up -> draining" in said[-2]
    assert said[-1].endswith("n01 is in hpc\n")
    assert (user.folder / "batch" / "output" / "job1").read_text() == "done\n"
    owners = {it.parent.parent.name for it in user.folder.glob("*/members/n01")}
    assert owners == {"hpc"}
    code, text = user.types(f"cobweb -C {user.site} pool remove n01 --yes")
    assert code == 0, text
    assert not list(user.folder.glob("*/members/*"))


def until(path: Path) -> None:
    """Wait for a file that another process is about to make."""
    for _ in range(STEP_S * 100):
        if path.exists():
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"{path} did not come")
