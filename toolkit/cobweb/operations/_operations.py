"""What users ask for, each as one function: apply, simulate; `plan` is in `planning`.

`apply` of one site goes through all packages: the inventory evaluates it, the analysis says what
can never work, the journal says what is believed, the engine decides, an executor carries out. See
docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from typing import Protocol

from cobweb._clock import wall_clock
from cobweb.errors import ExecutorError, PluginError
from cobweb.kernel._database_outage import PatientJournal
from cobweb.kernel._dispatch import Dispatcher
from cobweb.kernel._events import EventPublisher
from cobweb.kernel._kernel import Kernel, RunSetting
from cobweb.kernel._mail import Part
from cobweb.kernel._record import Journal, Record
from cobweb.kernel._result import Ending, RunResult, Wait, stuck_waits, wait_data
from cobweb.kernel._run import Fellows, Run
from cobweb.kernel._trees import TreeLender
from cobweb.model import CobId, PythonAction, host_of
from cobweb.operations.context._context import ExecutionContext, context_from_nothing, context_of
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._narrowed import narrowed
from cobweb.operations.context._orders import (
    HEARTBEAT_S,
    Caller,
    Orders,
    command_of,
    end_of,
    keep_apart,
    open_executor,
    private_folder,
    told_if_broken,
)
from cobweb.operations.context._renames import pending_renames, renames_of, with_renames
from cobweb.operations.context._stored_work import KeptWork
from cobweb.operations.planning._foresight import told_stuck
from cobweb.operations.planning._prediction import predict_best
from cobweb.operations.planning._refusals import refusals_of, refuse
from cobweb.operations.planning._site_plan import at_rest, next_generation, planner_of
from cobweb.plugin import MarkingExecutor, Plugins, SiteMark
from cobweb.store import Generation, RunInfo, Store

_NOBODY: AbstractContextManager[Fellows | None] = nullcontext()


class Company(Protocol):
    """The owners of a site's hosts, besides the coordinator, and how these speak.

    `part` is what the coordinator owns and who owns which other host; its goal comes with the run.
    """

    part: Part

    def at_work(
        self, part: Part, run: RunInfo, desired: Desired, orders: Orders, store: Store
    ) -> AbstractContextManager[Fellows]:
        """Have them bring about what is desired, for as long as the context lasts."""


def apply_site(  # noqa: PLR0913  # what it works on, how, for and with whom, as which run
    desired: Desired,
    plugins: Plugins,
    store: Store,
    orders: Orders,
    caller: Caller,
    *,
    info: RunInfo,
    company: Company | None = None,
) -> RunResult:
    """Bring about what is desired as the run `info`; the caller holds the site lock.

    In `company` other owners have a part of it.
    Raises RefusedError where it would take away what it must not, StuckError where it is known
    beforehand that it cannot be done; then nothing is written. StoreError, LockedError,
    ExecutorError: what was in flight is left in transition and is checked by the next run.
    """
    keep_apart(store, orders)
    names, number = pending_renames(desired, store), next_generation(store, desired, whole=True)
    after = with_renames(store, names, number)
    records = after.states()
    desired = narrowed(desired, after, records, orders.exceptions)
    most, deletes = orders.max_removals, orders.deletes
    refuse(refusals_of(desired, after, records, max_removals=most, deletes=deletes))
    with private_folder() as folder:
        work = KeptWork(store, desired.roots, plugins.python_types, folder, types=plugins.types)
        context = context_of(
            desired,
            after,
            orders,
            generation=number,
            records=records,
            work=work,
            at_once=company is not None,
        )
        context = _convergent(context, orders)
        info = _saved(context, store, orders, info)
        if names:
            store.write(list(renames_of(names, number)))
        part: Part | None = None
        others = _NOBODY
        if company is not None:
            part = _known(replace(company.part, generation=number), store, info)
            others = company.at_work(part, info, desired, orders, store)
        begin = _begun(context, plugins, store, orders, caller, info=info, part=part)
        with begin as (run, journal), others as fellows:
            result = run.go(caller.interrupts, fellows)
        left = context.retyped.keys() | {wait.cob for wait in result.waits}
        gone = [cob for cob in context.removed - left if host_of(cob) not in context.given_up]
        out = sum(_is_out(context, wait) for wait in result.waits)
        result = replace(result, renamed=len(names), forgotten=len(gone), out=out)
    journal.carry_out(lambda: _end(store, result, info, is_whole=desired.is_whole))
    _unmark_left(context, plugins, store, orders, caller, before=records, info=info)
    return result


def _is_out(context: ExecutionContext, wait: Wait) -> bool:
    """Say whether an object of the site that served before the run, or ever, does not now."""
    record, it = context.records.get(wait.cob), context.graph.cobs.get(wait.cob)
    if record is None or it is None or it.type.serves(wait.state):
        return False
    return record.served or it.type.serves(record.recorded or "")


def _end(store: Store, result: RunResult, info: RunInfo, *, is_whole: bool) -> None:
    """Store how a run has ended."""
    if result.ending is Ending.OK and is_whole:
        store.mark_reached(info.generation, wall_clock())
    store.end_run(end_of(info, result.ending, result.counts, wait_data(result)))


def _convergent(context: ExecutionContext, orders: Orders) -> ExecutionContext:
    """Return a context of which no part is known to end stuck; StuckError where one is (P9)."""
    if at_rest(context) is not None:
        return context
    context, prediction = predict_best(context)
    stuck = stuck_waits(prediction.waits)
    if not stuck:
        return context
    if orders.allow_stuck:
        return context.without(stuck)
    raise told_stuck(stuck, context)


@contextmanager
def open_site(  # noqa: PLR0913  # as `apply_site`
    desired: Desired,
    plugins: Plugins,
    store: Store,
    orders: Orders,
    caller: Caller,
    *,
    info: RunInfo,
    part: Part,
) -> Iterator[Kernel]:
    """Hold a kernel open that brings about its part of what is desired, as the run `info`.

    The caller holds the site lock of `store`, and steps the kernel (`poll`). In the end nothing
    begins any more, what is at work ends, and the run is stored. UsageError where something is to
    be removed: that has to be known to be possible beforehand.
    """
    keep_apart(store, orders)
    number = next_generation(store, desired, whole=True)
    with private_folder() as folder:
        work = KeptWork(store, desired.roots, plugins.python_types, folder, types=plugins.types)
        context = context_of(desired, store, orders, generation=number, work=work, at_once=True)
        info = _saved(context, store, orders, info)
        part = _known(part, store, info)
        begin = _begun(context, plugins, store, orders, caller, info=info, part=part)
        with begin as (run, journal):
            run.kernel.start()
            run.kernel.flush()
            yield run.kernel
            result = run.end(caller.interrupts)
    journal.carry_out(lambda: _end(store, result, info, is_whole=False))


def _known(part: Part, store: Store, info: RunInfo) -> Part:
    """Return a part in a new life of its owner; the goal has a name unless it was given one."""
    known = f" as generation {part.generation}" if part.generation else ""
    goal = part.goal or f"site {info.site[:16]}{known}"
    return replace(part, goal=goal, incarnation=store.next_epoch(wall_clock()))


@contextmanager
def _begun(  # noqa: PLR0913  # as `apply_site`
    context: ExecutionContext,
    plugins: Plugins,
    store: Store,
    orders: Orders,
    caller: Caller,
    *,
    info: RunInfo,
    part: Part | None = None,
) -> Iterator[tuple[Run, PatientJournal]]:
    """Store that the run `info` begins, and make it; an error that ends it is stored as well."""
    if part is not None:
        owners, hosts = part.owners, context.desired.hosts
        own = {it for it in hosts if owners.get(it, part.lender) == part.owner}
        context = context.on_hosts(own)
    journal = PatientJournal(store, caller.interrupts, caller.say, outage_s=orders.store_timeout_s)
    mark = _mark_of(context.desired, store, orders, info, part.mark if part else "")
    setting = _setting(context, orders, caller, info.id, store)
    setting = replace(setting, beat=caller.beat, beat_s=HEARTBEAT_S, part=part)

    def file(digest: str) -> bytes | None:
        return journal.carry_out(lambda: store.file(digest))

    with _opened(setting, context, plugins, orders, caller, journal, mark=mark, file=file) as run:
        store.begin_run(info)
        with closing(run.kernel), told_if_broken(store, info):
            yield run, journal


@contextmanager
def _opened(  # noqa: PLR0913, PLR0917  # as `apply_site`
    setting: RunSetting,
    context: ExecutionContext,
    plugins: Plugins,
    orders: Orders,
    caller: Caller,
    journal: Journal | None,
    *,
    mark: SiteMark | None = None,
    file: Callable[[str], bytes | None] | None = None,
) -> Iterator[Run]:
    """Make a run with an executor that is open; `file` finds archives of file trees."""
    orders = replace(orders, options={"outdates": context.outdates(), **orders.options})
    desired, cobs = context.desired, context.desired.graph.cobs
    expected = context.expected or {cob: it.type.remove for cob, it in cobs.items()}
    with open_executor(plugins, orders, desired, expected, mark) as (executor, opened):
        caller.expect(context.change.changed if context.change else ())
        dispatcher = Dispatcher(
            executor,
            opened,
            python_types=plugins.python_types,
            providers=plugins.providers,
            weights=planner_of(plugins).priorities(context.graph),
            trees=None if file is None else TreeLender(opened.trees, file),
            at_work=context.before.at_work,
        )
        record = Record(journal, EventPublisher(caller.sinks, executor.now))
        yield Run(setting, dispatcher, record)


def _setting(
    context: ExecutionContext, orders: Orders, caller: Caller, run: str, store: Store | None
) -> RunSetting:
    """Return what runs on hosts and simulations have in common; `store` has what is known."""
    return RunSetting(
        run=run,
        context=context,
        graph=context.desired.graph,
        missed=frozenset() if store is None else store.lost_hosts() & context.hosts,
        results={} if store is None else store.results(),
        may_go_out=orders.may_go_out,
        returns=orders.returns,
        trust_s=orders.trust_s,
        has_hosts=not orders.simulates,
        max_failures=orders.max_failures and orders.max_failures(len(context.movable)),
        hosts=len(context.hosts),
        max_unreachable=orders.max_unreachable and orders.max_unreachable(len(context.hosts)),
        say=caller.say,
    )


def simulate_site(desired: Desired, plugins: Plugins, orders: Orders, caller: Caller) -> RunResult:
    """Run the site with an executor without hosts, from nothing; no journal, no site lock."""
    context, _ = predict_best(context_from_nothing(desired))
    return _rehearsed(context, plugins, orders, caller)


def rehearse_site(
    desired: Desired, plugins: Plugins, store: Store, orders: Orders, caller: Caller
) -> RunResult:
    """Go through what `apply_site` would do now with an executor without hosts; writes nothing.

    What checks find is what the journal believes. RefusedError and StuckError as of `apply_site`.
    """
    records = store.states()
    most, deletes = orders.max_removals, orders.deletes
    refuse(refusals_of(desired, store, records, max_removals=most, deletes=deletes))
    number = next_generation(store, desired, whole=True)
    context = context_of(desired, store, orders, generation=number, records=records)
    return _rehearsed(_convergent(context, orders), plugins, orders, caller, store)


def _rehearsed(
    context: ExecutionContext,
    plugins: Plugins,
    orders: Orders,
    caller: Caller,
    store: Store | None = None,
) -> RunResult:
    """Go through a context without hosts and without a journal."""
    setting = _setting(context, orders, caller, f"simulation-{orders.seed}", store)
    with _opened(setting, context, plugins, orders, caller, None) as run:
        return run.go(caller.interrupts)


def _saved(context: ExecutionContext, store: Store, orders: Orders, info: RunInfo) -> RunInfo:
    """Store the generation that is desired; return the run as it is stored that brings it about."""
    whole = context.desired.whole()
    generation = Generation(
        digest=whole.digest,
        author=info.user,
        time=info.started,
        message=orders.message,
        content=whole.text(),
        commit=context.desired.commit(),
        decisions=context.desired.decisions,
    )
    number = store.save_generation(generation, context.desired.files()).id
    assert number == context.generation
    return replace(info, command=command_of(info, orders), site=whole.digest, generation=number)


def _mark_of(
    desired: Desired, store: Store, orders: Orders, info: RunInfo, site: str = ""
) -> SiteMark | None:
    """Return the mark that a run leaves on hosts, None of a simulation; `site` is its id there."""
    if orders.simulates:
        return None
    return SiteMark(
        site=site or store.site_id(),
        name=desired.name,
        run=info.id,
        who=f"{info.user}@{info.host}",
        time=info.started,
        adopt=orders.adopt,
        epoch=store.next_epoch(wall_clock()),
    )


def _unmark_left(  # noqa: PLR0913  # what was there, with what, for whom
    context: ExecutionContext,
    plugins: Plugins,
    store: Store,
    orders: Orders,
    caller: Caller,
    *,
    before: Iterable[CobId],
    info: RunInfo,
) -> None:
    """Take the mark off the hosts of `before` that no object is left on, now that a run has ended.

    A host whose machine is an object of its own is left alone: it went with that. So is one that
    has Python types alone: nothing was done there. What hinders it is said, and is no failure.
    """
    graph, desired = context.graph, context.desired
    hosts = {host_of(cob) for cob in before} - {host_of(cob) for cob in desired.evaluated.contents}
    hosts -= {host_of(cob) for cob in store.states_on(hosts)} if hosts else set()
    cobs = [it for it in graph.cobs.values() if it.host in hosts] if hosts else []
    hosts -= {it.host for it in cobs if it.machine is not None}
    hosts &= {it.host for it in cobs if not isinstance(it.type.check, PythonAction)}
    mark = _mark_of(desired, store, orders, info) if hosts & desired.hosts.keys() else None
    if mark is None or not hasattr(plugins.executors[orders.executor], "unmark"):
        return
    leaving = sorted(hosts & desired.hosts.keys())
    try:
        with open_executor(plugins, orders, desired, mark=mark) as (executor, _):
            assert isinstance(executor, MarkingExecutor)
            problems = executor.unmark(leaving)
    except (ExecutorError, PluginError) as error:
        problems = dict.fromkeys(leaving, str(error))
    for host, problem in sorted(problems.items()):
        caller.say(f"note: the mark of this site stays on {host}: {problem}")
