"""What a run sets out with: what is believed, what is gone, and the acts that lie ahead."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from cobweb.model import Cob, CobId, Graph, State, host_of
from cobweb.runtime._acts import SoFar
from cobweb.runtime._baseline import Baseline, Refresh, baseline, records_after
from cobweb.runtime._desired import Desired
from cobweb.runtime._kept_work import KeptWork
from cobweb.runtime._removal import Removal, RemovalAct, gone_of, removal_of, retyped
from cobweb.runtime._site_act import SiteAct
from cobweb.store import CobRecord, Store

__all__ = ["Course", "beliefs", "course_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The way from what is believed to what is desired.

    `believed` are the records that a plan is based on, `records` those with what is gone elsewhere.
    `retyped` are objects whose type is another one now (then, now): they are removed and made anew.
    `desired` has the hosts of removed objects as well, `graph` all objects of all acts. `expected`
    is the state in which each of them most likely is.
    """

    desired: Desired
    believed: Mapping[CobId, CobRecord]
    records: Mapping[CobId, CobRecord]
    before: Baseline
    removal: Removal
    retyped: Mapping[CobId, tuple[str, str]]
    removal_act: RemovalAct
    site_act: SiteAct
    graph: Graph
    expected: Mapping[CobId, State]

    @property
    def looked_at(self) -> frozenset[CobId]:
        """The objects that are checked before they are removed."""
        past = self.removal_act.before(SoFar())
        removed = self.removal.removed & self.removal.gone
        return removed & past.found.keys() if self.removal_act.look is None else removed

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts whose objects may be moved."""
        return frozenset(map(host_of, {*self.desired.movable, *self.removal.removed}))

    def after(self, removed: SoFar, settled: SoFar) -> Course:
        """Return the course of what is left when its two acts have ended so."""
        switch = self.site_act.switching(removed)
        one = records_after(self.records, removed.states, removed.contents, removed.lost)
        two = records_after(one, settled.states, settled.contents, settled.lost)
        records = {cob: record for cob, record in two.items() if cob not in switch.arrived}
        removal = self.removal.without(switch.arrived)
        known = removed.states.keys() | settled.states.keys()
        locks = [*(lock for lock in self.site_act.locks if lock[0] not in known), *settled.locks]
        switched = dict.fromkeys(switch.hosts, self.site_act.generation)
        contents = self.desired.evaluated.contents
        before = baseline(
            self.desired.graph, records, contents=contents, results=self.before.results
        )
        return replace(
            self,
            records=records,
            before=before,
            removal=removal,
            removal_act=replace(
                self.removal_act,
                removal=removal,
                records=records,
                locks=locks,
                refresh=Refresh.CHANGED,
                probes=(),
                again=True,
            ),
            site_act=replace(
                self.site_act,
                before=before,
                removal=removal,
                records=records,
                locks=locks,
                active={**self.site_act.active, **switched},
                applied={**removed.applied, **settled.applied},
                refresh=Refresh.CHANGED,
            ),
        )


def beliefs(store: Store, desired: Desired) -> Mapping[CobId, CobRecord]:
    """Return what the journal says of the objects that take part and of what is gone.

    With a limit that is read object by object and host by host.
    """
    if desired.limit is None:
        return store.states()
    found = store.states_of(desired.graph.cobs)
    return {**found, **store.states_on(desired.chosen)}


def course_of(  # noqa: PLR0913  # what a run needs to know, from three sides
    desired: Desired,
    store: Store,
    *,
    refresh: Refresh = Refresh.CHANGED,
    generation: int,
    records: Mapping[CobId, CobRecord] | None = None,
    work: KeptWork | None = None,
) -> Course:
    """Return the course of a run that brings about `generation`, which is what is desired.

    `records` are all that the journal has; without them what is gone elsewhere than on the hosts of
    a limit is only looked for if something is gone there. `work` finds the files of earlier
    generations for a course that is to be run. StoreError where the state database is damaged.
    """
    believed = beliefs(store, desired) if records is None else records
    records, gone = _with_gone(desired, store, believed, everywhere=records is not None)
    locks = store.locks()
    contents, results = desired.evaluated.contents, store.results()
    before = baseline(desired.graph, records, refresh=refresh, contents=contents, results=results)
    others = retyped(store, desired, before.changed)
    removal = removal_of(store, desired, gone | others.keys(), work)
    if work and desired.kept:
        desired = replace(desired, graph=work.graph(desired.graph, desired.kept))
    if removal.hosts:
        desired = replace(desired, hosts={**desired.hosts, **removal.hosts})
    removing = RemovalAct(
        removal=removal,
        desired=desired,
        records=records,
        locks=locks,
        refresh=refresh,
        generation=generation,
        probes=_probes(desired, before) if removal else (),
    )
    return Course(
        desired=desired,
        believed=believed,
        records=records,
        before=before,
        removal=removal,
        retyped=others,
        removal_act=removing,
        site_act=SiteAct(
            desired=desired,
            before=before,
            removal=removal,
            records=records,
            locks=locks,
            active=store.host_generations(),
            refresh=refresh,
            generation=generation,
        ),
        graph=_union(removal.graph, desired.graph),
        expected=_expected(before, removing.before(SoFar()), others.keys() & removal.removed),
    )


def _with_gone(
    desired: Desired, store: Store, records: Mapping[CobId, CobRecord], *, everywhere: bool
) -> tuple[Mapping[CobId, CobRecord], AbstractSet[CobId]]:
    """Return what is gone, and the records: all of them where something is gone under a limit."""
    gone = gone_of(desired, records, everywhere=everywhere)
    if not gone or everywhere or desired.limit is None:
        return records, gone
    every = store.states()
    return every, gone_of(desired, every, everywhere=True)


def _probes(desired: Desired, before: Baseline) -> tuple[Cob, ...]:
    """Return who is going to be checked on a host that is there, as far as that is known."""
    asked = (desired.graph.cobs[cob] for cob in sorted(desired.movable & before.found.keys()))
    return tuple(it for it in asked if it.machine is None or it.machine in before.known)


def _expected(
    before: Baseline, past: Baseline, others: AbstractSet[CobId]
) -> Mapping[CobId, State]:
    """Return the state in which each object most likely is; `others` as what they were."""
    old = {**past.found, **past.known}
    made_anew = {cob: old[cob] for cob in others}
    return ChainMap(made_anew, dict(before.known), dict(before.found), old)


def _union(old: Graph, new: Graph) -> Graph:
    """Return the objects of both; of one that is in both, as it is in the new one."""
    if not old.cobs:
        return new
    needs = dict.fromkeys((*old.needs, *new.needs))
    return Graph(
        cobs=dict(sorted({**old.cobs, **new.cobs}.items())), needs=tuple(needs), limits=new.limits
    )
