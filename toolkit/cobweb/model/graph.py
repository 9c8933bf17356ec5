"""The graph of change objects and their needs (COB paper, section 5.3).

`TransitionNeed` is (A, x, y) <- (B, z): A may go from x to y only while it holds B's state lock for
z. `LockNeed` is (C, u) <- (D, v): C may grant locks on u only while it holds D's state lock for v.
Where z or v names a group of states (`CobType.groups`), any of them will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter

from cobweb.errors import Place
from cobweb.model.cob import ANY, Cob, CobId, State


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionNeed:
    """(cob, source, dest) <- (on, state); `ANY` for source or dest stands for all states."""

    cob: CobId
    source: State
    dest: State
    on: CobId
    state: State
    place: Place | None = field(default=None, compare=False)

    def covers(self, source: State, dest: State) -> bool:
        """Say whether the need is asked for by the transition from `source` to `dest`."""
        return self.source in (ANY, source) and self.dest in (ANY, dest)

    def __str__(self) -> str:
        return f"({self.cob}, {self.source} -> {self.dest}) <- ({self.on}, {self.state})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockNeed:
    """(cob, within) <- (on, state): a lock dependency of `cob` in the state `within` (or `ANY`)."""

    cob: CobId
    within: State
    on: CobId
    state: State
    place: Place | None = field(default=None, compare=False)

    def covers(self, state: State) -> bool:
        """Say whether the need is asked for before `state` is granted to others."""
        return self.within in (ANY, state)

    def __str__(self) -> str:
        return f"({self.cob}, {self.within}) <- ({self.on}, {self.state})"


Need = TransitionNeed | LockNeed


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """An upper bound on the transitions that are in flight at once.

    `groups` partitions the objects that the limit speaks of: one (name, members, bound) per value
    of the `per` variable, or a single one; bounds are evaluated from percentages and at least 1.
    `source` and `dest` select transitions (`ANY` for all).
    """

    name: str
    groups: tuple[LimitGroup, ...]
    source: State = ANY
    dest: State = ANY
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitGroup:
    """The members of one failure domain and how many of them may be busy at once."""

    name: str
    members: frozenset[CobId]
    bound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What a budget counts: by default a host, with the members of the budget that are on it.

    `domains` are the values of the budget's `per` variable on its hosts (() without `per`). `order`
    says which unit goes first where a slot is lent: ascending, numbers before texts as
    (0, number, "") and (1, 0.0, text).
    """

    name: str
    members: frozenset[CobId]
    domains: tuple[str, ...] = ()
    order: tuple[int, float, str] = (0, 0.0, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many units may be out at once (design, section 5b: serving, units, bounds, canary).

    `units` are in the order of the inventory. The bound is `count`, or with `percent` so many per
    cent of the units that should serve, rounded down and at least 1, worked out anew at each
    lending; with `per` it holds for each domain, and a percentage for all units together besides.
    `group` names a group of states in the place of the members' serving states. `first` units go
    ahead of all others as the canary, and are checked again `pause_s` seconds after they are home.
    What a slot relies on was checked at most `trust_s` seconds ago (None: as the run says). The
    objects of `during` are held in these states while any unit is out.
    """

    name: str
    units: tuple[Unit, ...]
    count: int = 1
    percent: int | None = None
    group: str = ""
    first: int = 0
    pause_s: float = 0.0
    trust_s: float | None = None
    during: tuple[tuple[CobId, State], ...] = ()
    place: Place | None = field(default=None, compare=False)

    def bound(self, population: int) -> int:
        """Return how many of so many units that should serve may be out at once."""
        return self.count if self.percent is None else max(1, population * self.percent // 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """All change objects of a site and their needs; ids and needs are in sorted order.

    `cobs` maps id to COB; `needs` names only ids of `cobs` (the inventory makes sure of it).
    `limits` bound transitions in flight, `budgets` units that are out.
    """

    cobs: Mapping[CobId, Cob]
    needs: tuple[Need, ...] = ()
    limits: tuple[Limit, ...] = ()
    budgets: tuple[Budget, ...] = ()

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that have a COB, sorted."""
        return tuple(sorted({cob.host for cob in self.cobs.values()}))

    def bounded(self) -> Mapping[CobId, list[str]]:
        """Return, by COB, the names of the limits of both kinds that it is a member of, sorted."""
        members = [(it.name, part.members) for it in self.limits for part in it.groups]
        members += [(it.name, part.members) for it in self.budgets for part in it.units]
        found: dict[CobId, list[str]] = {}
        for name, cobs in sorted(members, key=itemgetter(0)):
            for cob in cobs:
                found.setdefault(cob, []).append(name)
        return found

    def transition_needs(self) -> Iterator[TransitionNeed]:
        """Yield the transition dependencies with `ANY` expanded over each type's matrix."""
        for need in self.needs:
            if isinstance(need, TransitionNeed):
                for step in self.cobs[need.cob].type.transitions:
                    if need.covers(step.source, step.dest):
                        yield replace(need, source=step.source, dest=step.dest)

    def lock_needs(self) -> Iterator[LockNeed]:
        """Yield the lock dependencies with `ANY` expanded over each type's states."""
        for need in self.needs:
            if isinstance(need, LockNeed):
                for state in self.cobs[need.cob].type.states:
                    if need.covers(state):
                        yield replace(need, within=state)
