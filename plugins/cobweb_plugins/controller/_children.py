"""The commands that a controller calls: `cobweb plan`, `apply`, `rollback`, `drift`, as children.

Each is a session of its own: a signal to the controller's does not reach it, and a run goes on
where the controller ends. What they write goes to files without a name, so nothing is left behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_BEAT_S = 1.0
"""How often it is said, while a child is at work, that the controller lives."""

_LONGEST_S = 3600.0
"""How long a child may take that changes nothing."""

_SHOWN = 20
"""How many of the last lines of what a child said are kept."""

_TOLD = 3
"""How many objects are told of."""

_FINDINGS = re.compile(r"([0-9]+) findings?")

INVALID = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a child ended: its exit code, its data (None if it wrote none), its lines for people."""

    code: int
    data: Any
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """What says most: the first finding, the first objects that are not settled, or the end."""
        if not self.lines:
            return f"it ended with {self.code}"
        if found := _FINDINGS.fullmatch(self.lines[-1]):
            more = f" (and {int(found[1]) - 1} more)" if int(found[1]) > 1 else ""
            return f"{self.lines[max(-1 - int(found[1]), -len(self.lines))]}{more}"
        data = self.data if isinstance(self.data, Mapping) else {}
        out = [f"{it['cob']} is {it['state']}" for it in data.get("unsettled", ())]
        told = f": {', '.join(out[:_TOLD])}" if out else ""
        return f"{self.lines[-1]}{told}{', ...' if len(out) > _TOLD else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a plan says that policy goes by.

    `outages` are objects that go out or are restarted and `removals` those that are removed, but
    for those that were decided to go; `changed` are objects that the current generation has
    otherwise, `unsettled` others that are not where they should be, `drifted` those of them that
    were changed by hand. `file` is what `cobweb apply` takes.
    """

    code: int
    said: str = ""
    file: Path | None = None
    site: str = ""
    lines: tuple[str, ...] = ()
    outages: frozenset[str] = frozenset()
    removals: frozenset[str] = frozenset()
    is_pending: bool = False
    changed: frozenset[str] = frozenset()
    checks: bool = False
    converges: bool = True
    refusals: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    unsettled: frozenset[str] = frozenset()
    drifted: frozenset[str] = frozenset()

    @property
    def is_valid(self) -> bool:
        """Say whether there is a plan, be it one that an apply would refuse."""
        return bool(self.site)

    @property
    def is_wrong(self) -> bool:
        """Say whether there is none because of the site; else another try may make one."""
        return self.code == INVALID and not self.site

    @classmethod
    def of(cls, said: Said) -> Planned:
        """Return what a `cobweb plan -o json` said; without data only how it ended."""
        data = said.data
        if not isinstance(data, Mapping) or "downtime" not in data:
            return cls(code=said.code or 1, said=said.text, lines=said.lines or (said.text,))
        gone = frozenset(it["cob"] for it in data["changes"] if it["kind"] == "removed")
        released = frozenset(data["released"])
        steps = [it for stage in data["stages"] for it in stage]
        return cls(
            code=said.code,
            site=data["site"],
            lines=said.lines,
            outages=frozenset((*data["downtime"], *data["restarts"])) - released,
            removals=gone - released,
            is_pending=bool(steps or data["changes"] or data["waits"] or data["uncertain"]),
            changed=frozenset(it["cob"] for it in data["changes"]),
            checks=bool(data["checks"]),
            converges=data["converges"],
            refusals=tuple(it["message"] for it in data["refusals"]),
            proofs=tuple(data["proofs"]),
            unsettled=frozenset(it["cob"] for it in data["unsettled"]),
            drifted=frozenset(it["cob"] for it in data["unsettled"] if it["kind"] == "drift"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """Calls `cobweb` on folders of the site; `beat` is called while a child is at work.

    `forwards` says that a run is interrupted where the controller is; while one is at work,
    `meanwhile` is called as well.
    """

    beat: Callable[[], None]
    shared: Sequence[str] = ()
    forwards: bool = False
    meanwhile: Callable[[], None] = lambda: None

    def section(self, folder: Path) -> Said:
        """Return the section `serve` of the site in a folder."""
        return self._said(folder, "show", "serve", "-o", "json")

    def plan(self, folder: Path, at: Mapping[str, int], *words: str) -> Planned:
        """Plan the site in a folder with revisions of decisions; `words` are further options."""
        revisions = [word for name, it in at.items() for word in ("--at", f"{name}={it}")]
        return Planned.of(self._said(folder, "plan", "-o", "json", *revisions, *words))

    def run(self, folder: Path, command: str, *words: str) -> Said:
        """Carry out `apply`, `rollback` or `drift`: it goes on where this process ends."""
        return self._said(folder, command, "-o", "json", *words, is_run=True)

    def _said(self, folder: Path, *words: str, is_run: bool = False) -> Said:
        call = [sys.executable, "-m", "cobweb", "-C", str(folder), *self.shared, *words]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen(
                call,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, "NO_COLOR": "1"},
            )
            try:
                code = self._awaited(child, None if is_run else _LONGEST_S)
            except BaseException as error:
                if not is_run:
                    _kill(child)
                elif self.forwards and isinstance(error, KeyboardInterrupt):
                    _interrupt(child)
                raise
            return Said(code=code, data=_data(out), lines=_lines(err))

    def _awaited(self, child: subprocess.Popen[bytes], longest_s: float | None) -> int:
        end_s = None if longest_s is None else time.monotonic() + longest_s
        while True:
            with suppress(subprocess.TimeoutExpired):
                return child.wait(_BEAT_S)
            self.beat()
            if longest_s is None:
                self.meanwhile()
            if end_s is not None and time.monotonic() > end_s:
                _kill(child)
                return child.wait()


def _interrupt(child: subprocess.Popen[bytes]) -> None:
    """Interrupt a run as often as this process is interrupted, until it has ended."""
    while True:
        child.send_signal(signal.SIGINT)
        with suppress(KeyboardInterrupt):
            child.wait()
            return


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a child that changes nothing, and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _data(stream: IO[bytes]) -> Any:
    stream.seek(0)
    try:
        return json.load(stream)
    except ValueError:
        return None


def _lines(stream: IO[bytes]) -> tuple[str, ...]:
    stream.seek(0)
    text = stream.read().decode(errors="replace")
    return tuple(line for line in text.splitlines() if line.strip())[-_SHOWN:]
