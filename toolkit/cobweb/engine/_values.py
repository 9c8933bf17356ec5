"""Inputs, messages and effects of the engine, and the reasons why an object waits.

The engine is a pure machine: `step(input)` returns a tuple of effects in a fixed order. The runtime
stores them first (section 6 of the design) and then carries them out. Effects on locks are facts to
be journalled and shown; only `StartCheck`, `StartTransition`, `LimitPaused` and `Send` ask for
something.

What a large run makes by the million is a named tuple, which is made in a third of the time of a
frozen dataclass; all the same, values of two classes are never equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

from cobweb.model import Cob, CobId, Need, State, Transition

_Value = TypeVar("_Value", bound=tuple[object, ...])


def _exact(cls: type[_Value]) -> type[_Value]:
    """Make a named tuple equal to those of its own class alone."""

    def equal(self: _Value, other: object) -> bool:
        return type(other) is cls and tuple.__eq__(self, other)

    for name, method in (("__eq__", equal), ("__ne__", object.__ne__)):  # which asks `equal`
        setattr(cls, name, method)
    return cls


made = tuple.__new__
"""`made(Send, (message,))` is `Send(message)` in half of the time, for what comes by millions."""


class MessageKind(StrEnum):
    """The verbs of the lock protocol (design, section 5)."""

    REQUEST = "request"
    GRANT = "grant"
    RELEASE = "release"
    RECALL = "recall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The whole state of one pair, as its sender sees it.

    `sender` and `receiver` are the holder and the locked object, in the direction of the message.
    `state` is what is wanted or granted, empty for neither. `incarnation` is the sender's. `seq`
    counts what the holder said to the locked object; an answer bears the number that it answers.
    `known` is the incarnation of the receiver that the sender speaks to (0: it never heard of one),
    so an answer to an earlier life is told apart. A stale stamp changes nothing, nor does a message
    of another generation. To and from limits `slots` are sets of (limit, unit): those that the
    sender holds, then each that it asks for; in a grant, those that were lent (`_capacity`).
    """

    kind: MessageKind
    sender: CobId
    receiver: CobId
    state: State
    incarnation: int
    seq: int
    generation: int
    known: int = 0
    slots: tuple[tuple[tuple[str, str], ...], ...] = ()


# --- inputs


@_exact
class CheckEnded(NamedTuple):
    """A check of `cob` ended; `state` is None where the check itself failed."""

    cob: CobId
    state: State | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDropped:
    """The check of `cob` was never begun, or was stopped: nothing has been found out."""

    cob: CobId


@_exact
class TransitionEnded(NamedTuple):
    """The transition of `cob` ended after its last attempt; where not ok its state is unknown."""

    cob: CobId
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionDropped:
    """The transition of `cob` was never begun (an interrupt came first): nothing has happened."""

    cob: CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVanished:
    """A host cannot be reached; what was in flight there may still be going on."""

    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReturned:
    """A host answers again: its objects are unknown and are checked under a new incarnation."""

    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDoubted:
    """What is known of `cob`, with which nothing is under way, does not hold any more: check it."""

    cob: CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """A message from an engine that owns `message.sender`."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Start nothing new from now on; what runs is let end (first interrupt)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitResumed:
    """The pause of a limit is over: its canary is checked once more (see `LimitPaused`)."""

    limit: str


Input = (
    CheckEnded
    | CheckDropped
    | TransitionEnded
    | TransitionDropped
    | HostVanished
    | HostReturned
    | StateDoubted
    | Receive
    | LimitResumed
    | Halt
)

# --- effects


class StateReason(StrEnum):
    """Why a state is believed (events of section 7; `drift` and `content` come from elsewhere)."""

    CHECK = "check"
    JOURNAL = "journal"
    TRANSITION = "transition"
    CONTENT = "content"


@_exact
class StateFound(NamedTuple):
    """The state of `cob` is `state` from now on."""

    cob: CobId
    state: State
    reason: StateReason


@_exact
class StartCheck(NamedTuple):
    """Check `cob`; answer with `CheckEnded` (or `HostVanished`)."""

    cob: CobId


@_exact
class StartTransition(NamedTuple):
    """Carry out `transition` on `cob`; answer with `TransitionEnded` (or dropped, or vanished).

    `target` is where the object is going, `locks` the (locked object, state) pairs that it holds.
    """

    cob: CobId
    transition: Transition
    target: State
    locks: tuple[tuple[CobId, State], ...]


@_exact
class LockRequested(NamedTuple):
    """`holder` asks to lock `cob` in `state`."""

    cob: CobId
    holder: CobId
    state: State


@_exact
class LockGranted(NamedTuple):
    """`cob` is locked in `state` for `holder`; durable before anyone acts on it."""

    cob: CobId
    holder: CobId
    state: State


@_exact
class LockReleased(NamedTuple):
    """`holder` takes its request back or gives its lock back."""

    cob: CobId
    holder: CobId
    state: State


@_exact
class LockRecalled(NamedTuple):
    """`cob` asks `holder` to give its lock on `state` back."""

    cob: CobId
    holder: CobId
    state: State


@_exact
class CobGaveUp(NamedTuple):
    """`cob` takes back what it asks for in vain, and starts nothing more: others come home."""

    cob: CobId


@_exact
class Send(NamedTuple):
    """Deliver `message` to the engine that owns its receiver; it may be lost or come twice."""

    message: Message


@_exact
class LimitPaused(NamedTuple):
    """The canary of a limit is home: answer with `LimitResumed` after `pause_s` seconds.

    `units` are those that went first, sorted; the others wait for them.
    """

    limit: str
    units: tuple[str, ...]
    pause_s: float


@_exact
class SlotTaken(NamedTuple):
    """A unit was lent a slot of a limit; durable before anything of it goes out."""

    limit: str
    unit: str


@_exact
class SlotReturned(NamedTuple):
    """A unit is home, or did not use its slot: there is room for another one."""

    limit: str
    unit: str


@_exact
class CanaryWritten(NamedTuple):
    """How far the canary of a limit has come; durable."""

    limit: str
    canary: Canary


@_exact
class HostsSwitched(NamedTuple):
    """These hosts go over to the goal together; what was removed of them is gone."""

    hosts: tuple[str, ...]


@_exact
class Served(NamedTuple):
    """A member of a limit serves that is not known to have served before; durable."""

    cob: CobId


Effect = (
    StateFound
    | StartCheck
    | StartTransition
    | LockRequested
    | LockGranted
    | LockReleased
    | LockRecalled
    | CobGaveUp
    | LimitPaused
    | SlotTaken
    | SlotReturned
    | CanaryWritten
    | HostsSwitched
    | Served
    | Send
)


@dataclass(frozen=True, slots=True)
class Canary:
    """Which units of a limit went first, and whether the others may follow.

    `contents` is a digest of what is in the scopes of these in the goal, `covers`, of one that is
    `through`, of all units that it speaks for.
    """

    units: frozenset[str] = frozenset()
    through: bool = False
    contents: str = ""
    covers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    """What is durable of limits (design, section 5b): it belongs to units, not to runs.

    `slots` are the (limit, unit) that have one. `canaries` are those known by the name of their
    limit, `contents` the digests of all objects in the goal: a canary is about the same ones.
    `served` are the members that have served, `given_up` hosts that are in no count.
    """

    slots: frozenset[tuple[str, str]] = frozenset()
    canaries: Mapping[str, Sequence[Canary]] = field(default_factory=dict)
    contents: Mapping[CobId, str] = field(default_factory=dict)
    served: frozenset[CobId] = frozenset()
    given_up: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changeover:
    """What hosts stand in that have not switched to the goal, the engine's graph.

    `hosts` are to switch in this run, `stay` are not. Of `hosts` those in `held` wait for an object
    that nobody knows how to remove. `base` are objects as their hosts know them, where that is not
    as the graph has them. `removed` are objects that the goal has no more, or, those `anew`, with
    another type; the graph has the others of them as they were. `changed` have another content,
    `added` are new: of both `guesses` are the states that their check will most likely find, which
    is believed without a check of those `trusted`. `needs` are those of bases that the graph has no
    more. `order` are groups of hosts that switch together, each after the groups of some earlier
    numbers. `asked` may be asked to move by removals: they stay where that leaves them until their
    host has switched.
    """

    hosts: frozenset[str] = frozenset()
    stay: frozenset[str] = frozenset()
    held: Mapping[str, CobId] = field(default_factory=dict)
    base: Mapping[CobId, Cob] = field(default_factory=dict)
    removed: frozenset[CobId] = frozenset()
    anew: frozenset[CobId] = frozenset()
    changed: frozenset[CobId] = frozenset()
    added: frozenset[CobId] = frozenset()
    trusted: frozenset[CobId] = frozenset()
    guesses: Mapping[CobId, State] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    order: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...] = ()
    asked: frozenset[CobId] = frozenset()


# --- why an object is not where it should be


class WaitKind(StrEnum):
    """The first reason why an object does not move on."""

    LOCK = "lock"  # waits for `on` to be in `state` and to grant it
    HOLDERS = "holders"  # waits for `on` to give back a lock on the present state
    LIMIT = "limit"  # waits for room in the limit `detail`, which `on` takes, or for its canary
    RUNNING = "running"  # a check or transition is under way
    FAILED = "failed"  # its transition or check failed in this run
    UNREACHABLE = "unreachable"  # its host cannot be reached
    NO_WAY = "no-way"  # its matrix has no way from its state to `state`
    REQUESTED = "requested"  # kept in `state`, away from its preferred one, by a request of `on`
    CHURN = "churn"  # went through one transition too often in this run; `on` is its counterpart
    EXCLUDED = "excluded"  # outside of what this run may move, or asks to move
    HALTED = "halted"  # the run was told to start nothing new
    UNSWITCHED = "unswitched"  # its host `detail` keeps its generation until `on` is removed
    UNPLANNED = "unplanned"  # it would go out, and the plan did not name it


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why `cob` is not in its preferred state or does not give what it was asked for.

    `together` are the units of a limit that can only go out at once, and are more than it ever has
    room for. `is_home` marks one that takes room for good, where it should be.
    """

    cob: CobId
    kind: WaitKind
    on: CobId | None = None
    state: State = ""
    detail: str = ""
    together: tuple[str, ...] = ()
    is_home: bool = False
