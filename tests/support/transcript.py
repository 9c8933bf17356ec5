"""Run the blocks of a page as its reader does, and compare what is printed with the page.

A page has files (blocks of `yaml` that begin with `# NAME`; a second block of a name is added to
the file) and terminals (blocks of `console`: `$ command`, then what it prints). All of them happen
in their order. A line `^C` stands where the reader interrupts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INTERRUPT = "^C"
PATIENCE_S = 120.0

_UNSTEADY = (
    (re.compile(r"\d+\.\d s\b"), "0.0 s"),
    (re.compile(r"\b\d\d-\d\d \d\d:\d\d:\d\d\b"), "01-31 12:00:00"),
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b"), "20250131-120000-1a2b"),
    (re.compile(r"(?<= by )\S+(?=:)"), "you"),
    (re.compile(r"\S+@\S+(?= (hold|run) )"), "you@here"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"), "2025-01-31 12:00:00 UTC"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?!:)"), "2025-01-31 12:00"),
    (re.compile(r"(?<=  )[0-9a-f]{7}(?=[+ \n])"), "1a2b3c4"),
)
"""What differs from run to run: durations, times, ids of runs, the user, Git commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the reader writes, or text to be added to it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command with what it prints according to the page."""

    line: str
    output: str

    @property
    def is_interrupted(self) -> bool:
        """Say whether the reader interrupts it."""
        return INTERRUPT in self.output.splitlines()


def steps(page: str) -> Iterator[File | Command]:
    """Yield the files and commands of a page in their order."""
    for kind, text in BLOCK.findall(page):
        if kind == "yaml":
            first, _, rest = text.partition("\n")
            yield File(name=first.removeprefix("# "), text=rest)
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            yield Command(line=line, output=output)


def steady(text: str) -> str:
    """Return an output with what differs from run to run made the same."""
    for pattern, word in _UNSTEADY:
        text = pattern.sub(word, text)
    return text


@dataclass
class Reader:
    """Somebody who types in what a page says, in a folder of their own.

    `places` are texts of the page and what stands for them here, such as ports that are free. The
    reader interrupts a command when its `events.jsonl` has all texts of `ripe`.
    """

    folder: Path
    places: Mapping[str, str]
    path: str
    ripe: tuple[str, ...] = ()
    code: int = 0
    written: set[str] = field(default_factory=set)

    def write(self, file: File) -> None:
        """Write a file, or add to it if the page wrote it before."""
        mode = "a" if file.name in self.written else "w"
        with (self.folder / file.name).open(mode, encoding="utf-8") as target:
            target.write(("\n" if mode == "a" else "") + self._here(file.text))
        self.written.add(file.name)

    def run(self, command: Command) -> str:
        """Run a command and return what it prints, in the words of the page."""
        if command.line.startswith("cd "):
            self.folder /= command.line.removeprefix("cd ")
            return ""
        script = f"(exit {self.code}); {self._here(command.line)}"
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if command.is_interrupted:
            self._interrupt(process)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.code = process.returncode
        return self._there(output)

    def _interrupt(self, process: subprocess.Popen[str]) -> None:
        """Press Ctrl-C, which reaches the whole process group, at the right moment."""
        events = self.folder / "events.jsonl"
        end = time.monotonic() + PATIENCE_S
        while not self._is_ripe(events):
            assert time.monotonic() < end, "it did not come to where it is interrupted"
            assert process.poll() is None, "the command ended before it could be interrupted"
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)

    def _is_ripe(self, events: Path) -> bool:
        seen = events.read_text(encoding="utf-8") if events.exists() else ""
        return bool(seen) and all(text in seen for text in self.ripe)

    def _here(self, text: str) -> str:
        for there, here in self.places.items():
            text = text.replace(there, here)
        return text

    def _there(self, text: str) -> str:
        for there, here in self.places.items():
            text = text.replace(here, there)
        return text

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COBWEB")}
        return kept | {
            "PATH": self.path,
            "HOME": str(self.folder),
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "PYTHONUNBUFFERED": "1",
            "LOGNAME": "you",
            "GIT_AUTHOR_NAME": "you",
            "GIT_AUTHOR_EMAIL": "you@localhost",
            "GIT_COMMITTER_NAME": "you",
            "GIT_COMMITTER_EMAIL": "you@localhost",
        }
