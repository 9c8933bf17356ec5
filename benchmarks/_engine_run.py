"""One process that drives the engine over the large graph and says what that took.

Twice: from nothing known to all objects up; then, in a new engine with the states of the first, a
change of every hundredth object, which is found outdated and brought up again. There are no tasks:
whatever starts has ended well as soon as its turn comes, first in first out.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks._row import peak_mib
from benchmarks._sites import large_graph, tenth_of_hosts
from cobweb.engine import CheckEnded, Effect, Engine, StartCheck, StartTransition, TransitionEnded
from cobweb.engine import StateFound as Found
from cobweb.model import CobId, Graph, State, Transition
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import graph_stream, public_event

TOUCHED = 100
"""Every hundredth object is touched by the change."""

COLLECT_AFTER = (50_000, 20, 100)
"""When garbage is looked for: as rarely as the command line has it."""

MESSAGES = ("LockRequested", "LockGranted", "LockReleased", "LockRecalled")


def main(hosts: int, times: int, *, is_limited: bool) -> None:
    """Print as JSON: CPU seconds (the best of `times`), peak memory, messages, broken promises."""
    graph = large_graph(hosts)
    if is_limited:
        graph = replace(graph, budgets=(tenth_of_hosts(graph),))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    seconds = [_timed(graph) for _ in range(times)]
    first, change = min(seconds, key=sum)
    peak = peak_mib()
    checked = _Checked(graph)
    checked.run()
    report = {
        "cobs": len(graph.cobs),
        "needs": len(graph.needs),
        "first_s": first,
        "change_s": change,
        "peak_mib": peak,
        "messages": checked.messages,
        "digest": checked.digest,
        "violations": checked.violations,
    }
    print(json.dumps(report))


def _timed(graph: Graph) -> tuple[float, float]:
    """Return the CPU seconds of the first run and of the change.

    A second run is a process of its own, so it is not counted how the first engine goes, nor how
    the states that a journal has are made up here.
    """
    began = time.process_time()
    engine = _engine(graph)
    _drive(engine, {}, "down")
    first = time.process_time() - began
    known = _known(engine)
    del engine
    began = time.process_time()
    _drive(_engine(graph), known, "outdated")
    return first, time.process_time() - began


def _engine(graph: Graph) -> Engine:
    """Make an engine, and have the collector of garbage pass over it from then on."""
    engine = Engine(graph)
    gc.freeze()
    return engine


def _known(engine: Engine) -> dict[CobId, State]:
    """Return what a journal knows after a change of some objects."""
    touched = range(0, sys.maxsize, TOUCHED)
    return {cob: s for at, (cob, s) in enumerate(engine.states().items()) if at not in touched}


def _drive(engine: Engine, known: Mapping[CobId, State], found: State) -> None:
    jobs: deque[StartCheck | StartTransition] = deque()
    effects = engine.start(known)
    while True:
        for effect in effects:
            if type(effect) is StartTransition or type(effect) is StartCheck:
                jobs.append(effect)
        if not jobs:
            return
        effects = engine.step(_ended(jobs.popleft(), found))


def _ended(job: StartCheck | StartTransition, found: State) -> CheckEnded | TransitionEnded:
    if type(job) is StartTransition:
        return TransitionEnded(job.cob, True)  # noqa: FBT003 - keywords cost twice the time here
    return CheckEnded(job.cob, found)


class _Checked:
    """The same again, with an eye on every effect."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.violations: list[str] = []
        self.digest = 0
        self._seen: Counter[str] = Counter()

    @property
    def messages(self) -> int:
        """Return how many messages the objects said to each other."""
        return sum(self._seen[kind] for kind in MESSAGES)

    def run(self) -> None:
        """Check P1 to P5 on both runs."""
        engine = _engine(self.graph)
        self._check(engine, {}, "down")
        known = _known(engine)
        del engine
        self._check(_engine(self.graph), known, "outdated")

    def _check(self, engine: Engine, known: Mapping[CobId, State], found: State) -> None:
        events = self._events(engine, known, found)
        self.violations += check_promises(events, graph_stream(self.graph))

    def _events(
        self, engine: Engine, known: Mapping[CobId, State], found: State
    ) -> Iterator[dict[str, Any]]:
        jobs: deque[StartCheck | StartTransition] = deque()
        moving: dict[CobId, Transition] = {}
        effects = engine.start(known)
        while True:
            yield from self._told(effects, jobs, moving)
            if not jobs:
                break
            effects = engine.step(_ended(jobs.popleft(), found))
        yield {"type": "run.end", "exit_code": 4 if engine.unsettled() else 0}

    def _told(
        self,
        effects: Iterable[Effect],
        jobs: deque[StartCheck | StartTransition],
        moving: dict[CobId, Transition],
    ) -> Iterator[dict[str, Any]]:
        for effect in effects:
            self._seen[type(effect).__name__] += 1
            self.digest = zlib.crc32("|".join(map(str, effect)).encode(), self.digest)
            if isinstance(effect, StartCheck | StartTransition):
                jobs.append(effect)
            if isinstance(effect, StartTransition):
                moving[effect.cob] = effect.transition
            elif isinstance(effect, Found) and effect.cob in moving:
                step = moving.pop(effect.cob)
                pair = {"cob": effect.cob, "from": step.source, "to": step.dest}
                yield {"type": "transition.end", "state": effect.state, "result": "ok", **pair}
            event = public_event(effect)
            if event is not None:
                yield event


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), is_limited="limited" in sys.argv[3:])
