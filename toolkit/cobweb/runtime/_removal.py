"""What is gone from the site: found in the journal, and taken away before its host switches.

Each host has switched to some generation, which says what its objects are and need; an object that
is in the journal and not wanted any more is removed under it (COB paper, section 5.6).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from cobweb.engine import STAY, Blocked, Engine, WaitKind
from cobweb.generation import SwitchingOrder, contents, lent_variables, switching_order
from cobweb.model import Cob, CobId, Graph, Host, Limit, LimitGroup, Need, host_of
from cobweb.runtime._acts import Act, SoFar
from cobweb.runtime._baseline import Baseline, Lock, Refresh, baseline, old_locks, records_after
from cobweb.runtime._desired import Desired
from cobweb.runtime._generations import Generations
from cobweb.runtime._kept_work import KeptWork, Secrets
from cobweb.runtime._machines import with_machines
from cobweb.runtime._result import Wait, waits_of
from cobweb.store import CobRecord, GrantGone, Store

__all__ = ["LookAct", "Removal", "RemovalAct", "gone_of", "removal_of", "retyped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What is to be removed, and the old objects that this may take.

    `graph` has the `removed` objects and all that they can ask for, as their hosts know them;
    `hosts` are hosts of them that the site has not any more, or that get variables of then back for
    this. `undefined` objects are gone as well, but no generation says what they are. `elsewhere`
    are removed objects that a limit leaves alone: they hold up the hosts that must not switch
    before theirs.
    """

    graph: Graph
    removed: frozenset[CobId] = frozenset()
    undefined: frozenset[CobId] = frozenset()
    elsewhere: frozenset[CobId] = frozenset()
    order: SwitchingOrder = field(
        default_factory=lambda: SwitchingOrder(steps=(), reached=frozenset())
    )
    hosts: Mapping[str, Host] = field(default_factory=dict)

    @property
    def gone(self) -> frozenset[CobId]:
        """All objects that are to be removed now."""
        return (self.removed | self.undefined) - self.elsewhere

    def __bool__(self) -> bool:
        """Say whether anything is gone."""
        return bool(self.removed | self.undefined)

    def without(self, arrived: AbstractSet[CobId]) -> Removal:
        """Return what is left to do when these are removed."""
        removed = self.removed - arrived
        order = switching_order(self.graph, removed)
        graph = _part(self.graph, with_machines(order.reached, self.graph))
        return replace(self, graph=graph, removed=removed, order=order)

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
        cob
        for cob in records
        if cob not in known and (everywhere or _is_chosen(desired, host_of(cob)))
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
        then, now = past.type_of(cob), desired.graph.cobs[cob].type.name
        if then not in (None, now):
            found[cob] = (str(then), now)
    return found


def _is_chosen(desired: Desired, host: str) -> bool:
    return desired.limit is None or host in desired.chosen


def removal_of(
    store: Store, desired: Desired, gone: AbstractSet[CobId], work: KeptWork | None = None
) -> Removal:
    """Return how the objects that are gone are to be removed.

    Where what that takes is gone as well (a secret; with `work`, a task file without a copy), the
    actions of the objects that need it fail.
    Reads the generations that hosts have switched to. StoreError where one of them is damaged.
    """
    if not gone:
        return Removal(graph=Graph(cobs={}))
    old, hosts = _as_hosts_know_it(Generations(store, desired.roots, work), gone)
    removed, order = _with_what_they_ask(old, frozenset(gone & old.cobs.keys()), desired)
    takes_part = with_machines(order.reached | _in_doubt(store, old, order), old)
    hosts = {name: hosts[name] for name in sorted({host_of(cob) for cob in takes_part})}
    secrets = Secrets(desired.secrets, desired.hosts, desired.graph.cobs)
    graph, hosts = secrets.graph(_part(old, takes_part), hosts)
    return Removal(
        graph=graph,
        removed=removed,
        undefined=frozenset(gone - removed),
        elsewhere=frozenset(cob for cob in gone if not _is_chosen(desired, host_of(cob))),
        order=order,
        hosts=dict(_other_hosts(hosts, desired)),
    )


def _in_doubt(store: Store, old: Graph, order: SwitchingOrder) -> AbstractSet[CobId]:
    """Return who has a lock of an earlier run on what takes part: a check of them ends it."""
    return {
        holder
        for locked, holder, _ in store.locks()
        if locked in order.reached and holder in old.cobs
    }


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
        if desired.limit is not None:
            more = frozenset(cob for cob in more if host_of(cob) in desired.chosen)
        if not more:
            return removed, order
        removed |= more


def _other_hosts(old: Mapping[str, Host], desired: Desired) -> Iterator[tuple[str, Host]]:
    """Yield the hosts that the site has no more, and those with variables that only then needs."""
    for name, host in old.items():
        now = desired.hosts.get(name)
        if now is None:
            yield name, host
        elif lent := lent_variables(host, now, desired.evaluated.asked):
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
        limits += _part(graph, own).limits
        hosts |= {host_of(cob): site.hosts[host_of(cob)] for cob in own}
    whole = Graph(cobs=dict(sorted(cobs.items())), needs=tuple(needs), limits=tuple(limits))
    return _part(whole, whole.cobs.keys()), hosts


def _source(past: Generations, cob: CobId) -> int:
    """Return the generation that defines an object that is gone, 0 if none does."""
    for generation in (past.active.get(host_of(cob), 0), *past.ids):
        found = past.find(generation)
        if found is not None and cob in found[1].cobs:
            return generation
    return 0


def _part(graph: Graph, chosen: AbstractSet[CobId]) -> Graph:
    """Return a part of a graph: needs between its objects, limits with their old bounds."""
    limits = []
    for limit in graph.limits:
        groups = [
            LimitGroup(name=group.name, members=group.members & chosen, bound=group.bound)
            for group in limit.groups
        ]
        limits.append(replace(limit, groups=tuple(group for group in groups if group.members)))
    return Graph(
        cobs={cob: it for cob, it in graph.cobs.items() if cob in chosen},
        needs=tuple(need for need in graph.needs if need.cob in chosen and need.on in chosen),
        limits=tuple(limit for limit in limits if limit.groups),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAct:
    """The opening of the act that looks at what is to be removed, and at its machines.

    It moves nothing; so nothing is stopped for an object that is not there any more, or whose host
    is silent.
    """

    removal: Removal
    records: Mapping[CobId, CobRecord]
    generation: int
    probes: tuple[Cob, ...] = ()

    def __call__(self, _so_far: SoFar) -> Act | None:
        """Return the act; None where there is nothing to look at."""
        gone = self.removal.removed & self.removal.gone
        if not gone:
            return None
        cobs = self.removal.graph.cobs
        looked_at = with_machines(gone, self.removal.graph)
        graph = Graph(cobs={cob: it for cob, it in cobs.items() if cob in looked_at})
        before = baseline(graph, self.records, refresh=Refresh.ALL, contents=contents(graph))
        return Act(
            graph=graph,
            engine=Engine(graph, movable=frozenset(), generation=self.generation),
            generation=self.generation,
            found=before.found,
            contents=before.contents,
            specs=before.specs,
            applied=before.applied,
            recorded=before.recorded,
            probes=self.probes,
            judge=lambda _engine: (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalAct:
    """The opening of the act in which removed objects go to their `remove` state.

    All others stay where they are, unless a removal asks them to move. `probes` are the objects
    that a later act begins to check: their hosts are to answer before anything is removed. `again`
    says that a round has gone before.
    """

    removal: Removal
    desired: Desired
    records: Mapping[CobId, CobRecord]
    locks: Iterable[Lock]
    refresh: Refresh
    generation: int
    probes: tuple[Cob, ...] = ()
    again: bool = False

    def __call__(self, so_far: SoFar) -> Act | None:
        """Return the act; None where nothing that is gone is defined."""
        removal, graph = self.removal, self.removal.graph
        if not removal.removed:
            return None
        before = self.before(so_far)
        goals = {
            cob: it.type.remove if cob in removal.removed else STAY
            for cob, it in graph.cobs.items()
        }
        held, dead = old_locks(graph, self.records, self.locks, whole=False)
        return Act(
            graph=graph,
            engine=Engine(
                graph,
                movable=self._movable(),
                goals=goals,
                failed=so_far.failed & graph.cobs.keys(),
                canaries=so_far.canaries,
                generation=self.generation,
            ),
            generation=self.generation,
            known=before.known,
            found=before.found,
            held=held,
            contents=before.contents,
            specs=before.specs,
            applied={**before.applied, **_of(graph, so_far.applied)},
            away=before.away,
            recorded=before.recorded,
            first=tuple(GrantGone(cob=cob, holder=holder) for cob, holder, _ in dead),
            probes=self.probes,
            judge=self._judge,
            supersedes=self.again,
        )

    @property
    def look(self) -> LookAct | None:
        """The opening of the act before this one; None where the journal is to be believed."""
        if self.refresh is Refresh.NONE:
            return None
        return LookAct(
            removal=self.removal,
            records=self.records,
            generation=self.generation,
            probes=self.probes,
        )

    def before(self, so_far: SoFar) -> Baseline:
        """Return what is believed of the objects of the act."""
        graph = self.removal.graph
        records = records_after(self.records, so_far.states, so_far.contents, so_far.lost)
        return baseline(graph, records, refresh=self.refresh, contents=contents(graph))

    def _movable(self) -> AbstractSet[CobId]:
        held = self._held_up()
        return {
            cob
            for cob, it in self.removal.graph.cobs.items()
            if it.host not in held and _is_chosen(self.desired, it.host)
        }

    def _held_up(self) -> Mapping[str, CobId]:
        """Return the hosts on which nothing may be removed as long as something is elsewhere."""
        return self.removal.held(self.removal.elsewhere) if self.removal.elsewhere else {}

    def _judge(self, engine: Engine) -> tuple[Wait, ...]:
        held, gone = self._held_up(), self.removal.removed & self.removal.gone
        waits = {wait.cob: wait for wait in waits_of(engine) if wait.cob in gone}
        for cob in gone:
            if host_of(cob) in held:
                on = held[host_of(cob)]
                chain = (
                    Blocked(cob=cob, kind=WaitKind.UNSWITCHED, on=on, detail=host_of(cob)),
                    Blocked(cob=on, kind=WaitKind.EXCLUDED),
                )
                waits[cob] = Wait(cob=cob, state=engine.state(cob), chain=chain)
        return tuple(waits[cob] for cob in sorted(waits))


def _of(
    graph: Graph, applied: Mapping[CobId, Mapping[str, Any] | None]
) -> Mapping[CobId, Mapping[str, Any] | None]:
    return {cob: spec for cob, spec in applied.items() if cob in graph.cobs}
