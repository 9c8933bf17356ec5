"""The act in which the site comes about: every object to its preferred state, under its needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cobweb.engine import Engine
from cobweb.model import CobId
from cobweb.runtime._acts import Act, SoFar
from cobweb.runtime._baseline import Baseline, Lock, old_locks
from cobweb.runtime._desired import Desired
from cobweb.store import CobRecord, GrantGone

__all__ = ["SiteAct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAct:
    """The opening of the act.

    `before` is what was believed ahead of the run, from `records` and `locks` of the journal.
    """

    desired: Desired
    before: Baseline
    records: Mapping[CobId, CobRecord]
    locks: Iterable[Lock] = ()
    generation: int = 0

    def __call__(self, _so_far: SoFar) -> Act:
        """Return the act."""
        desired, before = self.desired, self.before
        is_whole = desired.limit is None
        held, dead = old_locks(desired.graph, self.records, self.locks, whole=is_whole)
        return Act(
            graph=desired.graph,
            engine=Engine(desired.graph, movable=desired.movable, generation=self.generation),
            generation=self.generation,
            known=before.known,
            held=held,
            contents=before.contents,
            specs=before.specs,
            applied=before.applied,
            changed=before.changed,
            first=tuple(GrantGone(cob=cob, holder=holder) for cob, holder, _ in dead),
        )
