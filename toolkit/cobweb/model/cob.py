"""Change objects, their types, and the graph of their needs (COB paper, sections 4 and 5.1 to 5.3).

A COB type is a small state machine: states in order of priority, a sparse transition matrix, and a
check that finds the true state. A COB is one instance of a type on one host. `unknown` is a state
of every COB, in no matrix, and is left by the check alone.

`TransitionNeed` is (A, x, y) <- (B, z): A may go from x to y only while it holds B's state lock for
z. `LockNeed` is (C, u) <- (D, v): C may grant locks on u only while it holds D's state lock for v.
Where z or v names a group of states (`CobType.groups`), any of them will do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, NewType

from cobweb.errors import Place
from cobweb.model.result import decides_what_runs_here

CobId = NewType("CobId", str)
"""`host/name`, unique in a site."""

State = str
"""A state's name; `UNKNOWN` is one, `ANY` is none but stands for all in a need."""

UNKNOWN: State = "unknown"
ANY = "*"

OUTDATED: State = "outdated"
"""The state that, by convention (COB paper, 5.1), says that an older content is applied."""


def cob_id(host: str, name: str) -> CobId:
    """Return the id of the COB `name` on `host`."""
    return CobId(f"{host}/{name}")


def host_of(cob: CobId) -> str:
    """Return the host part of an id."""
    return cob.partition("/")[0]


def name_of(cob: CobId) -> str:
    """Return the name part of an id."""
    return cob.partition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """An Ansible task file, run on the COB's host; `path` is absolute.

    With `facts` they are gathered before, once per host and run: all of them, or named subsets.
    What goes `together` is one play of all instances of the COB that may go at once. A check that
    `finds` three states is run in check mode: the first of them where nothing would change, unless
    the journal says the second; else the second, unless it says the third.
    """

    path: str
    facts: bool | tuple[str, ...] = False
    together: bool = False
    finds: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """An Ansible role, run on the COB's host; `name` as Ansible finds it, or an absolute path.

    `vars` are variables of the role, templates over those of the host and `cob`. The rest is as for
    `Tasks`.
    """

    name: str
    vars: Mapping[str, Any] = field(default_factory=dict, hash=False)
    facts: bool | tuple[str, ...] = True
    together: bool = False
    finds: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonAction:
    """A method of a Python type, run by the coordinator; `type_name` is the registered type."""

    type_name: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No work on the host: the transition is a mark that others can order themselves by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Work that cannot be done since what it was is gone: it fails with `message`."""

    message: str


Action = Tasks | Role | PythonAction | Nothing | Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One entry of a transition matrix.

    `timeout_s` bounds one attempt (None: the executor's default); `attempts` >= 1. A transition
    between serving states that `interrupts` takes its object out for as long as it runs.
    """

    source: State
    dest: State
    action: Action
    timeout_s: float | None = None
    attempts: int = 1
    interrupts: bool = False

    def __str__(self) -> str:
        return f"{self.source} -> {self.dest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CobType:
    """A COB type; `states` from highest to lowest priority, without `unknown`.

    `spec_schema` is a JSON Schema (draft 2020-12) of `spec`, or None for any mapping.
    `transitions` are in order of declaration, which breaks ties between equally short ways.
    `revert` and `prepare` are for each `Confirm` without its own ("": this type knows no way back).
    `groups` maps names, none of which is a state's, to some of `states`: a need may name a group
    instead of a state, and is met in any of these. `serving` are the states in which an object
    works for its users now (design, section 5b); () stands for the preferred state alone.
    `connection` names variables of the connection that its results may say besides the usual ones.
    `inputs` are globs of the variables whose values are part of an object's content, as its spec
    is; None stands for those of `input_globs`. Objects that are `on_demand` are moved only by a run
    that names them, or an object that needs them.
    `shared` is plain data that work in Python gets beside the spec of any object of the type. It is
    no part of an object's content: another value changes none.
    """

    name: str
    states: tuple[State, ...]
    preferred: State
    remove: State
    check: Action
    transitions: tuple[Transition, ...]
    check_timeout_s: float | None = None
    spec_schema: Mapping[str, Any] | None = None
    revert: str = ""
    prepare: str = ""
    groups: Mapping[str, tuple[State, ...]] = field(default_factory=dict)
    serving: tuple[State, ...] = ()
    connection: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = None
    on_demand: bool = False
    shared: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = None
    _ways: dict[State, dict[State, tuple[Transition, ...]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def transition(self, source: State, dest: State) -> Transition | None:
        """Return the matrix entry, or None where it is empty."""
        return next((t for t in self.transitions if t.source == source and t.dest == dest), None)

    def serves(self, state: State, group: str = "") -> bool:
        """Say whether an object in `state` works for its users, or is in a state of a group."""
        if group:
            return state in self.groups[group]
        return state in self.serving if self.serving else state == self.preferred

    def knows(self, name: str) -> bool:
        """Say whether a need can name it: a state of the type, or a group of them."""
        return name in self.states or name in self.groups

    def members(self, name: str) -> tuple[State, ...]:
        """Return the states in which a need for a group, or for a single state, is met."""
        return self.groups.get(name) or (name,)

    def stands_for(self, name: str, at: State) -> State:
        """Return the state that a request for a group, or for a state, is for, if asked in `at`.

        That is `at` itself where it is one of the group, else the nearest one: of those with the
        shortest way from `at` the first in the group's order, and the first of all if none has one.
        """
        members = self.members(name)
        if at in members:
            return at
        lengths = {state: len(way) for state in members if (way := self.way(at, state))}
        return min(lengths, key=lengths.__getitem__, default=members[0])

    def meet(self, names: Sequence[str]) -> str | None:
        """Return the state or group that satisfies needs for all of `names`; None if there is none.

        It is the one of `names` whose states satisfy all others, else the first state, in the order
        of the first of `names`, that does.
        """
        asked = {name: self.members(name) for name in names}
        common = [state for state in asked[names[0]] if all(state in it for it in asked.values())]
        whole = (name for name, states in asked.items() if set(states) == set(common))
        return next(whole, common[0] if common else None)

    def opens(self, action: Action) -> frozenset[str]:
        """Return which variables of the connection results of an action may say, if not usual.

        What can name a program to run here is for Python alone: that runs here anyway.
        """
        is_ours = isinstance(action, PythonAction)
        return frozenset(it for it in self.connection if is_ours or not decides_what_runs_here(it))

    def actions(self) -> tuple[Action, ...]:
        """Return what the check and the transitions do, in this order."""
        return (self.check, *(step.action for step in self.transitions))

    def input_globs(self) -> tuple[str, ...]:
        """Return `inputs`; where it is None, all variables that begin with the name of a role."""
        if self.inputs is not None:
            return self.inputs
        roles = (action.name for action in self.actions() if isinstance(action, Role))
        return tuple(f"{re.split('[./]', name)[-1].replace('-', '_')}_*" for name in roles)

    def way(self, source: State, dest: State) -> tuple[Transition, ...] | None:
        """Return the shortest way, ties broken by declaration; () if there, None if there is none.

        Memoised per type: a matrix is small and asked for at every step.
        """
        if source not in self._ways:
            ways: dict[State, tuple[Transition, ...]] = {source: ()}
            states = [source]
            for state in states:  # which grows as more are reached
                for step in self.transitions:
                    if step.source == state and step.dest not in ways:
                        ways[step.dest] = (*ways[state], step)
                        states.append(step.dest)
            self._ways[source] = ways
        return self._ways[source].get(dest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """The dead-man switch of an object whose changes can cut off its host.

    The host takes a change back by itself `within_s` seconds after it began, unless the coordinator
    has confirmed it over a connection made after the change. `revert` is the shell text that does
    so, `prepare` the one that is run before the change and keeps what `revert` needs; both are
    templates over `cob`. Where `revert` is "" both are the type's own.
    """

    within_s: float
    revert: str = ""
    prepare: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cob:
    """One change object on one host; `spec` is evaluated (plain JSON values and vault marks).

    `want` is a state of its type where it goes instead of the type's preferred one ("": it goes
    there). `machine` is the object of the same host that is the machine itself: while that is not
    in its preferred state, this one is in its `remove` state, for there is nothing that it is on.
    One that says `protect` is not removed as long as its host stands in a generation that says so.
    `was` is its id before it was renamed: what is known under that is this one's. With `trust_s`
    nothing relies on a state of it that was not checked within so many seconds (0: each time).
    """

    id: CobId
    type: CobType
    spec: Mapping[str, Any] = field(default_factory=dict)
    confirm: Confirm | None = None
    want: State = ""
    machine: CobId | None = None
    protect: bool = False
    was: CobId | None = None
    trust_s: float | None = None
    place: Place | None = None

    @property
    def preferred(self) -> State:
        """Where the COB goes when nobody asks for another state."""
        return self.want or self.type.preferred

    @property
    def host(self) -> str:
        """The host that the COB's actions run on."""
        return host_of(self.id)

    @property
    def name(self) -> str:
        """The COB's name, unique on its host."""
        return name_of(self.id)


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
