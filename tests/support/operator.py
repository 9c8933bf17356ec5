"""An operator at a fabric: runs `cobweb` in its network and keeps what each run told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.fabric import Fabric, FabricHost

__all__ = ["Operator", "Run", "StartedRun"]

_COBWEB = str(Path(sys.executable).with_name("cobweb"))
_RUN_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a command told: exit code, both outputs, and the events of an apply."""

    code: int
    out: str
    err: str
    events: tuple[Mapping[str, Any], ...] = ()

    def data(self) -> Any:
        """Return the JSON on standard output."""
        return json.loads(self.out)

    def transitions(self) -> list[tuple[str, str]]:
        """Return object and new state of all transitions that ended well, in their order."""
        ended = (event for event in self.events if event["type"] == "transition.end")
        return [(event["cob"], event["to"]) for event in ended if event["result"] == "ok"]


class StartedRun:
    """A command that is at work; killed if it still is when its `with` ends."""

    def __init__(self, argv: Sequence[str], events: Path, folder: Path) -> None:
        self._events = events
        self._read: list[str] = []
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(folder),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.process.communicate()

    def await_error_line(self, words: str) -> None:
        """Wait until it says a line with `words` on standard error."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._read.append(line)
            if words in line:
                return
        raise AssertionError(f"it ended without saying {words!r}: {''.join(self._read)}")

    def end(self) -> Run:
        """Wait for its end and return what it told."""
        out, rest = self.process.communicate(timeout=_RUN_S)
        err = "".join([*self._read, rest])
        events: tuple[Mapping[str, Any], ...] = ()
        if self._events.exists():
            lines = self._events.read_text(encoding="utf-8").splitlines()
            events = tuple(json.loads(line) for line in lines)
        return Run(code=self.process.returncode, out=out, err=err, events=events)


class Operator:
    """Works on one site from the fabric's network; `folder` is the site.

    `under` is a command that runs another one, here cobweb.
    """

    def __init__(self, fabric: Fabric, folder: Path, *, under: Sequence[str] = ()) -> None:
        self._fabric = fabric
        self._under = under
        self._runs = 0
        self.folder = folder

    def write_inventory(
        self,
        groups: Mapping[str, Sequence[FabricHost]],
        variables: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Write hosts.yml of the site: groups, and variables by host."""
        inventory = self._fabric.inventory(groups)
        for name, more in (variables or {}).items():
            inventory["all"]["hosts"][name] |= more
        self._write("hosts.yml", inventory)

    def set_variables(self, **variables: Any) -> None:
        """Write the variables of all hosts."""
        (self.folder / "group_vars").mkdir(exist_ok=True)
        self._write("group_vars/all.yml", variables)

    def cobweb(self, *arguments: str) -> Run:
        """Run a command of cobweb to its end."""
        with self.start(*arguments) as started:
            return started.end()

    def start(self, *arguments: str) -> StartedRun:
        """Begin a command of cobweb."""
        return self._start(arguments, self._next_events())

    def start_apply(self, *options: str, command: str = "apply") -> StartedRun:
        """Begin an apply, or another `command` that is one, with its events kept.

        A test may take away all of its few objects.
        """
        events = self._next_events()
        agreed = ("--yes", "--max-removals", "100%")
        return self._start((command, *agreed, "--events", str(events), *options), events)

    def apply(self, *options: str, command: str = "apply") -> Run:
        """Run an apply to its end."""
        with self.start_apply(*options, command=command) as started:
            return started.end()

    def broken_promises(self, runs: Iterable[Run]) -> list[str]:
        """Return what runs did against P1 to P5."""
        from cobweb.testing.promises import check_promises

        graph = self.cobweb("graph", "-o", "json").data()
        return [text for run in runs for text in check_promises(run.events, graph)]

    def _start(self, arguments: Sequence[str], events: Path) -> StartedRun:
        argv = self._fabric.inside(*self._under, _COBWEB, "-C", str(self.folder), *arguments)
        return StartedRun(argv, events, self.folder)

    def _next_events(self) -> Path:
        self._runs += 1
        return self.folder / f"events-{self._runs}.jsonl"

    def _write(self, path: str, data: Any) -> None:
        (self.folder / path).write_text(json.dumps(data, indent=1), encoding="utf-8")


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of an operator whose own settings do not get in the way."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {**kept, "HOME": str(folder), "NO_COLOR": "1", "COLUMNS": "80"}
