"""The processes that `apply` measures: `python -m benchmarks._runs FOLDER KIND`."""

from __future__ import annotations

import heapq
import json
import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from benchmarks._tape import SEED, trouble
from cobweb._clock import wall_clock
from cobweb.engine import CheckEnded, Engine, HostVanished, StartCheck, StartTransition
from cobweb.engine import TransitionEnded as Ended
from cobweb.model import Action, Job, JobKind, Nothing, Outcome, Report, Role, Tasks, host_of
from cobweb.plugin import ExecutorSetting
from cobweb.site import load_site
from cobweb.store import Entry

PARALLEL = 1000
LONGEST_S, SHORTEST_S = 0.5, 0.05


class Paced:
    """An executor whose jobs take real time and do nothing; a hundredth of them fails."""

    name: ClassVar[str] = "paced"
    actions: ClassVar[frozenset[type[Action]]] = frozenset({Nothing, Role, Tasks})

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        self._random = random.Random(SEED)  # noqa: S311  # no secret
        self._running: list[tuple[float, int, Job]] = []
        self._woken = False

    def open(self, setting: ExecutorSetting) -> None:
        """Read what fails."""
        self._options = {key: frozenset(setting.options[key]) for key in ("fail", "unreachable")}

    def submit(self, job: Job) -> None:
        """Take a job; it ends after a random time."""
        end = time.monotonic() + self._random.uniform(SHORTEST_S, LONGEST_S)
        heapq.heappush(self._running, (end, job.number, job))

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Wait for the next end and return all that have ended."""
        due = self._running[0][0] - time.monotonic() if self._running else 0.0
        wait_s = due if timeout_s is None else min(due, timeout_s)
        if wait_s > 0.0 and not self._woken:
            time.sleep(wait_s)
        self._woken = False
        now, ended = time.monotonic(), []
        while self._running and self._running[0][0] <= now:
            ended.append(self._report(heapq.heappop(self._running)[2]))
        return ended

    def wake(self) -> None:
        """Let the next wait return at once."""
        self._woken = True

    def now(self) -> float:
        """Return the real clock."""
        return time.monotonic()

    def close(self, *, kill: bool = False) -> None:
        """Forget what is in flight."""
        del kill
        self._running.clear()

    def _report(self, job: Job) -> Report:
        if job.host in self._options["unreachable"]:
            return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no answer")
        if job.kind is JobKind.CHECK:
            return Report(number=job.number, outcome=Outcome.OK, state="down")
        failed = job.cob in self._options["fail"]
        outcome = Outcome.FAILED if failed else Outcome.OK
        return Report(number=job.number, outcome=outcome, message="it fails" if failed else "")


def main(folder: Path, kind: str) -> int:
    """Run one kind on the site in `folder`; the events go to a file of its name there."""
    if kind == "engine":
        drive_engine(folder)
    else:
        apply(folder, kind)
    return 0


def apply(folder: Path, kind: str) -> None:
    """Apply as the command does: site lock, journal, events in a file, progress nobody reads."""
    from dataclasses import replace

    from cobweb.cli._progress import Counter, PlainLines
    from cobweb.cli._running import goals_of
    from cobweb.operations import Caller, Orders, apply_site, desired_of, json_lines
    from cobweb.plugin import load_plugins
    from cobweb.store import RunInfo, open_store, this_process

    site, plugins = load_site(folder), load_plugins()
    plugins = replace(plugins, executors={**plugins.executors, "paced": Paced})
    executor = "simulate" if kind == "apply" else kind
    orders = Orders(executor=executor, parallel=PARALLEL, seed=SEED, options=trouble(site))
    info = RunInfo(id=kind, command=kind, started=wall_clock(), user="u", host="h", pid=1)
    commits = [0]
    with ExitStack() as stack:
        events = stack.enter_context((folder / f"{kind}.jsonl").open("w", encoding="utf-8"))
        nobody = stack.enter_context(Path("/dev/null").open("w", encoding="utf-8"))
        store = stack.enter_context(open_store(f"sqlite:///{kind}.db", folder))
        owner = this_process(run=kind, reason="apply", since=wall_clock())
        lock = stack.enter_context(store.site_lock(clock=wall_clock).acquire(owner))

        write = store.write

        def counted(entries: Sequence[Entry]) -> None:
            commits[0] += 1
            write(entries)

        stack.enter_context(patch.object(store, "write", counted))
        desired = desired_of(site)
        progress = PlainLines(Counter(goals_of(desired)), nobody)
        caller = Caller(sinks=[json_lines(events), progress], beat=lock.heartbeat)
        result = apply_site(desired, plugins, store, orders, caller, info=info)
    tell(
        folder / f"{kind}.told",
        events=folder / f"{kind}.jsonl",
        seconds=result.seconds,
        commits=commits[0],
        jobs=result.counts["checks"] + result.counts["transitions"],
    )


def tell(path: Path, *, events: Path, seconds: float, commits: int, jobs: int) -> None:
    """Write down what only this process knows; `floor_s` is what the jobs alone take."""
    with events.open("rb") as lines:
        number = sum(1 for _ in lines)
    floor_s = jobs * (SHORTEST_S + LONGEST_S) / 2 / PARALLEL
    told = {"events": number, "seconds": seconds, "commits": commits, "floor_s": floor_s}
    path.write_text(json.dumps(told), encoding="utf-8")


def drive_engine(folder: Path) -> None:
    """Drive the bare engine with random durations and the same trouble."""
    site = load_site(folder)
    options, choose = trouble(site), random.Random(SEED)  # noqa: S311  # no secret
    fail, lost = frozenset(options["fail"]), frozenset(options["unreachable"])
    low, high = options["durations"]["part"]
    engine = Engine(site.graph(None))
    effects, number, now = engine.start({}), 0, 0.0
    ends: list[tuple[float, int, CheckEnded | Ended]] = []
    gone: set[str] = set()
    while True:
        for effect in effects:
            number += 1
            if isinstance(effect, StartCheck):
                heapq.heappush(ends, (now, number, CheckEnded(cob=effect.cob, state="down")))
            elif isinstance(effect, StartTransition):
                ended = Ended(cob=effect.cob, ok=effect.cob not in fail)
                heapq.heappush(ends, (now + choose.uniform(low, high), number, ended))
        while ends and host_of(ends[0][2].cob) in gone:
            heapq.heappop(ends)
        if not ends:
            return
        now, _, first = heapq.heappop(ends)
        host = host_of(first.cob)
        if host in lost:
            gone.add(host)
            effects = engine.step(HostVanished(host=host))
        else:
            effects = engine.step(first)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
