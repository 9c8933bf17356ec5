"""Inputs, messages and effects of the engine, and the reasons why an object waits.

The engine is a pure machine: `step(input)` returns a tuple of effects in a fixed order. The runtime
stores them first (section 6 of the design) and then carries them out. Effects on locks are facts to
be journalled and shown; only `StartCheck`, `StartTransition` and `Send` ask for something.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cobweb.model import CobId, State, Transition

__all__ = [
    "Blocked",
    "CheckDropped",
    "CheckEnded",
    "Effect",
    "Halt",
    "HostReturned",
    "HostVanished",
    "Input",
    "LockGranted",
    "LockRecalled",
    "LockReleased",
    "LockRequested",
    "Message",
    "MessageKind",
    "Receive",
    "Send",
    "StartCheck",
    "StartTransition",
    "StateFound",
    "StateReason",
    "TransitionDropped",
    "TransitionEnded",
    "WaitKind",
]


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
    of another generation.
    """

    kind: MessageKind
    sender: CobId
    receiver: CobId
    state: State
    incarnation: int
    seq: int
    generation: int
    known: int = 0


# --- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEnded:
    """A check of `cob` ended; `state` is None where the check itself failed."""

    cob: CobId
    state: State | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDropped:
    """The check of `cob` was never begun, or was stopped: nothing has been found out."""

    cob: CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionEnded:
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
class Receive:
    """A message from an engine that owns `message.sender`."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Start nothing new from now on; what runs is let end (first interrupt)."""


Input = (
    CheckEnded
    | CheckDropped
    | TransitionEnded
    | TransitionDropped
    | HostVanished
    | HostReturned
    | Receive
    | Halt
)

# --- effects


class StateReason(StrEnum):
    """Why a state is believed (events of section 7; `drift` and `content` come from elsewhere)."""

    CHECK = "check"
    JOURNAL = "journal"
    TRANSITION = "transition"
    CONTENT = "content"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFound:
    """The state of `cob` is `state` from now on."""

    cob: CobId
    state: State
    reason: StateReason


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheck:
    """Check `cob`; answer with `CheckEnded` (or `HostVanished`)."""

    cob: CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTransition:
    """Carry out `transition` on `cob`; answer with `TransitionEnded` (or dropped, or vanished).

    `target` is where the object is going, `locks` the (locked object, state) pairs that it holds.
    """

    cob: CobId
    transition: Transition
    target: State
    locks: tuple[tuple[CobId, State], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequested:
    """`holder` asks to lock `cob` in `state`."""

    cob: CobId
    holder: CobId
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class LockGranted:
    """`cob` is locked in `state` for `holder`; durable before anyone acts on it."""

    cob: CobId
    holder: CobId
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReleased:
    """`holder` takes its request back or gives its lock back."""

    cob: CobId
    holder: CobId
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRecalled:
    """`cob` asks `holder` to give its lock on `state` back."""

    cob: CobId
    holder: CobId
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Deliver `message` to the engine that owns its receiver; it may be lost or come twice."""

    message: Message


Effect = (
    StateFound
    | StartCheck
    | StartTransition
    | LockRequested
    | LockGranted
    | LockReleased
    | LockRecalled
    | Send
)


# --- why an object is not where it should be


class WaitKind(StrEnum):
    """The first reason why an object does not move on."""

    LOCK = "lock"  # waits for `on` to be in `state` and to grant it
    HOLDERS = "holders"  # waits for `on` to give back a lock on the present state
    LIMIT = "limit"  # waits for room in the limit `detail`, which `on` takes
    RUNNING = "running"  # a check or transition is under way
    FAILED = "failed"  # its transition or check failed in this run
    UNREACHABLE = "unreachable"  # its host cannot be reached
    NO_WAY = "no-way"  # its matrix has no way from its state to `state`
    REQUESTED = "requested"  # kept in `state`, away from its preferred one, by a request of `on`
    CHURN = "churn"  # went through one transition too often in this run; `on` is its counterpart
    EXCLUDED = "excluded"  # outside of what this run may move
    HALTED = "halted"  # the run was told to start nothing new


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why `cob` is not in its preferred state or does not give what it was asked for."""

    cob: CobId
    kind: WaitKind
    on: CobId | None = None
    state: State = ""
    detail: str = ""
