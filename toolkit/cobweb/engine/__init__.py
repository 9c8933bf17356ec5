"""The COB state machine and the state-lock protocol; pure (COB paper, sections 5.1 to 5.4)."""

from __future__ import annotations

from cobweb.engine._analysis import analyse
from cobweb.engine._engine import DEFAULT_SETTINGS, Engine
from cobweb.engine._machine import EngineSettings
from cobweb.engine._node import STAY
from cobweb.engine._trouble import Trouble, TroubleKind, TroubleLink
from cobweb.engine._values import (
    Blocked,
    Canary,
    CheckDropped,
    CheckEnded,
    Effect,
    Halt,
    HostReturned,
    HostVanished,
    Input,
    LimitPaused,
    LimitResumed,
    LockGranted,
    LockRecalled,
    LockReleased,
    LockRequested,
    Message,
    MessageKind,
    Receive,
    Send,
    StartCheck,
    StartTransition,
    StateFound,
    StateReason,
    TransitionDropped,
    TransitionEnded,
    WaitKind,
)

__all__ = [
    "DEFAULT_SETTINGS",
    "STAY",
    "Blocked",
    "Canary",
    "CheckDropped",
    "CheckEnded",
    "Effect",
    "Engine",
    "EngineSettings",
    "Halt",
    "HostReturned",
    "HostVanished",
    "Input",
    "LimitPaused",
    "LimitResumed",
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
    "Trouble",
    "TroubleKind",
    "TroubleLink",
    "WaitKind",
    "analyse",
]
