"""What users ask for, each as one function: plan, apply, simulate.

`apply` of one site goes through all packages: the inventory evaluates it, the analysis says what
can never work, the journal says what is believed, the engine decides, an executor carries out. See
docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cobweb._clock import wall_clock
from cobweb.engine import Engine
from cobweb.errors import (
    CobwebError,
    PlanError,
)
from cobweb.generation import EvaluatedSite
from cobweb.model import CobId, Graph, host_of
from cobweb.plugin import Executor, ExecutorSetting, Planner, Plugins
from cobweb.runtime._baseline import Refresh, baseline
from cobweb.runtime._desired import Desired
from cobweb.runtime._dispatch import Dispatcher
from cobweb.runtime._events import Emitter
from cobweb.runtime._frame import (
    HEARTBEAT_S,
    Caller,
    Orders,
    begun,
    keep_apart,
    open_executor,
    told_if_broken,
)
from cobweb.runtime._journal import NoJournal
from cobweb.runtime._plan import Plan, PlanFile, base_digest, changes_of
from cobweb.runtime._predict import at_rest, predict
from cobweb.runtime._result import RunResult, wait_data
from cobweb.runtime._run import Run, RunSetting
from cobweb.runtime._site_act import SiteAct
from cobweb.store import CobRecord, Generation, RunInfo, RunRecord, Store

__all__ = [
    "apply_site",
    "plan_site",
    "refuse_stale",
    "simulate_site",
]

_PLANNER = "stages"


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
    keep_apart(store, orders)
    graph = desired.graph
    records, locks = store.states(), store.locks()
    contents = desired.evaluated.contents
    before = baseline(graph, records, refresh=orders.refresh, contents=contents)
    before = replace(before, applied=dict(before.applied))  # a damaged record is told now
    with open_executor(plugins, orders, desired) as (executor, setting):
        generation = store.save_generation(_generation(desired.whole(), orders, info))
        store.begin_run(begun(info, orders, generation))
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
        with told_if_broken(store, info):
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


def simulate_site(desired: Desired, plugins: Plugins, orders: Orders, caller: Caller) -> RunResult:
    """Run the site with an executor without hosts, from nothing; no journal, no site lock."""
    graph = desired.graph
    before = baseline(graph, {}, contents=desired.evaluated.contents)
    with open_executor(plugins, orders, desired) as (executor, setting):
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


