"""Planning a large site: the command as a whole, again when nothing has changed, and its parts.

The parts are measured in a process of their own (`python -m benchmarks._site_plan parts FOLDER
HOSTS`), so that neither holds memory that the other is blamed for.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from benchmarks._row import Row, cost
from benchmarks._sites import COBS_PER_HOST, host_name, large_graph
from cobweb.engine import (
    CheckEnded,
    Effect,
    Engine,
    Input,
    StartCheck,
    StartTransition,
    StateFound,
    TransitionEnded,
    analyse,
)
from cobweb.generation import EvaluatedSite, contents, redact
from cobweb.model import CobId, Graph, State
from cobweb.operations import Plan
from cobweb.operations.context._context import ExecutionContext
from cobweb.operations.planning._prediction import predict
from cobweb.site import load_site
from cobweb.store import StateWritten, open_store
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import graph_stream, public_event
from cobweb_plugins.planner import EventPlanner
from tests.support.contexts import context_over

_ROOT = Path(__file__).resolve().parents[1]
_WRITTEN_AT_ONCE = 5000
_THRESHOLDS = (50_000, 20, 100)
"""Those of the command line: see cobweb.cli."""


class Spent(Protocol):
    """What a command took."""

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU."""

    @property
    def peak_mib(self) -> float:
        """Peak of resident memory."""


Run = Callable[..., Spent]
"""Runs `cobweb` with an environment on a site: `run(environment, site, *arguments)`."""


def plan_rows(run: Run, site: Path, hosts: int, home: Path) -> Iterator[Row]:
    """Yield what planning the site costs; `home` is for what is kept."""
    keeping = {"COBWEB_NO_CACHE": "", "XDG_CACHE_HOME": str(home)}
    first, wall_s = _timed(run, keeping, site, "plan")
    what = f"cobweb plan of {hosts} hosts x {COBS_PER_HOST} objects"
    yield Row(
        what=f"plan: {what}, nothing known, CPU",
        value=first.cpu_s,
        target=30,
        note=f"load, validate, expand, hash, plan and print in {wall_s:.1f} s by the clock",
    )
    yield Row(what=f"plan: {what}, peak", value=first.peak_mib, unit="MiB", target=2048)
    for form in ([], ["-o", "json"]):
        before = _timed(run, keeping, site, "plan", *form)[0] if form else first
        yield _again(run, keeping, site, before, " ".join(["the same", *form]))
    _own_process("up", site, hosts)
    rest, _ = _timed(run, keeping, site, "plan")
    yield Row(
        what="plan: all is up and known to be, CPU",
        value=rest.cpu_s,
        peer="nothing known",
        peer_value=first.cpu_s,
        note=f"the records of {hosts * COBS_PER_HOST} objects compared with the site",
    )
    yield _again(run, keeping, site, rest, "all is up")
    part, wall_s = _timed(run, keeping, site, "plan", "--limit", host_name(hosts // 2))
    yield Row(
        what="plan: --limit of one host, all is up, CPU",
        value=part.cpu_s,
        peer="all hosts",
        peer_value=rest.cpu_s,
        target=1,
        note=f"{wall_s:.2f} s by the clock",
    )
    yield from _part_rows(site, hosts)


def _again(run: Run, keeping: Mapping[str, str], site: Path, first: Spent, what: str) -> Row:
    again, wall_s = _timed(run, keeping, site, "plan", *(["-o", "json"] if "json" in what else []))
    return Row(
        what=f"plan: {what}, when nothing has changed, CPU",
        value=again.cpu_s,
        peer="the first time",
        peer_value=first.cpu_s,
        target=3,
        note=f"{wall_s:.2f} s by the clock; the records of the journal are read each time",
    )


def _timed(
    run: Run, keeping: Mapping[str, str], site: Path, *arguments: str
) -> tuple[Spent, float]:
    began = time.perf_counter()
    return run(keeping, site, *arguments), time.perf_counter() - began


def _own_process(what: str, site: Path, hosts: int) -> str:
    """Do `what` where it takes none of this process's memory; return what it prints."""
    command = [sys.executable, "-m", "benchmarks._site_plan", what, str(site), str(hosts)]
    ended = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return ended.stdout


def _part_rows(site: Path, hosts: int) -> Iterator[Row]:
    parts = json.loads(_own_process("parts", site, hosts))
    if parts["violations"]:
        raise AssertionError(parts["violations"][0])
    whole = parts["seconds"]
    for name, target, note in (
        ("analyse", 4, "what can never work"),
        ("digests", 4, "of the site and of each object"),
        ("stages", 3, "the planner"),
        ("text", 3, "the table for people"),
        ("json", 3, "the same as JSON"),
    ):
        yield Row(what=f"plan: {name}, CPU", value=whole[name], target=target, note=note)
    yield Row(
        what="plan: the prediction, CPU",
        value=whole["predict"],
        peer="the engine alone",
        peer_value=whole["engine"],
        target=whole["engine"] + 4,
        note=f"P1 to P5 checked and P6 compared on a tenth: {parts['events']} events",
    )


# --- what is done in processes of their own


def _bring_up(folder: Path) -> None:
    """Write into the journal that every object is up with the content of the site."""
    site = load_site(folder)
    graph = site.graph()
    digests = contents(graph)
    cobs = iter(graph.cobs.values())
    with open_store(site.state_url, site.dir) as store:
        while some := list(islice(cobs, _WRITTEN_AT_ONCE)):
            store.write(
                [
                    StateWritten(
                        cob=cob.id,
                        state=cob.type.preferred,
                        reason="check",
                        time=1.0,
                        content=digests[cob.id],
                        applied=redact(cob.spec),
                    )
                    for cob in some
                ]
            )


def _parts(folder: Path, hosts: int) -> None:
    gc.set_threshold(*_THRESHOLDS)
    events, violations = _checked(large_graph(hosts // 10))
    site = load_site(folder)
    graph = site.graph()
    gc.collect()
    seconds: dict[str, float] = {}
    with cost() as analysed:
        found = analyse(graph)
    violations += [str(trouble) for trouble in found]
    with cost() as digests:
        evaluated = EvaluatedSite(graph, site.hosts)
        assert len(evaluated.contents) == len(graph.cobs)
        assert evaluated.digest
    removed = {cob: it.type.remove for cob, it in graph.cobs.items()}
    with cost() as engine:
        _drive(Engine(graph), removed)
    context = context_over(graph)
    with cost() as predicted:
        prediction = predict(context)
    with cost() as staged:
        stages = EventPlanner().stages(graph, prediction.steps)
    plan = Plan(
        site="", base="", run="", generation=0, changes=(), checks=(), stages=stages, waits=()
    )
    seconds |= _printed(plan)
    seconds |= {"analyse": analysed.cpu_s, "digests": digests.cpu_s, "engine": engine.cpu_s}
    seconds |= {"predict": predicted.cpu_s, "stages": staged.cpu_s}
    print(json.dumps({"seconds": seconds, "events": events, "violations": violations}))


def _printed(plan: Plan) -> dict[str, float]:
    """Return the seconds of writing a plan as text and as JSON."""
    from cobweb.cli._cached_plans import Printer
    from cobweb.cli._request import Format
    from cobweb.cli.plan import tell_plan

    with cost() as text:
        tell_plan(Printer(), plan)
    with cost() as data:
        Printer(format=Format.JSON).data(plan.as_data())
    return {"text": text.cpu_s, "json": data.cpu_s}


def _drive(engine: Engine, found: Mapping[CobId, State]) -> None:
    """Run the engine to its end as a prediction does, and note nothing."""
    jobs: deque[Input] = deque()
    effects: Iterable[Effect] = engine.start({})
    while True:
        for effect in effects:
            if isinstance(effect, StartTransition):
                jobs.append(TransitionEnded(cob=effect.cob, ok=True))
            elif isinstance(effect, StartCheck):
                jobs.append(CheckEnded(cob=effect.cob, state=found[effect.cob]))
        if not jobs:
            return
        effects = engine.step(jobs.popleft())


def _checked(graph: Graph) -> tuple[int, list[str]]:
    """Predict with an eye on every effect: how many events, and what they break of P1 to P6."""
    context = context_over(graph)
    watched = _WatchedContext(context)
    one = predict(watched)  # type: ignore[arg-type]  # it is told through
    events = [*watched.events, {"type": "run.end", "exit_code": 4 if one.waits else 0}]
    violations = check_promises(events, graph_stream(graph))
    if one != predict(context):
        violations.append("P6: the same site and states give another plan")
    return len(events), violations


class _WatchedContext:
    """A context whose engine is watched."""

    def __init__(self, context: ExecutionContext) -> None:
        self._context = context
        self.events: list[Mapping[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def engine(self, **options: Any) -> _Watched:
        """Return an engine that was not started yet."""
        watched = _Watched(self._context.engine(**options))
        self.events = watched.events
        return watched


class _Watched:
    """An engine whose effects are kept as public events."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._moving: dict[CobId, tuple[State, State]] = {}
        self.events: list[Mapping[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def start(
        self, known: Mapping[CobId, State], locks: Iterable[Any] = (), **beliefs: Any
    ) -> tuple[Effect, ...]:
        """Begin, and keep what is told."""
        return self._told(self._engine.start(known, locks, **beliefs))

    def step(self, event: Input, now_s: float = 0.0) -> tuple[Effect, ...]:
        """Go on, and keep what is told."""
        return self._told(self._engine.step(event, now_s))

    def _told(self, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
        for effect in effects:
            if isinstance(effect, StartTransition):
                self._moving[effect.cob] = (effect.transition.source, effect.transition.dest)
            elif isinstance(effect, StateFound) and effect.cob in self._moving:
                source, dest = self._moving.pop(effect.cob)
                end = {"cob": effect.cob, "from": source, "to": dest, "state": effect.state}
                self.events.append({"type": "transition.end", "result": "ok", **end})
            event = public_event(effect)
            if event is not None:
                self.events.append(event)
        return effects


if __name__ == "__main__":
    if sys.argv[1] == "up":
        _bring_up(Path(sys.argv[2]))
    else:
        _parts(Path(sys.argv[2]), int(sys.argv[3]))
