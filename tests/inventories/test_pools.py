"""The example of pools as a new user has it: the commands of the page, for real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.inventories.conftest import Play

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pools.md").read_text(encoding="utf-8")
KEPT = (ROOT / "docs" / "keeping-a-site.md").read_text(encoding="utf-8")
STEP_S = 120
DEMO_S = 1200
GIT = {
    f"GIT_{who}_{what}": f"{who}@example.org".lower()
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


class User:
    """Types lines of the page into a shell; `site` is what they have made."""

    def __init__(self, home: Path) -> None:
        self.site = home / "mine"
        self.folder = home
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._env = {**os.environ, **GIT, "HOME": str(home), "PATH": path, "COLUMNS": "80"}
        self._env.pop("COBWEB_SITE", None)

    def types(self, line: str) -> tuple[int, str]:
        """Run a line; return its exit code and all that it has written."""
        if line.startswith("cd "):
            done = self._bash(f"{line} && pwd", self.folder)
            self.folder = Path(done.stdout.strip())
        else:
            done = self._bash(line, self.folder)
        return done.returncode, done.stdout + done.stderr

    def begins(self, line: str) -> subprocess.Popen[str]:
        """Begin a line that ends with `&` and writes into files."""
        return subprocess.Popen(
            ["/bin/bash", "-c", f"exec {line.removesuffix('&')}"],
            cwd=self.folder,
            env=self._env,
            text=True,
        )

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


def members(text: str) -> dict[str, str]:
    """Return how many members services have, by a table of them."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: row[-3 if row[0] == "spare" else 4] for row in rows if "running" in row}


@pytest.mark.full("minutes of a site that follows its load; the gate has its moves elsewhere")
@pytest.mark.timeout(900)
def test_the_pools_of_the_page_keep_themselves(tmp_path: Path) -> None:
    """Where the page shows a table the same command is said again until it shows that."""
    part = KEPT.partition("## Pools that keep themselves")[2].partition("\n## ")[0]
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", part, re.MULTILINE)
    user, gates = User(tmp_path), iter(("hpc", "batch"))
    serving, before = None, ""
    try:
        for line, output in steps:
            if line.endswith("&"):
                serving = user.begins(line)
                continue
            if line == "kill %1":
                continue
            gate = next(gates) if "sleep" in line else ""
            # A job lasts until the page has shown what it wants to show of it.
            waits = f"while [ ! -e {tmp_path}/{gate} ]; do sleep 0.2; done"
            typed = before + re.sub(r"sleep \d+", waits, line)
            if line.startswith("base="):  # which the shell of the page remembers
                before = f"{line}; "
            if output:
                awaited(user, typed, members(output))
            else:
                code, text = user.types(typed)
                assert code == 0, (typed, text)
            if "git push" in line:
                (tmp_path / "hpc").touch()
            if members(output).get("batch") == "3":
                (tmp_path / "batch").touch()
        assert (user.site / "who.svg").exists()
    finally:
        if serving is not None:
            serving.terminate()
            serving.wait(STEP_S)
        user.types(f"cobweb -C {user.site} pool stop hpc --free-resources --yes --wait 1m")
    (folder,) = set(re.findall(r"folder: (/\S*)/batch", (user.site / "site.yml").read_text()))
    done = [it.name for it in Path(folder).glob("*/done/*")]
    assert sorted(done) == sorted([f"job{it}.0" for it in (*range(1, 9), *range(1, 7))])
    assert not list(Path(folder).glob("*/members/*"))


def awaited(user: User, line: str, expected: dict[str, str]) -> None:
    """Say a line again until its table is as expected."""
    text = ""
    for _ in range(STEP_S):
        _, text = user.types(line)
        if members(text) == expected and "0 not at rest" in text:
            return
    raise AssertionError(f"{expected} did not come: {text}")


@pytest.mark.full("minutes of two real schedulers; the gate has one that is beside itself")
@pytest.mark.timeout(DEMO_S + 10)
@pytest.mark.netns
def test_the_demo_keeps_its_promises(tmp_path: Path, play: Play) -> None:
    """Machines follow the load of real schedulers, and the picture shows it."""
    play("schedulers", tmp_path, DEMO_S)
    assert "n6" in (tmp_path / "who-had-what.svg").read_text(encoding="utf-8")
