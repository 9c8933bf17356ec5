"""Real runs of the real program: a workshop where sites are made, applied, killed and looked at."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.ports import free_ports, listens

DEMO = Path(__file__).resolve().parents[2] / "inventories" / "demo"
COBWEB = (sys.executable, "-m", "cobweb")


@dataclass(frozen=True, slots=True)
class Ran:
    """What one call of `cobweb` did."""

    code: int
    out: str
    err: str


@dataclass
class Workshop:
    """A site folder, the programs started on it, and what they leave behind."""

    site: Path
    env: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[Any]] = field(default_factory=list)

    def run(self, *arguments: str, timeout_s: float = 120) -> Ran:
        """Run `cobweb` to its end, with no terminal."""
        done = subprocess.run(
            [*COBWEB, "-C", str(self.site), *arguments],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            env={**os.environ, **self.env},
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `cobweb` with pipes, in a process group of its own."""
        process = subprocess.Popen(
            [*COBWEB, "-C", str(self.site), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **self.env},
        )
        self.started.append(process)
        return process

    def states(self) -> dict[str, dict[str, Any]]:
        """Return what the journal believes, by object."""
        ran = self.run("status", "-o", "json")
        assert ran.code == 0, ran.err
        return {cob["id"]: cob for cob in json.loads(ran.out)["cobs"]}

    def graph(self) -> dict[str, Any]:
        """Return `cobweb graph -o json`."""
        found: dict[str, Any] = json.loads(self.run("graph", "-o", "json").out)
        return found

    def mine(self) -> list[psutil.Process]:
        """Return the processes that say on their command line or in their folder whose they are."""
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def _is_mine(self, process: psutil.Process) -> bool:
        if process.pid == os.getpid():
            return False
        try:
            return process.environ().get("COBWEB_TEST_MARK") == self.env["COBWEB_TEST_MARK"]
        except psutil.Error:
            return False

    def close(self) -> None:
        """End everything that was started here, by its process id."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for left in self.mine():
            left.send_signal(signal.SIGKILL)


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    """Return an empty workshop; what it started is ended."""
    made = Workshop(tmp_path / "site", {"COBWEB_TEST_MARK": str(tmp_path), "TMPDIR": "/tmp"})  # noqa: S108
    made.site.mkdir()
    yield made
    made.close()


@dataclass
class Demo:
    """The demo's site in a workshop, with free ports."""

    workshop: Workshop
    ports: Sequence[int]

    def greet(self, words: str) -> None:
        """Change the configuration's content."""
        file = self.workshop.site / "group_vars" / "all.yml"
        text = re.sub(r"(?m)^greeting:.*$", f"greeting: {words}", file.read_text())
        file.write_text(text)

    def is_up(self) -> bool:
        """Say whether both services answer."""
        return all(listens(port) for port in self.ports)


@pytest.fixture
def demo(workshop: Workshop, tmp_path: Path) -> Iterator[Demo]:
    """Return a copy of the demo's site that is not applied yet; its services are ended."""
    shutil.copytree(DEMO, workshop.site, dirs_exist_ok=True)
    file = workshop.site / "group_vars" / "all.yml"
    ports = free_ports(2)
    values = {"demo_dir": str(tmp_path / "d" / "hosts"), "port_a": ports[0], "port_b": ports[1]}
    text = file.read_text()
    for name, value in values.items():
        text, found = re.subn(rf"(?m)^{name}:.*$", f"{name}: {value}", text)
        assert found == 1, name
    file.write_text(text)
    yield Demo(workshop, ports)
    subprocess.run([sys.executable, DEMO / "demo.py", "--end", tmp_path / "d"], check=True)
