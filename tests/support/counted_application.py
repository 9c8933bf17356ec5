"""A site whose application counts its own starts; its hosts are this machine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support.pool_members import end_marked, until

__all__ = ["NAME", "CountedApplication"]

NAME = "ring"
LOCAL = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}


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
            f'echo "$COBWEB_HOST {phase} {it} $COBWEB_INSTANCE" >>{self._said}'
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
        return [(host, phase, what) for host, phase, what, _ in self._lines()]

    def starts(self) -> dict[tuple[str, str], int]:
        """Return how often phases were started, by host and phase."""
        return Counter((host, phase) for host, phase, what, _ in self._lines() if what == "begins")

    def instances(self) -> set[str]:
        """Return the instances of all starts."""
        return {instance for *_, instance in self._lines()}

    def await_said(self, *lines: tuple[str, str, str]) -> None:
        """Wait until all of these lines were said."""
        until(lambda: set(lines) <= set(self.said()))

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

    def _lines(self) -> list[list[str]]:
        text = self._said.read_text(encoding="utf-8") if self._said.exists() else ""
        return [it.split() for it in text.splitlines()]
