"""What users ask for, each as one function: plan, apply, simulate.

`apply` of one site goes through all packages: the inventory evaluates it, the analysis says what
can never work, the journal says what is believed, the engine decides, an executor carries out. See
docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from collections.abc import Set as AbstractSet
from dataclasses import replace

from cobweb._clock import wall_clock
from cobweb.errors import UsageError
from cobweb.model import CobId, Graph, host_of
from cobweb.plugin import Executor, ExecutorSetting, Planner, Plugins
from cobweb.runtime._acts import SoFar
from cobweb.runtime._baseline import Refresh, baseline
from cobweb.runtime._course import Course, course_of
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
    private_folder,
    told_if_broken,
)
from cobweb.runtime._host_marks import mark_of, unmark_left
from cobweb.runtime._journal import NoJournal
from cobweb.runtime._kept_work import KeptWork
from cobweb.runtime._plan import DEFAULT_PLANNER, Plan, base_digest, changes_of
from cobweb.runtime._predict import Prediction, at_rest, predict
from cobweb.runtime._refusals import refusals_of, refuse
from cobweb.runtime._removal import Removal
from cobweb.runtime._renames import pending_renames, renames_of, with_renames
from cobweb.runtime._result import Ending, RunResult, wait_data
from cobweb.runtime._rounds import Rounds
from cobweb.runtime._run import Run, RunSetting
from cobweb.runtime._site_act import SiteAct
from cobweb.runtime._trees import TreeComparison, TreeLender, archives_of
from cobweb.store import Generation, RunInfo, RunRecord, Store

__all__ = [
    "apply_site",
    "plan_site",
    "simulate_site",
]


def plan_site(  # noqa: PLR0913  # as `apply_site`
    desired: Desired,
    plugins: Plugins,
    store: Store,
    *,
    refresh: Refresh = Refresh.CHANGED,
    planner: str = DEFAULT_PLANNER,
    max_removals: Callable[[int], int] | None = None,
    deletes: AbstractSet[CobId] = frozenset(),
) -> Plan:
    """Predict what `apply_site` would do on the states that the journal believes; asks no host.

    `max_removals` and `deletes` are those of `Orders`, by which a run is refused.
    UsageError where there is no such planner.
    """
    order = _planner(plugins, planner)
    generation = _next_generation(store, desired)
    names = pending_renames(desired, store)
    store = with_renames(store, names, generation)
    course = course_of(desired, store, refresh=refresh, generation=generation)
    before, movable = course.before, desired.movable
    looked_at = course.looked_at
    uncertain = looked_at & course.removal_act.before(SoFar()).uncertain if looked_at else ()
    prediction = _at_rest(course) or predict(Rounds(course))
    return Plan(
        site=desired.evaluated.digest,
        base=base_digest(course.believed),
        generation=store.current_generation_id(),
        run=_last_run_id(store),
        changes=tuple(
            change
            for change in changes_of(
                before,
                course.records,
                course.removal.gone,
                course.retyped,
                TreeComparison(archives_of(desired, store)),
                names=names,
            )
            if change.cob in movable or change.kind == "removed"
        ),
        switches=prediction.switches,
        checks=tuple(sorted({*(movable & before.found.keys()), *looked_at})),
        uncertain=tuple(sorted({*(movable & before.uncertain), *uncertain})),
        stages=order.stages(course.graph, prediction.steps),
        planner=planner,
        waits=prediction.waits,
        down_s=prediction.down_s,
        seconds=prediction.seconds,
        limit=desired.limit,
        refresh=refresh,
        refusals=refusals_of(
            desired, store, course.believed, max_removals=max_removals, deletes=deletes
        ),
    )


def _at_rest(course: Course) -> Prediction | None:
    """Return the prediction where nothing is to be done but to switch, without an engine."""
    found = None if course.removal else at_rest(course.desired.graph, course.before.known)
    return found and replace(found, switches=course.site_act.switching(SoFar()).groups)


def _last_run_id(store: Store) -> str:
    """Return the id of the run that began last, "" where there was none."""
    last = store.last_run()
    return "" if last is None else last.info.id


def _next_generation(store: Store, desired: Desired) -> int:
    """Return the generation that an apply would bring about: the current one, or a new one."""
    current = next(iter(store.generations()), None)
    if current is None:
        return 1
    same = desired.limit is None and current.digest == desired.evaluated.digest
    return current.id if same else current.id + 1


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

    RefusedError where it would take away what it must not; then nothing is written. Raises
    StoreError, LockedError, ExecutorError; then what was in flight is left in transition and is
    checked by the next run.
    """
    keep_apart(store, orders)
    names = pending_renames(desired, store)
    after = with_renames(store, names, _next_generation(store, desired))
    records = after.states()
    most, deletes = orders.max_removals, orders.deletes
    refuse(refusals_of(desired, after, records, max_removals=most, deletes=deletes))
    generation = store.save_generation(_generation(desired, orders, info), desired.files())
    if names:
        store.write(list(renames_of(names, generation.id)))
    with private_folder() as folder:
        course = course_of(
            desired,
            store,
            refresh=orders.refresh,
            generation=generation.id,
            records=records,
            work=KeptWork(store, desired.roots, plugins.python_types, folder, types=plugins.types),
        )
        info = begun(info, orders, generation)
        result = _carried_out(course, plugins, store, orders, caller, info=info)
    if result.ending is Ending.OK and desired.limit is None:
        store.mark_reached(generation.id, wall_clock())
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
    unmark_left(course, plugins, store, orders, caller, before=records, info=info)
    return result


def _carried_out(  # noqa: PLR0913  # as `apply_site`
    course: Course,
    plugins: Plugins,
    store: Store,
    orders: Orders,
    caller: Caller,
    *,
    info: RunInfo,
) -> RunResult:
    """Run the acts of a course as the run `info`, whose end is still to be written down."""
    desired = course.desired
    mark = mark_of(desired, store, orders, info)
    with open_executor(plugins, orders, desired, course.expected, mark) as (executor, setting):
        store.begin_run(info)
        emitter = Emitter(caller.sinks, executor.now)
        run = Run(
            RunSetting(
                run=info.id,
                graph=desired.graph,
                generation=info.generation,
                missed=store.lost_hosts() & course.hosts,
                results=store.results(),
                has_hosts=not orders.simulates,
                max_failures=_most(orders.max_failures, desired.movable | course.removal.removed),
                hosts=len(course.hosts),
                max_unreachable=_most(orders.max_unreachable, course.hosts),
                beat=caller.beat,
                beat_s=HEARTBEAT_S,
                say=caller.say,
            ),
            _dispatcher(plugins, executor, setting, course.graph, store),
            store,
            emitter,
        )
        with told_if_broken(store, info):
            return run.go(Rounds(course), caller.interrupts).with_notices(emitter.notices)


def simulate_site(desired: Desired, plugins: Plugins, orders: Orders, caller: Caller) -> RunResult:
    """Run the site with an executor without hosts, from nothing; no journal, no site lock."""
    graph = desired.graph
    before = baseline(graph, {}, contents=desired.evaluated.contents)
    with open_executor(plugins, orders, desired) as (executor, setting):
        emitter = Emitter(caller.sinks, executor.now)
        hosts = {host_of(cob) for cob in desired.movable}
        run = Run(
            RunSetting(
                run=f"simulation-{orders.seed}",
                graph=graph,
                has_hosts=not orders.simulates,
                max_failures=_most(orders.max_failures, desired.movable),
                hosts=len(hosts),
                max_unreachable=_most(orders.max_unreachable, hosts),
                store_events=False,
                say=caller.say,
            ),
            _dispatcher(plugins, executor, setting, graph),
            NoJournal(),
            emitter,
        )
        acts = [SiteAct(desired=desired, before=before, removal=Removal(graph=Graph(cobs={})))]
        result = run.go(acts, caller.interrupts)
    return result.with_notices(emitter.notices)


def _generation(desired: Desired, orders: Orders, info: RunInfo) -> Generation:
    whole = desired.whole()
    return Generation(
        digest=whole.digest,
        author=info.user,
        time=info.started,
        message=orders.message,
        content=whole.text(),
        commit=desired.commit(),
    )


def _planner(plugins: Plugins, name: str = DEFAULT_PLANNER) -> Planner:
    if name not in plugins.planners:
        known = ", ".join(sorted(plugins.planners)) or "none"
        hint = f"there is {known}; see `cobweb plugins` for what was left out"
        raise UsageError(f"there is no planner {name} for plans", hint=hint)
    return plugins.planners[name]


def _most(bound: Callable[[int], int] | None, of: Sized) -> int | None:
    return bound(len(of)) if bound else None


def _dispatcher(
    plugins: Plugins,
    executor: Executor,
    setting: ExecutorSetting,
    graph: Graph,
    store: Store | None = None,
) -> Dispatcher:
    return Dispatcher(
        executor,
        setting,
        python_types=plugins.python_types,
        providers=plugins.providers,
        weights=_planner(plugins).priorities(graph),
        trees=None if store is None else TreeLender(setting.trees, store.file),
    )
