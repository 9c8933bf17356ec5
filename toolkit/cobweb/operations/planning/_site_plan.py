"""The plan of a site: what an apply would do, predicted on what the journal believes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import fields
from functools import cache

from cobweb.kernel._result import stuck_waits
from cobweb.model import CobId, Decision, host_of
from cobweb.operations.context._context import ExecutionContext, context_of
from cobweb.operations.context._desired import Desired, Exceptions
from cobweb.operations.context._known_states import Refresh
from cobweb.operations.context._narrowed import narrowed
from cobweb.operations.context._orders import Orders, plugin_of
from cobweb.operations.context._renames import pending_renames, with_renames
from cobweb.operations.drift._drift_check import drifted_of
from cobweb.operations.history._collection import sound_generation
from cobweb.operations.planning._foresight import proof_lines
from cobweb.operations.planning._plan import (
    DEFAULT_PLANNER,
    Change,
    Plan,
    TreeComparison,
    base_digest,
    changes_of,
    unsettled_of,
)
from cobweb.operations.planning._prediction import Forecast, Prediction, predict_best
from cobweb.operations.planning._refusals import refusals_of
from cobweb.plugin import Planner, Plugins
from cobweb.store import Store


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
    order, exceptions = planner_of(plugins, planner), exceptions or Exceptions()
    names, number = pending_renames(desired, store), next_generation(store, desired)
    store = with_renames(store, names, number)
    if exceptions.only or exceptions.renew:
        desired = narrowed(desired, store, store.states(), exceptions)
    orders = Orders(refresh=refresh, exceptions=exceptions)
    context = context_of(desired, store, orders, generation=number)
    movable = frozenset(c for c in desired.movable if host_of(c) not in context.given_up)
    prediction = at_rest(context) or predict_best(context)[1]
    drifted = drifted_of(store, context.records.values(), desired.graph)
    trees = TreeComparison(archives_of(context.desired, store))
    changes = changes_of(context, movable, names, trees)
    return Plan(
        site=desired.evaluated.digest,
        base=base_digest(context.believed),
        generation=store.current_generation_id(),
        run=last.info.id if (last := store.last_run()) else "",
        changes=changes,
        checks=_checks(context, movable),
        unsettled=tuple(unsettled_of(context, movable, drifted, trees)),
        uncertain=_uncertain(context, movable),
        stages=order.stages(context.graph, prediction.steps),
        planner=planner,
        proofs=_proofs(context, prediction),
        limit=desired.limit,
        refresh=refresh,
        budgets=exceptions.budgets,
        only=tuple(sorted(exceptions.only)),
        renew=tuple(sorted(exceptions.renew)),
        given_up=tuple(sorted(context.given_up)),
        refusals=refusals_of(
            desired, store, context.believed, max_removals=max_removals, deletes=deletes
        ),
        **{it.name: getattr(prediction, it.name) for it in fields(Forecast)},
        decisions=desired.decisions,
        decided=tuple(_decided(desired, store)),
        released=_released(desired, prediction, changes),
    )


def _checks(context: ExecutionContext, movable: AbstractSet[CobId]) -> tuple[CobId, ...]:
    """Return the objects whose state is found first."""
    asked = (cob for cob in context.looked_at if host_of(cob) not in context.given_up)
    return tuple(sorted({*(movable & context.before.found.keys()), *asked}))


def _uncertain(context: ExecutionContext, movable: AbstractSet[CobId]) -> tuple[CobId, ...]:
    """Return the objects whose state is lost, those that are removed or changed among them."""
    based = context.past.contents.keys() & (movable | context.removed)
    return tuple(sorted((movable & context.before.uncertain) | (based & context.past.uncertain)))


def _proofs(context: ExecutionContext, prediction: Prediction) -> tuple[str, ...]:
    """Return in lines why no order leads to what is desired; none where one does."""
    proofs = context.proofs() if stuck_waits(prediction.waits) else ()
    return tuple(line for proof in proofs for line in proof_lines(proof))


def _released(
    desired: Desired, prediction: Prediction, changes: Iterable[Change]
) -> tuple[CobId, ...]:
    """Return what goes out or away because that was decided."""
    ends = {*prediction.down_s, *(it.cob for it in changes if it.kind == "removed")}
    return tuple(sorted(filter(desired.releases, ends)))


def _decided(desired: Desired, store: Store) -> Iterator[Decision]:
    """Yield what was decided since the current generation and holds, the newest of a section first.

    What was taken back is told, too.
    """
    current = next(iter(store.generations()), None)
    known = {} if current is None else current.decisions
    for section, revision in sorted(desired.decisions.items()):
        seen = known.get(section, 0)
        keys = set[str]()
        for decision in store.decision_history(section) if revision > seen else ():
            if seen < decision.revision <= revision and decision.key not in keys:
                keys.add(decision.key)
                yield decision


def archives_of(desired: Desired, store: Store) -> Callable[[str], bytes | None]:
    """Return what finds the archive of a tree that is desired, or was, by its digest."""
    present = cache(desired.files)
    return lambda digest: store.file(digest) or present().get(digest)


def at_rest(context: ExecutionContext) -> Prediction | None:
    """Return the prediction where nothing is to be done but to switch, without an engine."""
    known, cobs = context.before.known, context.graph.cobs
    if (
        context.removal
        or context.change is not None
        or context.renew
        or context.lending.slots
        or any(
            known.get(cob) != it.preferred
            and it.host not in context.given_up
            and not (it.type.on_demand and cob in known and cob not in context.movable)
            for cob, it in cobs.items()
        )
    ):
        return None
    switches = tuple(
        tuple(data["hosts"]) for hosts in context.at_once for _, data in context.told(hosts)
    )
    return Prediction(steps=(), waits=(), down_s={}, seconds=0.0, switches=switches)


def next_generation(store: Store, desired: Desired, *, whole: bool = False) -> int:
    """Return the generation that an apply would bring about: the current one, or a new one.

    Under a limit that it is the current one is only found out where the `whole` site is made; so is
    that it is damaged.
    """
    current = next(iter(store.generations()), None)
    if current is None:
        return 1
    same = (whole or desired.limit is None) and current.digest == desired.whole().digest
    if same and whole:
        same = sound_generation(store, current.id) is not None  # a damaged one gets a successor
    return current.id if same else current.id + 1


def planner_of(plugins: Plugins, name: str = DEFAULT_PLANNER) -> Planner:
    return plugin_of(plugins.planners, name, "there is no planner of plans")
