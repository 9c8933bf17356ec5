"""The act in which the site comes about: every object to its preferred state, under its needs.

It begins with the switch of hosts to the new generation, each as soon as what had to be removed
before is removed (COB paper, section 5.6). A host that cannot switch keeps its old objects as they
are; what waits for them is told what holds the host up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from cobweb.engine import Blocked, Engine, WaitKind
from cobweb.model import CobId, host_of
from cobweb.runtime._acts import Act, SoFar
from cobweb.runtime._baseline import (
    Baseline,
    Lock,
    Refresh,
    baseline,
    is_certain,
    old_locks,
    records_after,
)
from cobweb.runtime._desired import Desired
from cobweb.runtime._events import Told
from cobweb.runtime._removal import Removal
from cobweb.runtime._result import Wait
from cobweb.runtime._switching import Switching, switching
from cobweb.store import CobRecord, GrantGone

__all__ = ["SiteAct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAct:
    """The opening of the act.

    `before` is what was believed ahead of the run, from `records` and `locks` of the journal;
    `active` is the generation that each host had switched to, `applied` what this run has applied
    already.
    """

    desired: Desired
    before: Baseline
    removal: Removal
    records: Mapping[CobId, CobRecord] = field(default_factory=dict)
    locks: Iterable[Lock] = ()
    active: Mapping[str, int] = field(default_factory=dict)
    applied: Mapping[CobId, Mapping[str, Any] | None] = field(default_factory=dict)
    refresh: Refresh = Refresh.CHANGED
    generation: int = 0

    def __call__(self, so_far: SoFar) -> Act:
        """Return the act."""
        graph, movable = self.desired.graph, self.desired.movable
        switch = self.switching(so_far)
        records = self._records(so_far, switch)
        before = self._before(records, switch)
        held, dead = self._locks(so_far, records)
        if switch.held:
            movable = frozenset(cob for cob in movable if host_of(cob) not in switch.held)
        verdict = _Verdict(
            held=switch.held,
            behind=frozenset(
                cob
                for cob in self.before.changed | self.before.added
                if host_of(cob) in switch.held and not so_far.halted
            ),
            so_far=so_far.waits,
            undefined=self.removal.waits(self.records),
        )
        return Act(
            graph=graph,
            engine=Engine(
                graph,
                movable=movable,
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
            applied={**self.before.applied, **self.applied, **so_far.applied},
            changed=before.changed,
            away=before.away,
            recorded=before.recorded,
            first=(
                *(GrantGone(cob=cob, holder=holder) for cob, holder, _ in dead),
                *switch.entries(),
            ),
            told=(*_released(dead, so_far.locks), *switch.told()),
            judge=verdict,
        )

    def switching(self, so_far: SoFar) -> Switching:
        """Return which hosts switch at the beginning of the act."""
        return switching(
            self.removal, self.desired, self.active, so_far, generation=self.generation
        )

    def _records(self, so_far: SoFar, switch: Switching) -> Mapping[CobId, CobRecord]:
        """Return the records as the acts before and the switch have left them."""
        if not so_far.states:
            return self.records
        found = records_after(self.records, so_far.states, so_far.contents, so_far.lost)
        return {cob: record for cob, record in found.items() if cob not in switch.arrived}

    def _before(self, records: Mapping[CobId, CobRecord], switch: Switching) -> Baseline:
        """Return what is believed now; of hosts that cannot switch, what the journal says."""
        if records is self.records and not switch.held:
            return self.before
        graph, contents = self.desired.graph, self.before.contents
        now = baseline(
            graph,
            records,
            refresh=self.refresh,
            contents=contents,
            results=self.before.results,
        )
        kept = {
            cob: records[cob].state
            for cob in now.changed
            if host_of(cob) in switch.held
            and cob not in now.away
            and is_certain(records[cob], graph.cobs[cob].type)
        }
        found = {cob: state for cob, state in now.found.items() if cob not in kept}
        return replace(
            now, known={**now.known, **kept}, found=found, changed=now.changed - kept.keys()
        )

    def _locks(
        self, so_far: SoFar, records: Mapping[CobId, CobRecord]
    ) -> tuple[tuple[Lock, ...], tuple[Lock, ...]]:
        """Return the locks that stay in force, and those that are over."""
        locks = (lock for lock in self.locks if lock[0] not in so_far.states)
        return old_locks(
            self.desired.graph,
            records,
            [*locks, *so_far.locks],
            whole=self.desired.limit is None,
        )


def _released(dead: Iterable[Lock], told: Iterable[Lock]) -> Iterator[Told]:
    """Yield that locks are over which this run has told of."""
    known = set(told)
    for lock in dead:
        if lock in known:
            cob, holder, state = lock
            yield "lock.release", {"cob": cob, "holder": holder, "state": state}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """Says why objects are not where they should be, also where their host could not switch.

    `held` names what holds a host up, `behind` are objects that only the new generation has so;
    `so_far` is why objects of the acts before have not arrived, `undefined` why no act concerned
    others that are gone.
    """

    held: Mapping[str, CobId]
    behind: AbstractSet[CobId]
    so_far: tuple[Wait, ...]
    undefined: tuple[Wait, ...]

    def __call__(self, engine: Engine) -> tuple[Wait, ...]:
        """Return the waits of an engine that has come to rest."""
        chains = {cob: engine.chain(cob) for cob in {*engine.unsettled(), *self.behind}}
        waits = (
            Wait(cob=cob, state=engine.state(cob), chain=self._told(cob, chains[cob]))
            for cob in sorted(chains.keys() - {wait.cob for wait in self.so_far})
        )
        return (*self.undefined, *(wait for wait in waits if wait.chain))

    def _told(self, cob: CobId, chain: tuple[Blocked, ...]) -> tuple[Blocked, ...]:
        """Return a chain that goes on to what holds a host up; () for what is not to be moved."""
        if not chain:
            return self._held_up(cob)
        for number, link in enumerate(chain):
            if link.kind is WaitKind.EXCLUDED and host_of(link.cob) in self.held:
                return (*chain[:number], *self._held_up(link.cob))
        if chain[0].kind is WaitKind.EXCLUDED:
            return ()
        on = chain[-1].on
        ends_here = on is None or any(link.cob == on for link in chain)
        return chain if ends_here else (*chain, *(self._said(on) or ()))

    def _said(self, cob: CobId | None) -> tuple[Blocked, ...] | None:
        """Return what was said of an object that is gone; None where nothing was."""
        gone = (*self.so_far, *self.undefined)
        return next((wait.chain for wait in gone if wait.cob == cob), None)

    def _held_up(self, cob: CobId) -> tuple[Blocked, ...]:
        host = host_of(cob)
        on = self.held[host]
        why = self._said(on)
        if why is None:  # a limit leaves it alone
            why = (Blocked(cob=on, kind=WaitKind.EXCLUDED),)
        return (Blocked(cob=cob, kind=WaitKind.UNSWITCHED, on=on, detail=host), *why)
