"""The COB state machine and the state-lock protocol; pure (COB paper, sections 5.1 to 5.4)."""

from __future__ import annotations

from cobweb.engine._analysis import analyse
from cobweb.engine._cone import Part, parts
from cobweb.engine._engine import DEFAULT_SETTINGS, Engine
from cobweb.engine._fit import Misfit, MisfitKind, misfits
from cobweb.engine._machine import EngineSettings
from cobweb.engine._moves import Moves, Situation
from cobweb.engine._node import STAY
from cobweb.engine._problem import Problem, Standing, by_cob
from cobweb.engine._proof import EXPLAINED_CAP, Proof, explain
from cobweb.engine._search import EXPANDED_CAP, GaveUp, NoOrder, Order, find_order
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
    StateDoubted,
    StateFound,
    StateReason,
    TransitionDropped,
    TransitionEnded,
    WaitKind,
)
from cobweb.engine._ways import Ways

__all__ = [
    "DEFAULT_SETTINGS",
    "EXPANDED_CAP",
    "EXPLAINED_CAP",
    "STAY",
    "Blocked",
    "Canary",
    "CheckDropped",
    "CheckEnded",
    "Effect",
    "Engine",
    "EngineSettings",
    "GaveUp",
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
    "Misfit",
    "MisfitKind",
    "Moves",
    "NoOrder",
    "Order",
    "Part",
    "Problem",
    "Proof",
    "Receive",
    "Send",
    "Situation",
    "Standing",
    "StartCheck",
    "StartTransition",
    "StateDoubted",
    "StateFound",
    "StateReason",
    "TransitionDropped",
    "TransitionEnded",
    "Trouble",
    "TroubleKind",
    "TroubleLink",
    "WaitKind",
    "Ways",
    "analyse",
    "by_cob",
    "explain",
    "find_order",
    "misfits",
    "parts",
]
