"""Examples of a page of the docs: sites, and what `cobweb` prints about them.

An example begins with a block `yaml site.yml`; further blocks with a name are its other files, and
a `console` block has commands with what they print. A command that is not `cobweb` is left to bash.
What examples leave out is added below them, so that lines keep their numbers: the format version,
the inventory and the type of the first example of docs/site.md.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cobweb.cli import main
from tests.support.transcript import Command, steady, steps

__all__ = ["Example", "Shell", "blocks", "examples", "write_site"]

DOCS = Path(__file__).parents[2] / "docs"
TASKS = "- ansible.builtin.set_fact: {cob_state: up}\n"
THERE = "/srv/site"
"""Where the site of an example is, in the words of a page."""

_BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WHOLE = re.compile(r"^```yaml\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(slots=True, kw_only=True)
class Example:
    """A site of a page, and the commands that the page runs on it."""

    line: int
    files: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)


def blocks(page: str) -> list[re.Match[str]]:
    """Return the blocks of a page: language, name and text are their groups."""
    return list(_BLOCK.finditer(page))


def examples(page: str) -> list[Example]:
    """Return the examples of a page in their order."""
    found: list[Example] = []
    for match in blocks(page):
        kind, name, body = match.groups()
        if name == "site.yml":
            found.append(Example(line=page.count("\n", 0, match.start()) + 1))
        if name:
            found[-1].files[name] = body
        elif kind == "console":
            found[-1].commands += [step for step in steps(match[0]) if isinstance(step, Command)]
    return found


def write_site(files: Mapping[str, str], folder: Path) -> None:
    """Write the files of an example, and what all examples share."""
    first = dict(_WHOLE.findall((DOCS / "site.md").read_text(encoding="utf-8")))
    added = {
        "cobweb": "cobweb: 1\n",
        "inventory": "inventory: hosts.yml\n",
        "types": "types:\n" + first["site.yml"].partition("\ntypes:\n")[2],
    }
    site = files["site.yml"]
    rest = "".join(text for key, text in added.items() if not re.search(rf"(?m)^{key}:", site))
    shared = {f"stage/{name}.yml": TASKS for name in ("check", "start", "stop")}
    shared["hosts.yml"] = first["hosts.yml"]
    for name, text in {**shared, **files, "site.yml": site + rest}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@dataclass(kw_only=True)
class Shell:
    """A terminal in the folder of an example; `cobweb` runs in process."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    code: int = 0
    seen: str = ""

    def run(self, command: Command) -> str:
        """Run a command; return what it prints, steady and in the words of the page."""
        line = self._filled(command.line)
        printed = self._cobweb(line) if line.startswith("cobweb ") else self._bash(line)
        self.seen += printed
        return steady(printed.replace(str(self.folder), THERE))

    def check(self, *arguments: str) -> int:
        """Run `cobweb` and return its exit code."""
        return main(["-C", str(self.folder), *arguments])

    def _filled(self, line: str) -> str:
        """Put the id that was printed last in place of the one on the page."""
        known = re.findall(r"hold-\d{8}-\d{6}-[0-9a-f]{4}", self.seen)
        return re.sub(r"hold-\d{8}-\d{6}-[0-9a-f]{4}", known[-1], line) if known else line

    def _cobweb(self, line: str) -> str:
        self.capsys.readouterr()
        self.code = main(["-C", str(self.folder), *line.split()[1:]])
        printed = self.capsys.readouterr()
        return printed.out + printed.err

    def _bash(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", f"(exit {self.code}); {line}"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr
