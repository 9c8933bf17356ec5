"""What a round of decisions is made from, and what it makes: plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cobweb_plugins.pools.decision._pools import Pools


class ServiceState(StrEnum):
    """The states of a service (Hedeby, 1.1.2.1)."""

    UNKNOWN = "unknown"
    STARTING = "starting"
    RUNNING = "running"
    SHUTDOWN = "shutdown"
    ERROR = "error"
    STOPPED = "stopped"


class Phase(StrEnum):
    """Where a resource is on its way through a service."""

    IN = "in"
    LEAVING = "leaving"
    FAILED = "failed"


class MemberState(StrEnum):
    """The state of a member's object on the host, and two ways in which a join can end."""

    DOWN = "down"
    DRAINING = "draining"
    UP = "up"
    FAILED = "failed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who gets a resource that is being freed, for which SLO, at which weight, given when."""

    slo: str
    weight: float
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The decision on a resource: whose it is, in which phase since when, and who gets it next.

    `order` is of the service `to` while it leaves, and of the service that it has come to then.
    Until `held_until_s` nobody takes it away.
    """

    service: str
    phase: Phase = Phase.IN
    to: str | None = None
    order: Order | None = None
    since_s: float = 0.0
    held_until_s: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The state of a resource's object in its service, as the engine knows it, and since when."""

    state: MemberState
    since_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kpi:
    """A key performance indicator of a service, perhaps of a part of it that `properties` name."""

    name: str
    value: float
    properties: Mapping[str, str] = field(default_factory=dict)


class SeenState(StrEnum):
    """Whether a service gives a member work, as it says itself, or has lost sight of it."""

    UP = "up"
    DRAINING = "draining"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a service says of one of its members."""

    idle: bool = True
    jobs: int = 0
    load: float = 0.0
    state: SeenState = SeenState.UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a service has answered; its age counts from `arrived_s`, the end of the question.

    What the answer says was so at `begun_s` or later.
    """

    state: ServiceState
    kpis: tuple[Kpi, ...] = ()
    members: Mapping[str, Seen] = field(default_factory=dict)
    begun_s: float = 0.0
    arrived_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The pools, the decisions on resources, and the states of members' objects, by resource.

    A resource without a holding belongs to nobody. A member of a `direct` service needs no state.
    `left` are the services that a resource is still on its way out of.
    """

    pools: Pools
    holdings: Mapping[str, Holding] = field(default_factory=dict)
    members: Mapping[str, Member] = field(default_factory=dict)
    left: Mapping[str, Sequence[str]] = field(default_factory=dict)


class NoteKind(StrEnum):
    """What a note is about."""

    MOVE = "move"
    FOUND = "found"
    DELIVERED = "delivered"
    TAKEN_BACK = "taken back"
    UNMET = "unmet"
    WAITS = "waits"
    CIRCLE = "circle"
    UNTRUSTED = "untrusted"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Why something was done or not: `subject` is a resource or a service."""

    kind: NoteKind
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a round has decided: holdings to write (None: nobody's), memory (JSON), notes."""

    writes: Mapping[str, Holding | None]
    memory: Mapping[str, Any]
    notes: tuple[Note, ...]
