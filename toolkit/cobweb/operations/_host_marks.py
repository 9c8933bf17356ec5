"""The site's mark on its hosts: what an executor gets of it, and where it is taken away again."""

from __future__ import annotations

from collections.abc import Iterable

from cobweb._clock import wall_clock
from cobweb.errors import ExecutorError, PluginError
from cobweb.model import CobId, host_of
from cobweb.operations.context._context import ExecutionContext
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._orders import Caller, Orders, open_executor
from cobweb.plugin import MarkingExecutor, Plugins, SiteMark
from cobweb.store import RunInfo, Store


def mark_of(desired: Desired, store: Store, orders: Orders, info: RunInfo) -> SiteMark | None:
    """Return the mark that a run leaves on the hosts that it changes; a simulation leaves none."""
    if orders.simulates:
        return None
    return SiteMark(
        site=store.site_id(),
        name=desired.name,
        run=info.id,
        who=f"{info.user}@{info.host}",
        time=info.started,
        adopt=orders.adopt,
        epoch=store.next_epoch(wall_clock()),
    )


def unmark_left(  # noqa: PLR0913  # what was there, with what, for whom
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

    A host whose machine is an object of its own is left alone: it went with that. What hinders it
    is said, and is no failure.
    """
    graph, desired = context.graph, context.desired
    hosts = {host_of(cob) for cob in before} - {host_of(cob) for cob in desired.evaluated.contents}
    hosts -= {host_of(cob) for cob in store.states_on(hosts)} if hosts else set()
    hosts -= {it.host for it in graph.cobs.values() if it.machine is not None} if hosts else set()
    mark = mark_of(desired, store, orders, info) if hosts & desired.hosts.keys() else None
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
