"""A site that two owners share, each by the program of the page on transports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cobweb.api import Site

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
    """The plugin, and a checkout of the site for each owner; they meet at `address`."""

    def __init__(self, folder: Path, address: str = "") -> None:
        self.folder, self.address = folder, address or str(folder / "post")
        for name, text in _blocks():
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
            [sys.executable, "part.py", owner, owner, self.address],
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


def _blocks() -> list[tuple[str, str]]:
    """Return the programs of the page, by their names."""
    found = re.findall(
        r"^```python\n# (\S+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return [(name, text) for name, text in found]


def program(owners: Mapping[str, str]) -> str:
    """Return the program of the page for these owners of hosts, of whom `east` lends."""
    text = dict(_blocks())["part.py"]
    made, count = re.subn(r"^OWNERS = .*$", f"OWNERS = {dict(owners)}", text, flags=re.MULTILINE)
    assert count == 1
    return made


def line_of(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that a part says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> int:
    """Close a part's input, and wait for its end."""
    assert process.stdin is not None
    process.stdin.close()
    return process.wait(60)
