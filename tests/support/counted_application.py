"""A site whose application counts its own starts; its hosts are this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.support.operator import Run, StartedRun
from tests.support.pool_members import end_marked, marked, until

__all__ = ["NAME", "Begun", "CountedApplication"]

NAME = "ring"
LOCAL = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}


class Begun(NamedTuple):
    """A start of a phase as its command has told it; `start` is the number that it was given."""

    host: str
    phase: str
    instance: str
    start: int
    pid: int


class CountedApplication:
    """The application `ring` of the site in `folder`, below `base`.

    Commands of its phases append a line to one file when they begin and when they end, so that
    starts are counted by the program itself, and the lines have the order of what has happened.
    """

    def __init__(self, base: Path) -> None:
        self.base, self.folder, self.state_dir = base, base / "site", base / "state"
        self._said = base / "said"
        self.folder.mkdir(parents=True)

    def write(
        self,
        phases: Mapping[str, Any],
        hosts: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("n1", "n2"),
        *,
        more: Mapping[str, Any] | None = None,
        **application: Any,
    ) -> None:
        """Write the site; `more` are further sections, `application` what is said of it."""
        named = hosts if isinstance(hosts, Mapping) else {it: {} for it in hosts}
        body = {"on": "all", "state_dir": str(self.state_dir), "phases": phases, **application}
        site = {
            "cobweb": 1,
            "name": "counted",
            "inventory": {"all": {"hosts": named, "vars": LOCAL}},
            "applications": {NAME: body},
            **(more or {}),
        }
        text = json.dumps(site, indent=1)
        draft = self.base / "site.yml.new"  # who reads the site meanwhile finds all of it
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.folder / "site.yml")

    def command(self, phase: str, work: str = ":") -> str:
        """Return a command of a phase: it says when it begins, works, and says when it ends."""
        begins, ends = (
            f'echo "$COBWEB_HOST {phase} {it} $COBWEB_INSTANCE $COBWEB_START $$" >>{self._said}'
            for it in ("begins", "ends")
        )
        return f"{begins}; {work}; {ends}"

    def waits(self, name: str = "go", host: str = "*") -> str:
        """Return work that waits, on one host or all, until `let_go` is called with the name."""
        go = self.base / name
        return f"case $COBWEB_HOST in {host}) until [ -e {go} ]; do sleep 0.1; done;; esac"

    def let_go(self, name: str = "go") -> None:
        """Let work that waits go on."""
        (self.base / name).touch()

    def said(self) -> list[tuple[str, str, str]]:
        """Return host, phase, and `begins` or `ends`, in the order of what has happened."""
        return [(host, phase, what) for host, phase, what, *_ in self._lines()]

    def starts(self) -> dict[tuple[str, str], int]:
        """Return how often phases were started, by host and phase."""
        return Counter((it.host, it.phase) for it in self.begun())

    def begun(self, host: str = "", phase: str = "") -> list[Begun]:
        """Return the starts in their order, of one host or phase or of all."""
        return [
            Begun(its, own, instance, int(start), int(pid))
            for its, own, what, instance, start, pid in self._lines()
            if what == "begins" and host in ("", its) and phase in ("", own)
        ]

    def instances(self) -> set[str]:
        """Return the instances of all starts."""
        return {it.instance for it in self.begun()}

    def await_said(self, *lines: tuple[str, str, str]) -> None:
        """Wait until all of these lines were said, which takes longer where there are many."""
        until(lambda: set(lines) <= set(self.said()), 60.0 + len(lines))

    def await_supervised(self, host: str, phase: str) -> None:
        """Wait until the supervisor of a phase has told that its command is at work."""
        status = self.state_dir / "applications" / NAME / host / phase / "status.json"
        until(lambda: status.exists() and json.loads(status.read_text())["state"] == "running")

    def start(self, *words: str) -> StartedRun:
        """Begin `cobweb` in a process of its own; without words it is `app run`."""
        argv = self._argv(*(words or ("app", "run", NAME, "--yes")))
        return StartedRun(argv, self.base / "events", self.base)

    def cobweb(self, *words: str) -> Run:
        """Run `cobweb` to its end; without words it is `app run`."""
        with self.start(*words) as started:
            return started.end()

    def status(self) -> Any:
        """Return the data of `app status`."""
        ran = self.cobweb("app", "status", NAME, "-o", "json")
        assert ran.code == 0, ran.err
        return ran.data()

    def run_or_kill(self, moment_s: float | None, *, whole: bool = False) -> tuple[int, str]:
        """Begin `app run`; return exit code and what it said, by itself or killed at a moment.

        With `whole` all processes of its group are killed.
        """
        with subprocess.Popen(
            self._argv("app", "run", NAME, "--yes"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said = process.communicate(timeout=moment_s)[0]
            except subprocess.TimeoutExpired:
                (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
                said = process.communicate()[0]
        return process.returncode, said

    def at_work(self) -> list[int]:
        """Return all processes of its phases, and those that supervise them."""
        return [*marked(self.state_dir), *self.supervisors()]

    def supervisors(self, host: str = "") -> list[int]:
        """Return the processes that supervise phases now, of one host or of all."""
        homes = f"{self.state_dir}/applications/{NAME}/{host}"
        found = []
        for it in psutil.process_iter():
            with suppress(psutil.Error):
                words = it.cmdline()
                if words and words[-1].startswith(homes):
                    found.append(it.pid)
        return found

    def end(self) -> None:
        """End all that is at work of it."""
        end_marked(self.state_dir)
        until(lambda: not self.supervisors())

    def _argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "cobweb", "-C", str(self.folder), *words]

    def _lines(self) -> list[list[str]]:
        text = self._said.read_text(encoding="utf-8") if self._said.exists() else ""
        return [it.split() for it in text.splitlines()]
