"""Drives one engine by hand and writes down what it does, for tests that read like a story."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from cobweb.engine import (
    CanaryWritten,
    CheckEnded,
    CobGaveUp,
    Effect,
    Engine,
    HostsSwitched,
    Input,
    LimitPaused,
    LockGranted,
    LockRecalled,
    LockReleased,
    LockRequested,
    Message,
    Send,
    Served,
    SlotReturned,
    SlotTaken,
    StartCheck,
    StartTransition,
    StateFound,
    TransitionEnded,
)
from cobweb.model import CobId, Graph, State

VERBS = {
    LockRequested: "asks",
    LockGranted: "gets",
    LockReleased: "releases",
    LockRecalled: "is recalled from",
}


def line(effect: Effect) -> str:
    """Tell one effect in one line."""
    match effect:
        case StateFound(cob=cob, state=state, reason=reason):
            return f"{cob} is {state} ({reason})"
        case StartCheck(cob=cob):
            return f"{cob} check"
        case StartTransition(cob=cob, transition=step, locks=locks):
            held = "".join(f" [{on} {state}]" for on, state in locks)
            return f"{cob} {step}{held}"
        case LockRequested() | LockGranted() | LockReleased() | LockRecalled():
            return f"{effect.holder} {VERBS[type(effect)]} {effect.cob} {effect.state}"
        case _:
            return _rare(effect)


def _rare(  # noqa: PLR0911 - one line for each kind of effect
    effect: LimitPaused
    | SlotTaken
    | SlotReturned
    | CanaryWritten
    | HostsSwitched
    | CobGaveUp
    | Served
    | Send,
) -> str:
    match effect:
        case LimitPaused(limit=limit, units=units, pause_s=pause_s):
            return f"{limit} pauses {pause_s:g} s for {' '.join(units)}"
        case SlotTaken(limit=limit, unit=unit):
            return f"{limit} lends to {unit}"
        case SlotReturned(limit=limit, unit=unit):
            return f"{limit} has back {unit}"
        case CanaryWritten(limit=limit, canary=canary):
            verb = "let through" if canary.through else "goes first"
            return f"{limit} canary {' '.join(sorted(canary.units))} {verb}"
        case HostsSwitched(hosts=hosts):
            return f"{' '.join(hosts)} switched"
        case CobGaveUp(cob=cob):
            return f"{cob} gives up"
        case Served(cob=cob):
            return f"{cob} served"
        case Send(message=message):
            said = f"{message.sender} sends {message.receiver} {message.kind} {message.state}"
            return said.strip()
        case _:
            assert_never(effect)


class Drive:
    """An engine, and the lines of all that it did; each method returns its own new lines.

    `begin` is what `Engine.start` is told besides states and locks. `now_s` is the time of the
    next input.
    """

    def __init__(
        self,
        graph: Graph,
        states: Mapping[str, State] | None = None,
        *,
        locks: tuple[tuple[str, str, State], ...] = (),
        begin: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.engine = Engine(graph, **options)
        self.lines: list[str] = []
        self.sent: list[Message] = []
        self.checking: set[CobId] = set()
        self.now_s = 0.0
        given = {CobId(cob): state for cob, state in (states or {}).items()}
        old = [(CobId(cob), CobId(holder), state) for cob, holder, state in locks]
        self.first = self._take(self.engine.start(given, old, **(begin or {})))

    def step(self, event: Input) -> list[str]:
        """Give one input."""
        return self._take(self.engine.step(event, self.now_s))

    def checked(self, cob: str, state: State | None) -> list[str]:
        """End a check."""
        self.checking.discard(CobId(cob))
        return self.step(CheckEnded(cob=CobId(cob), state=state))

    def ended(self, cob: str, *, ok: bool = True) -> list[str]:
        """End a transition."""
        return self.step(TransitionEnded(cob=CobId(cob), ok=ok))

    def run(self) -> list[str]:
        """End all well, smallest id first, until nothing runs; return the steps.

        A check finds the state that the object was in before.
        """
        before = len(self.lines)
        while busy := sorted(self.engine.busy()):
            if busy[0] in self.checking:
                self.checked(busy[0], self.state(busy[0]))
            else:
                self.ended(busy[0])
        return [text for text in self.lines[before:] if "->" in text]

    def state(self, cob: str) -> State:
        """Return what the engine believes."""
        return self.engine.state(CobId(cob))

    def why(self, cob: str) -> str:
        """Tell the chain of what an object waits for."""
        links = self.engine.chain(CobId(cob))
        return ", ".join(
            f"{link.cob} {link.kind} {link.on or ''} {link.state}".replace("  ", " ").strip()
            for link in links
        )

    def _take(self, effects: tuple[Effect, ...]) -> list[str]:
        self.sent += [effect.message for effect in effects if isinstance(effect, Send)]
        new = [line(effect) for effect in effects]
        self.checking |= {effect.cob for effect in effects if isinstance(effect, StartCheck)}
        self.lines += new
        return new
