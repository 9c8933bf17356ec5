"""What users ask for, each as one function: plan, apply, simulate.

`apply` of one site goes through all packages: the inventory evaluates it, the analysis says what
can never work, the journal says what is believed, the engine decides, an executor carries out. See
docs/architecture.md.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cobweb._clock import wall_clock
from cobweb.engine import Engine
from cobweb.errors import (
    CobwebError,
    ExecutorError,
    LockedError,
    PlanError,
    StoreError,
    UsageError,
)
from cobweb.generation import EvaluatedSite
from cobweb.model import CobId, Graph, host_of
from cobweb.plugin import Executor, ExecutorSetting, Planner, Plugins
from cobweb.runtime._baseline import Refresh, baseline
from cobweb.runtime._desired import Desired
from cobweb.runtime._dispatch import Dispatcher
from cobweb.runtime._events import Emitter, Sink
from cobweb.runtime._journal import NoJournal
from cobweb.runtime._plan import Plan, PlanFile, base_digest, changes_of
from cobweb.runtime._predict import at_rest, predict
from cobweb.runtime._result import Ending, RunResult, wait_data
from cobweb.runtime._run import Run, RunSetting
from cobweb.runtime._signals import Interrupts
from cobweb.runtime._site_act import SiteAct
from cobweb.store import CobRecord, Generation, RunInfo, RunRecord, Store

__all__ = [
    "DEFAULT_PARALLEL",
    "DEFAULT_TIMEOUT_S",
    "Caller",
    "Orders",
    "apply_site",
    "plan_site",
    "refuse_stale",
    "simulate_site",
]

DEFAULT_PARALLEL = 10
DEFAULT_TIMEOUT_S = 600.0
HEARTBEAT_S = 10.0
_PLANNER = "stages"
_SIMULATOR = "simulate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How a site is to be applied or simulated.

    `timeout_s` bounds a check or transition that has no bound of its own; `max_failures` turns the
    number of objects into how many may fail before nothing new is started; `options` go to the
    executor as they are. `message` is kept with the generation.
    """

    executor: str = "ansible"
    parallel: int = DEFAULT_PARALLEL
    timeout_s: float = DEFAULT_TIMEOUT_S
    refresh: Refresh = Refresh.CHANGED
    max_failures: Callable[[int], int] | None = None
    seed: int = 0
    verbosity: int = 0
    message: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is told of a run while it goes on, and can stop it.

    `beat` is called at least every `HEARTBEAT_S` seconds; `say` gets sentences for people.
    """

    sinks: Sequence[Sink] = ()
    interrupts: Interrupts = field(default_factory=Interrupts)
    beat: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda _text: None


def plan_site(
    desired: Desired, plugins: Plugins, store: Store, *, refresh: Refresh = Refresh.CHANGED
) -> Plan:
    """Predict what `apply_site` would do on the states that the journal believes; asks no host."""
    graph, movable = desired.graph, desired.movable
    records = _beliefs(store, desired)
    before = baseline(graph, records, refresh=refresh, contents=desired.evaluated.contents)
    prediction = at_rest(graph, before.known) or predict(
        graph, Engine(graph, movable=movable), known=before.known, found=before.found
    )
    return Plan(
        site=desired.evaluated.digest,
        base=base_digest(records),
        generation=store.current_generation_id(),
        changes=tuple(
            change
            for change in changes_of(before, records)
            if change.cob in movable or (change.kind == "gone" and desired.limit is None)
        ),
        checks=tuple(sorted(cob for cob in before.found if cob in movable)),
        uncertain=tuple(sorted(before.uncertain & movable)),
        stages=_planner(plugins).stages(graph, prediction.steps),
        waits=prediction.waits,
        down_s=prediction.down_s,
        seconds=prediction.seconds,
        limit=desired.limit,
        refresh=refresh,
    )


def refuse_stale(plan: PlanFile, desired: Desired, store: Store) -> None:
    """Raise PlanError where a saved plan does not fit the site or the journal any more."""
    hint = "make a new one with `cobweb plan --out`"
    if plan.site != desired.evaluated.digest:
        raise PlanError("the site has changed since the plan was made", hint=hint)
    if plan.base != base_digest(_beliefs(store, desired)):
        raise PlanError("the states have changed since the plan was made", hint=hint)


def apply_site(  # noqa: PLR0913  # what it works on, how, for whom, and as which run
    desired: Desired,
    plugins: Plugins,
    store: Store,
    orders: Orders,
    caller: Caller,
    *,
    info: RunInfo,
) -> RunResult:
    """Bring about what is desired as the run `info`; the caller holds the site lock.

    Raises StoreError, LockedError, ExecutorError; then what was in flight is left in transition and
    is checked by the next run.
    """
    _keep_apart(store, orders)
    graph = desired.graph
    records, locks = store.states(), store.locks()
    contents = desired.evaluated.contents
    before = baseline(graph, records, refresh=orders.refresh, contents=contents)
    before = replace(before, applied=dict(before.applied))  # a damaged record is told now
    with _executor(plugins, orders, desired) as (executor, setting):
        generation = store.save_generation(_generation(desired.whole(), orders, info))
        store.begin_run(_begun(info, orders, generation))
        emitter = Emitter(caller.sinks, executor.now)
        run = Run(
            RunSetting(
                run=info.id,
                graph=graph,
                generation=generation.id,
                missed=before.missed & {host_of(cob) for cob in desired.movable},
                max_failures=_most_failures(orders, desired.movable),
                beat=caller.beat,
                beat_s=HEARTBEAT_S,
                say=caller.say,
            ),
            _dispatcher(plugins, executor, setting, graph),
            store,
            emitter,
        )
        acts = [
            SiteAct(
                desired=desired,
                before=before,
                records=records,
                locks=locks,
                generation=generation.id,
            )
        ]
        with _told_if_broken(store, info):
            result = run.go(acts, caller.interrupts)
    store.end_run(
        RunRecord(
            info=info,
            result=str(result.ending),
            exit_code=result.exit_code,
            counts=result.counts,
            waits=wait_data(result),
            ended=wall_clock(),
        )
    )
    return result.with_notices(emitter.notices)


def _begun(info: RunInfo, orders: Orders, generation: Generation) -> RunInfo:
    """Return the run as it is stored; its command says where no real host was touched."""
    simulated = f" --executor {_SIMULATOR}" if orders.executor == _SIMULATOR else ""
    return replace(
        info,
        command=f"{info.command}{simulated}",
        site=generation.digest,
        generation=generation.id,
    )


def _keep_apart(store: Store, orders: Orders) -> None:
    """Raise UsageError where simulated states would be taken for real ones, or real for simulated.

    A journal belongs to real hosts or to a simulation, from its first run on.
    """
    last = store.last_run()
    if last is None:
        return
    was_simulated = last.info.command.endswith(f" --executor {_SIMULATOR}")
    if was_simulated == (orders.executor == _SIMULATOR):
        return
    whose = "a simulation" if was_simulated else "real hosts"
    raise UsageError(
        f"{store.label} holds the states of {whose}",
        hint="use a copy of the site, or another `state:`; `cobweb simulate` keeps no state",
    )


@contextmanager
def _told_if_broken(store: Store, info: RunInfo) -> Iterator[None]:
    """Write down that a run ended by an error, where the journal can still be written."""
    try:
        yield
    except Exception as error:
        code = error.exit_code if isinstance(error, CobwebError) else Ending.FAILED.exit_code
        ending = str(Ending.FAILED)
        with suppress(StoreError, LockedError):
            store.end_run(RunRecord(info=info, result=ending, exit_code=code, ended=wall_clock()))
        raise


def simulate_site(desired: Desired, plugins: Plugins, orders: Orders, caller: Caller) -> RunResult:
    """Run the site with an executor without hosts, from nothing; no journal, no site lock."""
    graph = desired.graph
    before = baseline(graph, {}, contents=desired.evaluated.contents)
    with _executor(plugins, orders, desired) as (executor, setting):
        emitter = Emitter(caller.sinks, executor.now)
        run = Run(
            RunSetting(
                run=f"simulation-{orders.seed}",
                graph=graph,
                max_failures=_most_failures(orders, desired.movable),
                store_events=False,
                say=caller.say,
            ),
            _dispatcher(plugins, executor, setting, graph),
            NoJournal(),
            emitter,
        )
        acts = [SiteAct(desired=desired, before=before, records={})]
        result = run.go(acts, caller.interrupts)
    return result.with_notices(emitter.notices)


def _beliefs(store: Store, desired: Desired) -> Mapping[CobId, CobRecord]:
    """Return what a plan is based on: with a limit, the records of the objects that it reaches."""
    return store.states() if desired.limit is None else store.states_of(desired.graph.cobs)


def _generation(whole: EvaluatedSite, orders: Orders, info: RunInfo) -> Generation:
    return Generation(
        digest=whole.digest,
        author=info.user,
        time=info.started,
        message=orders.message,
        content=whole.text(),
    )


def _planner(plugins: Plugins) -> Planner:
    try:
        return plugins.planners[_PLANNER]
    except KeyError:
        hint = "see `cobweb plugins` for what was left out"
        raise CobwebError(f"there is no planner {_PLANNER}", hint=hint) from None


def _most_failures(orders: Orders, movable: frozenset[CobId]) -> int | None:
    return orders.max_failures(len(movable)) if orders.max_failures else None


def _dispatcher(
    plugins: Plugins, executor: Executor, setting: ExecutorSetting, graph: Graph
) -> Dispatcher:
    weights = _planner(plugins).priorities(graph)
    return Dispatcher(executor, setting, python_types=plugins.python_types, weights=weights)


@contextmanager
def _executor(
    plugins: Plugins, orders: Orders, desired: Desired
) -> Iterator[tuple[Executor, ExecutorSetting]]:
    """Open an executor in a private folder, which is removed at the end."""
    executor = _make_executor(plugins, orders.executor)
    work_dir = _make_work_dir()
    defaults = {cob: it.type.remove for cob, it in desired.graph.cobs.items()}
    setting = ExecutorSetting(
        hosts=desired.hosts,
        site_dir=desired.dir,
        work_dir=work_dir,
        parallel=orders.parallel,
        timeout_s=orders.timeout_s,
        seed=orders.seed,
        verbosity=orders.verbosity,
        roles_path=(desired.dir / "roles",),
        options={"defaults": defaults, **orders.options},
    )
    try:
        executor.open(setting)
        yield executor, setting
    finally:
        executor.close(kill=True)
        shutil.rmtree(work_dir, ignore_errors=True)


def _make_work_dir() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="cobweb-"))
    except OSError as error:
        message = f"cannot make a folder for temporary files: {error.strerror or error}"
        raise ExecutorError(message, hint="make room, or set TMPDIR") from error


def _make_executor(plugins: Plugins, name: str) -> Executor:
    if name not in plugins.executors:
        close = get_close_matches(name, plugins.executors, n=1)
        known = ", ".join(sorted(plugins.executors)) or "none"
        hint = f"did you mean {close[0]}?" if close else f"there are: {known}"
        raise UsageError(f"there is no executor {name!r}", hint=hint)
    return plugins.executors[name]()
