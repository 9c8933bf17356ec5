"""What the simulator is told: where objects start, what fails, and how long things take.

The options are the mapping `ExecutorSetting.options`:

- `initial`: one state for all, or a mapping from id to state: what checks find;
- `defaults`: a mapping from id to state for all others, the types' `remove` states;
- `outdates`: a mapping from id to `{content: DIGEST, states: {STATE: STATE}}`: what a check against
  that content finds in the place of a state that another content is applied in;
- `fail`: ids whose transitions fail; `unreachable`: names of hosts;
- `durations`: a mapping from id, name or type to seconds, or to `[low, high]`, a range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Self

from cobweb.errors import ExecutorError
from cobweb.model import CobId, Job, JobKind, State

TRANSITION_S = 1.0
"""How long a transition takes unless `durations` says otherwise; checks take no time."""

Span = tuple[float, float]
"""Shortest and longest duration, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdates:
    """What a check against `content` finds where another one is applied, by the state of that."""

    content: str
    states: Mapping[State, State]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """The options, read and checked."""

    initial: Mapping[str, State] = field(default_factory=dict)
    initial_of_all: State = ""
    defaults: Mapping[str, State] = field(default_factory=dict)
    outdates: Mapping[str, Outdates] = field(default_factory=dict)
    fail: frozenset[str] = frozenset()
    unreachable: frozenset[str] = frozenset()
    durations: Mapping[str, Span] = field(default_factory=dict)

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self:
        """Read `ExecutorSetting.options`; ExecutorError where a value has the wrong form."""
        initial = options.get("initial") or {}
        of_all = initial if isinstance(initial, str) else ""
        durations = _mapping(options, "durations")
        return cls(
            initial={} if of_all else _states(options, "initial"),
            initial_of_all=of_all,
            defaults=_states(options, "defaults"),
            outdates={
                cob: Outdates(content=it["content"], states=it["states"])
                for cob, it in _mapping(options, "outdates").items()
            },
            fail=_names(options, "fail"),
            unreachable=_names(options, "unreachable"),
            durations={name: _span(name, value) for name, value in durations.items()},
        )

    def first_state(self, cob: CobId) -> State:
        """Return the state that a COB starts in; "" if nothing says so."""
        return self.initial.get(cob) or self.initial_of_all or self.defaults.get(cob, "")

    def span(self, job: Job) -> Span:
        """Return how long a job takes at least and at most."""
        if job.kind is JobKind.CHECK:
            return (0.0, 0.0)
        for key in (job.cob, job.cob.partition("/")[2], job.type_name):
            if key in self.durations:
                return self.durations[key]
        return (TRANSITION_S, TRANSITION_S)


def _mapping(options: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = options.get(name) or {}
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "a mapping")
    return value


def _states(options: Mapping[str, Any], name: str) -> Mapping[str, State]:
    states = _mapping(options, name)
    for cob, state in states.items():
        if not isinstance(state, str):
            raise _wrong(f"{name}[{cob}]", state, "the name of a state")
    return states


def _names(options: Mapping[str, Any], name: str) -> frozenset[str]:
    value = options.get(name) or ()
    is_list = isinstance(value, Collection) and not isinstance(value, str)
    if not is_list or not all(isinstance(item, str) for item in value):
        raise _wrong(name, value, "a list of names")
    return frozenset(value)


def _span(name: str, value: object) -> Span:
    ends = value if isinstance(value, list | tuple) else [value, value]
    match ends:
        case [int() | float() as low, int() | float() as high] if 0.0 <= low <= high < inf:
            if not isinstance(low, bool) and not isinstance(high, bool):
                return (float(low), float(high))
    raise _wrong(f"durations[{name}]", value, "seconds, or [low, high] in seconds")


def _wrong(name: str, value: object, wanted: str) -> ExecutorError:
    return ExecutorError(f"simulate: {name} is {value!r}", hint=f"give {wanted}")
