"""Drives one engine by hand and writes down what it does, for tests that read like a story."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cobweb.engine import (
    CheckEnded,
    Effect,
    Engine,
    Input,
    LimitPaused,
    LockGranted,
    LockRecalled,
    LockReleased,
    LockRequested,
    Message,
    Send,
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


def _rare(effect: LimitPaused | Send) -> str:
    if isinstance(effect, LimitPaused):
        return f"{effect.limit} pauses {effect.pause_s:g} s for {' '.join(effect.cobs)}"
    message = effect.message
    return f"{message.sender} sends {message.receiver} {message.kind} {message.state}".strip()


class Drive:
    """An engine, and the lines of all that it did; each method returns its own new lines."""

    def __init__(
        self,
        graph: Graph,
        states: Mapping[str, State] | None = None,
        *,
        locks: tuple[tuple[str, str, State], ...] = (),
        **options: Any,
    ) -> None:
        self.engine = Engine(graph, **options)
        self.lines: list[str] = []
        self.sent: list[Message] = []
        given = {CobId(cob): state for cob, state in (states or {}).items()}
        old = [(CobId(cob), CobId(holder), state) for cob, holder, state in locks]
        self.first = self._take(self.engine.start(given, old))

    def step(self, event: Input) -> list[str]:
        """Give one input."""
        return self._take(self.engine.step(event))

    def checked(self, cob: str, state: State | None) -> list[str]:
        """End a check."""
        return self.step(CheckEnded(cob=CobId(cob), state=state))

    def ended(self, cob: str, *, ok: bool = True) -> list[str]:
        """End a transition."""
        return self.step(TransitionEnded(cob=CobId(cob), ok=ok))

    def run(self) -> list[str]:
        """End all transitions well, smallest id first, until nothing runs; return the steps."""
        before = len(self.lines)
        while busy := sorted(self.engine.busy()):
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
        self.lines += new
        return new
