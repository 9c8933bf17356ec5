"""Events of a run written by hand: `at` moves the clock, every other call adds one event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from cobweb_plugins.report.forms import Report, RunFacts, Story, make_report, record


@dataclass
class Tale:
    """The events of one run, in their order."""

    events: list[dict[str, Any]] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.add("version", events=1, cobweb="0.1.0")
        self.add("run.start", run="r1", generation=3, hosts=2, cobs=3)

    def add(self, kind: str, **rest: Any) -> None:
        seq = len(self.events) + 1
        self.events.append({"seq": seq, "time": 1000.0 + self.now, "type": kind, **rest})

    def at(self, now: float) -> None:
        self.now = now

    def state(self, cob: str, state: str, reason: str = "check", **said: Any) -> None:
        self.add("cob.state", cob=cob, state=state, reason=reason, **said)

    def lock(self, word: str, cob: str, holder: str, state: str = "up") -> None:
        self.add(f"lock.{word}", cob=cob, holder=holder, state=state)

    def start(self, cob: str, source: str = "down", dest: str = "up") -> None:
        self.add("transition.start", cob=cob, **{"from": source, "to": dest, "locks": []})

    def end(self, cob: str, *, source: str = "down", dest: str = "up", **said: Any) -> None:
        good = not said
        rest = {"from": source, "to": dest, "state": dest if good else "unknown"}
        result = "ok" if good else "failed"
        self.add(
            "transition.end", cob=cob, result=result, attempt=1, seconds=1.0, **{**rest, **said}
        )

    def switch(self, *hosts: str, generation: int = 3) -> None:
        self.add("generation.switch", hosts=list(hosts), generation=generation)

    def over(self, result: str = "ok", code: int = 0, **rest: Any) -> None:
        counts = {"hosts": 2, "cobs": 3, "waiting": 0}
        self.add("run.end", **{"result": result, "exit_code": code, "counts": counts, **rest})

    def story(self) -> Story:
        return record(self.events, "test")

    def report(self, facts: RunFacts | None = None) -> Report:
        return make_report(self.story(), facts or RunFacts())


@pytest.fixture
def tale() -> Tale:
    """Return the beginning of a run."""
    return Tale()


@pytest.fixture
def good(tale: Tale) -> Tale:
    """Return a run in which `web/app` waits for `db/db`, which takes three seconds."""
    for cob in ("db/db", "web/app", "web/cfg"):
        tale.state(cob, "down")
    tale.lock("request", "db/db", "web/app")
    tale.start("db/db")
    tale.start("web/cfg")
    tale.at(1)
    tale.end("web/cfg")
    tale.at(3)
    tale.end("db/db")
    tale.state("db/db", "up", "transition")
    tale.lock("grant", "db/db", "web/app")
    tale.at(4)
    tale.start("web/app")
    tale.at(6)
    tale.end("web/app")
    tale.lock("release", "db/db", "web/app")
    tale.over()
    return tale


@pytest.fixture
def bad(tale: Tale) -> Tale:
    """Return a run in which `db/db` fails, `web/app` waits for it, and `old` is not reached."""
    for cob in ("db/db", "web/app"):
        tale.state(cob, "down")
    tale.lock("request", "db/db", "web/app")
    tale.lock("request", "old/disk", "web/cfg")
    tale.start("db/db")
    tale.at(2)
    tasks = [
        {"name": "unpack", "status": "ok", "message": ""},
        {"name": "start <b>", "status": "failed", "message": "<script>alert(1)</script> & ]]>"},
    ]
    tale.end("db/db", message="start <b>: <script>alert(1)</script>", tasks=tasks)
    tale.state("db/db", "down")
    tale.over("failed", 1, unreachable={"old": "no route"})
    return tale


@pytest.fixture
def moved(tale: Tale) -> Tale:
    """Return a run that removes `web/app` and then lets its host switch, after all others."""
    tale.switch("db", "idle")
    tale.start("web/app", "up", "down")
    tale.at(2)
    tale.end("web/app", source="up", dest="down")
    tale.switch("web")
    tale.state("db/db", "up")
    tale.over()
    return tale
