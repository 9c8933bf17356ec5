"""Sites that a controller keeps with deciders: see tests/plugins/controller/watch."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from cobweb.api import Site
from tests.support.served import BOARDS, Kept, Ran, eventually

__all__ = ["BANDIT", "COUNTER", "HARMLESS", "WATCH", "Watched", "told"]

WATCH = BOARDS.with_name("watch")
"""The folder of the plugin and its metadata."""

COUNTER, BANDIT = "counter", "bandit"
_WORKER = "cobweb_plugins.controller.deciders._worker"

HARMLESS = (
    "decide prints a line",
    "decide prints much",
    "decide prints much below",
    "decide takes back nothing",
    "decide remembers a zero",
    "decide leaves a child",
    "decide leaves a thread",
    "decide forks",
    "decide answers itself",
    "observe prints much",
    "observe reads by a child",
    "observe reads its input",
)
"""What `bandit` may do."""


@dataclass(slots=True)
class Watched(Kept):
    """A site with the sections of `deciders`, which have a decider each."""

    deciders: tuple[str, ...] = (COUNTER, BANDIT)
    asked: tuple[str, ...] = ("n1", "n2")
    misdeeds: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Kept.__post_init__(self)
        for name in ("wish", "pause", "at"):
            (self.home / name).mkdir()

    def text(self) -> str:
        """Return the text of site.yml."""
        data = {COUNTER: {"hosts": self.asked, "home": str(self.home)}, BANDIT: self.misdeeds}
        lines = [f"{name}: {json.dumps(data[name])}\n" for name in self.deciders]
        return Kept.text(self) + "".join(lines)

    # What deciders see and do

    def wish(self, host: str, text: str) -> None:
        """Have `counter` find this text on a host."""
        file = self.home / "wish" / host
        new = file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(file)

    def does(self, deed: str) -> None:
        """Have `bandit` do this from now on."""
        (self.home / "does").write_text(deed, encoding="utf-8")

    def pause(self, step: str) -> None:
        """Have `counter` wait at this step."""
        (self.home / "pause" / step).touch()

    def go(self, step: str) -> None:
        """Have `counter` wait there no more."""
        (self.home / "pause" / step).unlink()
        (self.home / "at" / step).unlink(missing_ok=True)  # of one that was killed there

    def at(self, step: str) -> int:
        """Wait until `counter` waits at this step; return the id of the worker."""
        file = self.home / "at" / step
        eventually(file.exists, f"the decider comes to the step {step}")
        pid: int = [it for it in self.turns() if it[0] == COUNTER][-1][2]
        return pid

    def turns(self) -> list[list[Any]]:
        """Return [decider, step, process, ...] of all steps in their order."""
        file = self.home / "turns"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def steps(self, name: str, step: str) -> list[list[Any]]:
        """Return those of a decider that are this step."""
        return [it for it in self.turns() if it[:2] == [name, step]]

    def misbegotten(self) -> int:
        """Return the process that `bandit` has left."""
        file = self.home / "child"
        eventually(lambda: file.exists() and file.read_text(), "the child")
        return int(file.read_text())

    # What is kept of them

    def history(self, section: str = COUNTER) -> list[Any]:
        """Return all that was decided in a section, the oldest first."""
        data = self.done("decisions", section, "--history", "-o", "json").data
        return list(reversed(data["sections"][section]["history"]))

    def decided(self, section: str = COUNTER) -> dict[str, Any]:
        """Return what is decided in a section, by key."""
        data = self.done("decisions", section, "-o", "json").data
        return {it["key"]: it for it in data["sections"][section]["decisions"]}

    def wished(self, host: str) -> str | None:
        """Return the text that is decided for a host."""
        decision = self.decided().get(f"wish-{host}")
        return decision and decision["body"]["text"]

    def document(self, name: str = COUNTER) -> dict[str, Any]:
        """Return what the controller keeps of a decider; {} before its first turn."""
        with Site(self.folder) as site:
            document = site.memory(name).by_key.get("decider")
        return dict(document.body) if document else {}

    def amend(self, name: str = COUNTER, **fields: Any) -> None:
        """Change what the controller keeps of a decider, as if time had passed."""
        with Site(self.folder) as site:
            known = site.memory(name)
            body = {**known.by_key["decider"].body, **fields}
            site.remember(name, known.revision, {"decider": body}, "test", "time passes")

    def rest(self, name: str) -> float:
        """Return how long a decider rests after its last turn, that turn included."""
        document = self.document(name)
        return float(document["due_s"] - document["now_s"])

    def assert_fits(self) -> None:
        """Fail unless each write of `counter` is there once and its memory counts just these."""
        mine = [it for it in self.history() if it["author"] == COUNTER]
        numbers = [it["body"]["number"] for it in mine if it["body"] is not None]
        assert len(set(numbers)) == len(numbers), mine
        count = (self.document().get("memory") or {"count": 0})["count"]
        assert count == len(mine), (count, mine)

    def listed(self) -> dict[str, Any]:
        """Return what `cobweb deciders -o json` tells, by name."""
        return {it["name"]: it for it in self.done("deciders", "-o", "json").data["deciders"]}

    def notes(self, cob: str) -> list[str]:
        """Return the notes that `why` shows of an object."""
        found: list[str] = self.done("why", cob, "-o", "json").data["notes"]
        return found

    # Processes

    def workers(self) -> list[psutil.Process]:
        """Return the workers of the controllers of this site that are alive."""
        return [it for it in _of_site(self.home) if _WORKER in _words(it)]

    def leftovers(self) -> list[psutil.Process]:
        """Return all processes that were started for deciders of this site and are alive."""
        return list(_of_site(self.home))

    def end_all(self) -> None:
        """Kill what a test that failed has left."""
        for process in _of_site(self.home):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)


def told(ran: Ran, name: str) -> int:
    """Return how often standard error tells of a decider; lines are broken at blanks there."""
    return " ".join(ran.err.split()).count(f"decider {name}")


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _of_site(home: Path) -> Iterator[psutil.Process]:
    """Yield the children of this process, and orphans, that have the site's environment."""
    for process in psutil.process_iter():
        try:
            is_of = process.environ().get("WATCH_HOME") == str(home)
            is_alive = process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            continue
        if is_of and is_alive and process.pid != os.getpid():
            yield process
