"""What hosts stand in before they switch: what is gone from the site, and what is changed.

Each host has switched to some generation, which says what its objects are and need; an object that
is in the journal and not wanted any more is removed under it (COB paper, section 5.6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from cobweb.engine import Blocked, WaitKind
from cobweb.generation import (
    SwitchingOrder,
    inputs_of,
    lent_variables,
    merged_budgets,
    merged_limits,
    switching_order,
)
from cobweb.kernel._result import Wait
from cobweb.model import Budget, Cob, CobId, Graph, Host, Limit, Need, host_of
from cobweb.operations.context._generations import Generations
from cobweb.operations.context._stored_work import KeptWork, Secrets

if TYPE_CHECKING:
    from cobweb.operations.context._desired import Desired
    from cobweb.store import CobRecord, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What is to be removed, and the old objects that this may take.

    `graph` has the `removed` objects, all that they can ask for, and the changed objects of hosts
    that wait, as their hosts know them; its needs are all that one of these has, its limits and
    budgets those of then. `hosts` are hosts of them that the site has not any more, or that get
    variables of then back for this. `undefined` objects are gone as well, but no generation says
    what they are. `elsewhere` are removed objects that a limit leaves alone: they hold up the hosts
    that must not switch before theirs.
    """

    graph: Graph
    removed: frozenset[CobId] = frozenset()
    undefined: frozenset[CobId] = frozenset()
    elsewhere: frozenset[CobId] = frozenset()
    order: SwitchingOrder = field(default_factory=SwitchingOrder)
    hosts: Mapping[str, Host] = field(default_factory=dict)

    @property
    def gone(self) -> frozenset[CobId]:
        """All objects that are to be removed now."""
        return (self.removed | self.undefined) - self.elsewhere

    def __bool__(self) -> bool:
        """Say whether anything is gone."""
        return bool(self.removed | self.undefined)

    def held(self, missing: AbstractSet[CobId]) -> dict[str, CobId]:
        """Return the hosts that must not switch, each with an object that must be gone before.

        `missing` are the removed objects that have not arrived in their `remove` state.
        """
        found = self.order.held(missing)
        for cob in sorted(self.undefined, reverse=True):
            found[host_of(cob)] = cob
        return found

    def waits(self, records: Mapping[CobId, CobRecord]) -> tuple[Wait, ...]:
        """Return of each object that nothing says how to remove that it is still there."""
        detail = "no generation says how; `cobweb forget` gives it up"
        return tuple(
            Wait(
                cob=cob,
                state=records[cob].state,
                chain=(Blocked(cob=cob, kind=WaitKind.NO_WAY, state="removal", detail=detail),),
            )
            for cob in sorted(self.undefined - self.elsewhere)
        )


def gone_of(
    desired: Desired, records: Mapping[CobId, CobRecord], *, everywhere: bool = False
) -> frozenset[CobId]:
    """Return the objects of the journal that are not wanted any more.

    With a limit only those of its hosts, unless `everywhere`, for which the whole site is made.
    """
    known: Container[CobId] = desired.graph.cobs
    if desired.limit is not None and everywhere:
        known = desired.whole().contents
    return frozenset(
        cob for cob in records if cob not in known and (everywhere or desired.chooses(host_of(cob)))
    )


def retyped(
    store: Store, desired: Desired, changed: AbstractSet[CobId]
) -> Mapping[CobId, tuple[str, str]]:
    """Return the types, then and now, of changed objects that have another one under their name.

    They are removed as what they were and made anew. Only objects that may be moved are looked at.
    """
    past = Generations(store, desired.roots)
    found: dict[CobId, tuple[str, str]] = {}
    for cob in sorted(changed & desired.movable):
        site, now = past.site(past.active.get(host_of(cob), 0)), desired.graph.cobs[cob].type.name
        then = site.type_names.get(cob, now) if site else now
        if then != now:
            found[cob] = (then, now)
    return found


def old_needs(old: Graph, new: Graph) -> tuple[Need, ...]:
    """Return the needs that the goal has no more, between objects that are there."""
    known = old.cobs.keys() | new.cobs.keys()
    wanted = set(new.needs)
    found = dict.fromkeys(need for need in old.needs if need not in wanted)
    return tuple(need for need in found if need.cob in known and need.on in known)


def union_of(old: Graph, new: Graph) -> Graph:
    """Return the objects of both; of one that is in both, as it is in the new one."""
    if not old.cobs:
        return new
    cobs = dict(sorted({**old.cobs, **new.cobs}.items()))
    return Graph(
        cobs=cobs,
        needs=new.needs,
        limits=merged_limits(new.limits, old.limits, cobs.keys()),
        budgets=merged_budgets(new.budgets, old.budgets, cobs.keys()),
    )


def removal_of(
    store: Store,
    desired: Desired,
    gone: AbstractSet[CobId],
    work: KeptWork | None = None,
    changed: Mapping[CobId, bool] = MappingProxyType({}),
) -> Removal:
    """Return how the objects that are gone are to be removed, and what the `changed` ones were.

    Of these only those that a budget may hold back (True), and those on hosts with removals.

    Where what that takes is gone as well (a secret; with `work`, a task file without a copy), the
    actions of the objects that need it fail.
    Reads the generations that hosts have switched to. StoreError where one of them is damaged.
    """
    if not gone and not any(changed.values()):
        return Removal(graph=Graph(cobs={}))
    old, hosts = _as_hosts_know_it(Generations(store, desired.roots, work), gone)
    removed, order = _with_what_they_ask(old, frozenset(gone & old.cobs.keys()), desired)
    late = {*map(host_of, gone), *(host for it in order.groups for host in it)}
    was = {cob for cob in changed.keys() & old.cobs.keys() if changed[cob] or host_of(cob) in late}
    # Who has a lock of an earlier run on what takes part: a check of them ends it.
    holders = {holder for locked, holder, _ in store.locks() if locked in order.reached}
    takes_part = with_machines(order.reached | (holders & old.cobs.keys()) | was, old)
    hosts = {name: hosts[name] for name in sorted({host_of(cob) for cob in takes_part})}
    secrets = Secrets(desired.secrets, desired.hosts, desired.graph.cobs)
    graph, hosts = secrets.graph(_part(old, takes_part, desired.graph.cobs.keys()), hosts)
    return Removal(
        graph=graph,
        removed=removed,
        undefined=frozenset(gone - removed),
        elsewhere=frozenset(cob for cob in gone if not desired.chooses(host_of(cob))),
        order=order,
        hosts=dict(_other_hosts(hosts, desired, counted_variables(old, desired.graph))),
    )


def with_machines(cobs: AbstractSet[CobId], graph: Graph) -> AbstractSet[CobId]:
    """Return objects of a graph with the machines that they are on."""
    machines = {it.machine for cob in cobs if (it := graph.cobs.get(cob)) and it.machine}
    return cobs | (machines & graph.cobs.keys())


def _with_what_they_ask(
    old: Graph, removed: frozenset[CobId], desired: Desired
) -> tuple[frozenset[CobId], SwitchingOrder]:
    """Return removed objects with all that they can ask for and that is not wanted any more either.

    The journal knows nothing of these, for their hosts were lost before anything was found; a
    removal that asks for them finds them, and must not leave them behind.
    """
    while True:
        order = switching_order(old, removed)
        more = order.reached - removed - desired.graph.cobs.keys()
        if not desired.is_whole:
            more = frozenset(cob for cob in more if host_of(cob) in desired.chosen)
        if not more:
            return removed, order
        removed |= more


def counted_variables(old: Graph, new: Graph) -> defaultdict[str, set[str]]:
    """Return by host the variables that are content, in the old graph, of what both have.

    Where the new one has one of them no more, what both have must not see it any more.
    """
    found = defaultdict[str, set[str]](set)
    for it in old.cobs.values():
        if it.id in new.cobs:
            found[it.host].update(inputs_of(it.spec))
    return found


def _other_hosts(
    old: Mapping[str, Host], desired: Desired, counted: defaultdict[str, set[str]]
) -> Iterator[tuple[str, Host]]:
    """Yield the hosts that the site has no more, and those with variables that only then needs."""
    asked = desired.evaluated.asked
    for name, host in old.items():
        now = desired.hosts.get(name)
        taken = None if asked is None else asked | counted[name]
        if now is None:
            yield name, host
        elif lent := lent_variables(host, now, taken):
            yield name, replace(now, variables={**lent, **now.variables})


def _as_hosts_know_it(
    past: Generations, gone: AbstractSet[CobId]
) -> tuple[Graph, Mapping[str, Host]]:
    """Return the objects and needs of each host in the generation that it has switched to.

    What is gone and not in that one is taken from the newest generation that has it.
    """
    source = {cob: _source(past, cob) for cob in sorted(gone)}
    cobs: dict[CobId, Cob] = {}
    needs: list[Need] = []
    limits: list[Limit] = []
    budgets: list[Budget] = []
    hosts: dict[str, Host] = {}
    for generation in sorted({*past.active.values(), *source.values()}):
        found = past.find(generation)
        if found is None:
            continue
        site, graph = found
        own = {
            cob
            for cob, it in graph.cobs.items()
            if source.get(cob, past.active.get(it.host)) == generation
        }
        cobs |= {cob: graph.cobs[cob] for cob in own}
        needs += [need for need in graph.needs if need.cob in own]
        limits += graph.limits
        budgets += graph.budgets
        hosts |= {host_of(cob): site.hosts[host_of(cob)] for cob in own}
    whole = Graph(
        cobs=dict(sorted(cobs.items())),
        needs=tuple(need for need in needs if need.cob in cobs and need.on in cobs),
        limits=tuple(limits),
        budgets=tuple(budgets),
    )
    return whole, hosts


def _source(past: Generations, cob: CobId) -> int:
    """Return the generation that defines an object that is gone, 0 if none does."""
    for generation in (past.active.get(host_of(cob), 0), *past.ids):
        found = past.find(generation)
        if found is not None and cob in found[1].cobs:
            return generation
    return 0


def _part(graph: Graph, chosen: AbstractSet[CobId], others: AbstractSet[CobId]) -> Graph:
    """Return a part of a graph: the needs that its objects have of each other and of `others`."""
    known = chosen | others
    return replace(
        graph,
        cobs={cob: it for cob, it in graph.cobs.items() if cob in chosen},
        needs=tuple(
            need
            for need in graph.needs
            if need.cob in known and need.on in known and (need.cob in chosen or need.on in chosen)
        ),
    )
