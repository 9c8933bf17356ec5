"""Two owners of one site, each a process with a database, as the page on transports says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cobweb.api import Site
from cobweb.errors import UsageError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins" / "write-a-transport.md"
SITE = """\
cobweb: 1
name: shared
inventory:
  all:
    hosts: {db1: , web1: }
    vars: {ansible_connection: local, ansible_python_interpreter: PYTHON}
cobs:
  conf: {type: file, on: db1, spec: {path: "ROOT/db.conf", content: "VERSION"}}
  page: {type: file, on: web1, spec: {path: "ROOT/page", content: "VERSION"}, requires: [conf@db1]}
"""
DIST = "Metadata-Version: 2.1\nName: cobweb-unix\nVersion: 1\n"
ENTRY = "[cobweb]\nunix = cobweb_unix\n"


class Shared:
    """The plugin, and a checkout of the site for each owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        blocks = re.findall(
            r"^```python\n# (\S+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
        )
        for name, text in blocks:
            (folder / name).write_text(text, encoding="utf-8")
        info = folder / "cobweb_unix-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(DIST, encoding="utf-8")
        (info / "entry_points.txt").write_text(ENTRY, encoding="utf-8")
        self.write("one")

    def write(self, version: str) -> None:
        """Have both checkouts want this content."""
        text = SITE.replace("ROOT", str(self.folder)).replace("VERSION", version)
        text = text.replace("PYTHON", sys.executable)
        for owner in ("east", "west"):
            (self.folder / owner).mkdir(exist_ok=True)
            (self.folder / owner / "site.yml").write_text(text, encoding="utf-8")

    def read(self, name: str) -> str | None:
        """Return what a file of a host holds."""
        file = self.folder / name
        return file.read_text(encoding="utf-8") if file.exists() else None

    @contextmanager
    def part(self, owner: str) -> Iterator[subprocess.Popen[str]]:
        """Run the program of the page for one owner, until its input is closed."""
        places = [str(self.folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
        with subprocess.Popen(
            [sys.executable, "part.py", owner, owner, str(self.folder / "post")],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def states(self, owner: str) -> dict[str, str]:
        """Return what the database of one owner knows."""
        with Site(self.folder / owner) as site:
            return {str(cob): it.state for cob, it in site.store().states().items()}


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


def line_of(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that a part says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> int:
    """Close a part's input, and wait for its end."""
    assert process.stdin is not None
    process.stdin.close()
    return process.wait(60)


@pytest.mark.full(
    "two programs with a transport, one killed; several kernels in one process are in the gate"
)
def test_one_waits_for_the_other_also_when_that_was_killed(shared: Shared) -> None:
    with shared.part("west") as west:
        with shared.part("east") as east:
            assert line_of(east) == "settled"
            assert line_of(west) == "settled"
            assert (shared.read("db.conf"), shared.read("page")) == ("one", "one")
            east.kill()
            east.wait()
        assert end(west) == 0
    assert shared.states("west") == {"web1/page": "up"}
    assert shared.states("east") == {"db1/conf": "up"}

    (shared.folder / "page").unlink()
    (shared.folder / "west" / ".cobweb").rename(shared.folder / "lost")
    with shared.part("west") as west:
        assert end(west) == 0
    assert shared.read("page") is None  # nobody has lent it what it needs
    with shared.part("west") as west, shared.part("east") as east:
        assert line_of(east) == "settled"
        assert line_of(west) == "settled"
        assert shared.read("page") == "one"
        assert (end(west), end(east)) == (0, 0)


def test_a_part_is_that_of_an_owner_over_a_transport(shared: Shared) -> None:
    with (
        Site(shared.folder / "east") as site,
        pytest.raises(UsageError, match="no transport post"),
        site.open("east", lender="east", owners={}, transport="post"),
    ):
        pass
