"""What users ask for, each as one function: plan, apply, simulate.

`apply` of one site goes through all packages: the inventory evaluates it, the analysis says what
can never work, the journal says what is believed, the engine decides, an executor carries out. See
docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from dataclasses import replace

from cobweb._clock import wall_clock
from cobweb.errors import StoreError, UsageError
from cobweb.model import CobId, host_of
from cobweb.plugin import Executor, ExecutorSetting, Planner, Plugins
from cobweb.runtime._baseline import Refresh
from cobweb.runtime._course import Course, course_from_nothing, course_of
from cobweb.runtime._desired import Desired
from cobweb.runtime._dispatch import Dispatcher
from cobweb.runtime._events import Emitter
from cobweb.runtime._exceptions import Exceptions
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
from cobweb.runtime._only import narrowed
from cobweb.runtime._outage import PatientJournal
from cobweb.runtime._plan import DEFAULT_PLANNER, Change, Plan, base_digest, changes_of
from cobweb.runtime._predict import Prediction, predict_best
from cobweb.runtime._prose import chain_lines, proof_lines
from cobweb.runtime._refusals import refusals_of, refuse
from cobweb.runtime._renames import pending_renames, renames_of, with_renames
from cobweb.runtime._result import (
    Ending,
    RunResult,
    StuckError,
    Wait,
    stuck_waits,
    wait_data,
)
from cobweb.runtime._run import Run, RunSetting
from cobweb.runtime._trees import TreeComparison, TreeLender, archives_of
from cobweb.store import Generation, RunInfo, RunRecord, Store

_SHOWN = 5
"""Of how many objects it is said why they would wait."""

__all__ = [
    "apply_site",
    "plan_site",
    "rehearse_site",
    "simulate_site",
    "stuck_from_nothing",
    "told_stuck",
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
    exceptions: Exceptions | None = None,
) -> Plan:
    """Predict what `apply_site` would do on the states that the journal believes; asks no host.

    `max_removals` and `deletes` are those of `Orders`, by which a run is refused.
    UsageError where there is no such planner, or no limit that `exceptions` name.
    """
    order = _planner(plugins, planner)
    generation = _next_generation(store, desired)
    exceptions = exceptions or Exceptions()
    names = pending_renames(desired, store)
    store = with_renames(store, names, generation)
    if exceptions.names:
        desired = narrowed(desired, store, store.states(), exceptions)
    course = course_of(
        desired, store, refresh=refresh, generation=generation, exceptions=exceptions
    )
    before, removed = course.before, course.removed
    movable = frozenset(c for c in desired.movable if host_of(c) not in course.given_up)
    based = course.past.contents.keys() & (movable | removed)
    prediction = _at_rest(course) or predict_best(course)[1]
    proofs = course.proofs() if stuck_waits(prediction.waits) else ()
    return Plan(
        site=desired.evaluated.digest,
        base=base_digest(course.believed),
        generation=store.current_generation_id(),
        run=_last_run_id(store),
        changes=_changes(course, store, names, movable),
        switches=prediction.switches,
        checks=tuple(sorted({*(movable & before.found.keys()), *_asked(course)})),
        uncertain=tuple(sorted({*(movable & before.uncertain), *(based & course.past.uncertain)})),
        stages=order.stages(course.graph, prediction.steps),
        planner=planner,
        waits=prediction.waits,
        proofs=tuple(line for proof in proofs for line in proof_lines(proof)),
        down_s=prediction.down_s,
        restarts=prediction.restarts,
        seconds=prediction.seconds,
        limit=desired.limit,
        refresh=refresh,
        budgets=exceptions.budgets,
        only=tuple(sorted(exceptions.only)),
        renew=tuple(sorted(exceptions.renew)),
        given_up=tuple(sorted(course.given_up)),
        refusals=refusals_of(
            desired, store, course.believed, max_removals=max_removals, deletes=deletes
        ),
    )


def _changes(
    course: Course, store: Store, names: Mapping[CobId, CobId], movable: AbstractSet[CobId]
) -> tuple[Change, ...]:
    """Return what differs, of what may be moved or is removed."""
    found = changes_of(
        course.before,
        course.records,
        course.removal.gone,
        course.retyped,
        TreeComparison(archives_of(course.desired, store)),
        names=names,
    )
    return tuple(
        change
        for change in found
        if change.cob in movable
        or (change.kind == "removed" and host_of(change.cob) not in course.given_up)
    )


def _asked(course: Course) -> frozenset[CobId]:
    """Return what is checked whatever is known of it."""
    return frozenset(cob for cob in course.looked_at if host_of(cob) not in course.given_up)


def _at_rest(course: Course) -> Prediction | None:
    """Return the prediction where nothing is to be done but to switch, without an engine."""
    known, cobs = course.before.known, course.graph.cobs
    if course.removal.removed or course.removal.undefined or course.change is not None:
        return None
    if (
        course.renew
        or course.lending.slots
        or any(
            known.get(cob) != it.preferred and it.host not in course.given_up
            for cob, it in cobs.items()
        )
    ):
        return None
    switches = tuple(
        tuple(data["hosts"]) for hosts in course.at_once for _, data in course.told(hosts)
    )
    return Prediction(steps=(), waits=(), down_s={}, seconds=0.0, switches=switches)


def _last_run_id(store: Store) -> str:
    """Return the id of the run that began last, "" where there was none."""
    last = store.last_run()
    return "" if last is None else last.info.id


def _next_generation(store: Store, desired: Desired, *, whole: bool = False) -> int:
    """Return the generation that an apply would bring about: the current one, or a new one.

    Under a limit that it is the current one is only found out where the `whole` site is made; so is
    that it is damaged.
    """
    current = next(iter(store.generations()), None)
    if current is None:
        return 1
    if desired.limit is None:
        same = current.digest == desired.evaluated.digest
    else:
        same = whole and current.digest == desired.whole().digest
    if same and whole:
        same = _is_sound(store, current.id)
    return current.id if same else current.id + 1


def _is_sound(store: Store, generation: int) -> bool:
    """Say whether a generation can be read; a damaged one gets a successor."""
    try:
        return store.generation(generation) is not None
    except StoreError:
        return False


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

    Raises RefusedError where it would take away what it must not, StuckError where it is known
    beforehand that it cannot be done; then nothing is written. StoreError, LockedError,
    ExecutorError: what was in flight is left in transition and is checked by the next run.
    """
    keep_apart(store, orders)
    names, number = pending_renames(desired, store), _next_generation(store, desired, whole=True)
    after = with_renames(store, names, number)
    records = after.states()
    desired = narrowed(desired, after, records, orders.exceptions)
    most, deletes = orders.max_removals, orders.deletes
    refuse(refusals_of(desired, after, records, max_removals=most, deletes=deletes))
    with private_folder() as folder:
        course = course_of(
            desired,
            after,
            refresh=orders.refresh,
            generation=number,
            records=records,
            work=KeptWork(store, desired.roots, plugins.python_types, folder, types=plugins.types),
            exceptions=orders.exceptions,
        )
        course = _convergent(course, orders)
        generation = store.save_generation(_generation(desired, orders, info), desired.files())
        assert generation.id == course.generation
        if names:
            store.write(list(renames_of(names, generation.id)))
        info = begun(info, orders, generation)
        say, timeout_s = caller.say, orders.store_timeout_s
        journal = PatientJournal(store, caller.interrupts, say, outage_s=timeout_s)
        result = _carried_out(course, plugins, store, orders, caller, info=info, journal=journal)
    journal.carry_out(lambda: _end(store, result, info, is_whole=desired.is_whole))
    unmark_left(course, plugins, store, orders, caller, before=records, info=info)
    return result


def _end(store: Store, result: RunResult, info: RunInfo, *, is_whole: bool) -> None:
    """Store how a run has ended."""
    ended = wall_clock()
    if result.ending is Ending.OK and is_whole:
        store.mark_reached(info.generation, ended)
    store.end_run(
        RunRecord(
            info=info,
            result=str(result.ending),
            exit_code=result.exit_code,
            counts=result.counts,
            waits=wait_data(result),
            ended=ended,
        )
    )


def _convergent(course: Course, orders: Orders) -> Course:
    """Return a course of which no part is known to end stuck; StuckError where one is (P9)."""
    if _at_rest(course) is not None:
        return course
    course, prediction = predict_best(course)
    stuck = stuck_waits(prediction.waits)
    if not stuck:
        return course
    if orders.allow_stuck:
        return course.without(stuck)
    raise told_stuck(stuck, course)


def _carried_out(  # noqa: PLR0913  # as `apply_site`
    course: Course,
    plugins: Plugins,
    store: Store,
    orders: Orders,
    caller: Caller,
    *,
    info: RunInfo,
    journal: PatientJournal,
) -> RunResult:
    """Go through a course as the run `info`, whose end is still to be written down."""
    options = {"outdates": course.outdates(), **orders.options}
    orders = replace(orders, options=options)
    desired = course.desired
    mark = mark_of(desired, store, orders, info)

    def file(digest: str) -> bytes | None:
        return journal.carry_out(lambda: store.file(digest))

    with open_executor(plugins, orders, desired, course.expected, mark) as (executor, setting):
        store.begin_run(info)
        emitter = Emitter(caller.sinks, executor.now)
        run = Run(
            replace(
                _setting(course, orders, caller, info.id),
                generation=info.generation,
                missed=store.lost_hosts() & course.hosts,
                results=store.results(),
                beat=caller.beat,
                beat_s=HEARTBEAT_S,
            ),
            _dispatcher(plugins, executor, setting, course, file),
            journal,
            emitter,
        )
        with told_if_broken(store, info):
            return run.go(caller.interrupts).with_notices(emitter.notices)


def _setting(course: Course, orders: Orders, caller: Caller, run: str) -> RunSetting:
    """Return what runs on hosts and simulations have in common."""
    return RunSetting(
        run=run,
        course=course,
        graph=course.desired.graph,
        may_go_out=orders.may_go_out,
        returns=orders.returns,
        trust_s=orders.trust_s,
        has_hosts=not orders.simulates,
        max_failures=_most(orders.max_failures, course.movable),
        hosts=len(course.hosts),
        max_unreachable=_most(orders.max_unreachable, course.hosts),
        say=caller.say,
    )


def simulate_site(desired: Desired, plugins: Plugins, orders: Orders, caller: Caller) -> RunResult:
    """Run the site with an executor without hosts, from nothing; no journal, no site lock."""
    course, _ = predict_best(course_from_nothing(desired))
    return _rehearsed(course, plugins, orders, caller)


def told_stuck(stuck: Sequence[Wait], course: Course | None = None) -> StuckError:
    """Return the error that tells who would wait for ever, with the chains of a few, and why."""
    error = StuckError(stuck)
    for proof in () if course is None else course.proofs()[:_SHOWN]:
        for line in proof_lines(proof):
            error.add_note(line)
    for wait in stuck[:_SHOWN]:
        for line in chain_lines(wait):
            error.add_note(line)
    return error


def stuck_from_nothing(desired: Desired) -> tuple[Wait, ...]:
    """Return who would wait for ever if the site was set up from its `remove` states (P9)."""
    return stuck_waits(predict_best(course_from_nothing(desired))[1].waits)


def rehearse_site(
    desired: Desired, plugins: Plugins, store: Store, orders: Orders, caller: Caller
) -> RunResult:
    """Go through what `apply_site` would do now with an executor without hosts; writes nothing.

    What checks find is what the journal believes. RefusedError and StuckError as of `apply_site`.
    """
    records = store.states()
    most, deletes = orders.max_removals, orders.deletes
    refuse(refusals_of(desired, store, records, max_removals=most, deletes=deletes))
    generation = _next_generation(store, desired, whole=True)
    course = course_of(
        desired,
        store,
        refresh=orders.refresh,
        generation=generation,
        records=records,
        exceptions=orders.exceptions,
    )
    course = _convergent(course, orders)
    setting = _setting(course, orders, caller, "")
    setting = replace(
        setting,
        generation=generation,
        missed=store.lost_hosts() & course.hosts,
        results=store.results(),
    )
    return _rehearsed(course, plugins, orders, caller, setting)


def _rehearsed(
    course: Course,
    plugins: Plugins,
    orders: Orders,
    caller: Caller,
    setting: RunSetting | None = None,
) -> RunResult:
    """Go through a course without hosts and without a journal."""
    orders = replace(orders, options={"outdates": course.outdates(), **orders.options})
    setting = setting or _setting(course, orders, caller, "")
    setting = replace(setting, run=f"simulation-{orders.seed}", store_events=False)
    with open_executor(plugins, orders, course.desired, course.expected) as (executor, opened):
        emitter = Emitter(caller.sinks, executor.now)
        dispatcher = _dispatcher(plugins, executor, opened, course)
        result = Run(setting, dispatcher, NoJournal(), emitter).go(caller.interrupts)
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
    course: Course,
    file: Callable[[str], bytes | None] | None = None,
) -> Dispatcher:
    return Dispatcher(
        executor,
        setting,
        python_types=plugins.python_types,
        providers=plugins.providers,
        weights=_planner(plugins).priorities(course.graph),
        trees=None if file is None else TreeLender(setting.trees, file),
        at_work=course.before.at_work,
    )
