"""Change objects and their types (COB paper, sections 4, 5.1 and 5.2).

A COB type is a small state machine: states in order of priority, a sparse transition matrix, and a
check that finds the true state. A COB is one instance of a type on one host. `unknown` is a state
of every COB, in no matrix, and is left by the check alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    `revert` is shell text, a template over `cob`, by which a host takes back an unconfirmed change
    by itself ("": this type knows no such way), `prepare` what keeps beforehand what that needs.
    `groups` maps names, none of which is a state's, to some of `states`: a need may name a group
    instead of a state, and is met in any of these. `serving` are the states in which an object
    works for its users now (design, section 5b); () stands for the preferred state alone.
    `connection` names variables of the connection that its results may say besides the usual ones.
    `inputs` are globs of the variables whose values are part of an object's content, as its spec
    is; None stands for those of `input_globs`.
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
    shared: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = None
    _ways: dict[State, dict[State, tuple[Transition, ...]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def priority(self, state: State) -> int:
        """Return the rank of a state, 0 for the highest; ValueError for a foreign one."""
        return self.states.index(state)

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
