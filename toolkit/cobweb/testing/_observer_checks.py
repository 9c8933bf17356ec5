"""Conformance checks for observers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cobweb.errors import CobwebError
from cobweb.plugin import Kind, Observer
from cobweb.testing._checks import Kit, bounded, refusal, satisfies

_STEP: Mapping[str, Any] = {"cob": "web/app", "from": "down", "to": "up"}
EVENTS: Sequence[Mapping[str, Any]] = [
    {"seq": number, "time": 1000.0 + number, **event}
    for number, event in enumerate[Mapping[str, Any]](
        [
            {"type": "version", "events": 1, "cobweb": "0.1.0"},
            {"type": "run.start", "run": "r1", "generation": 1, "hosts": 1, "cobs": 1},
            {"type": "cob.state", "cob": "web/app", "state": "down", "reason": "check"},
            {"type": "transition.start", **_STEP, "locks": []},
            {"type": "transition.end", **_STEP, "state": "up", "result": "ok"}
            | {"attempt": 1, "seconds": 1.0},
            {"type": "run.end", "result": "ok", "exit_code": 0, "seconds": 5.0, "counts": {}},
        ],
        start=1,
    )
]
"""A run of one object, as an observer gets it."""

RESULT: Mapping[str, Any] = {"format": 1, "run": "r1", "result": "ok", "exit_code": 0}
"""How this run came out; a real result has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverCase:
    """What the kit needs to try an observer.

    `argument` is one that it takes, `refused` one that cannot be.
    """

    make: Callable[[], Observer]
    argument: str = ""
    refused: str | None = None


def takes_a_run(case: ObserverCase) -> None:
    """It takes the events of a run, and comes to its end."""
    _observe(case, EVENTS, RESULT)


def takes_two_runs(case: ObserverCase) -> None:
    """It takes a second run after the first, as of `apply --on-failure rollback`."""
    _observe(case, [*EVENTS, *EVENTS], RESULT)


def takes_unknown_events(case: ObserverCase) -> None:
    """It takes events of types, and with keys, that a later Cobweb may have."""
    later = {"seq": 2, "time": 1001.0, "type": "tomorrow", "what": ["is", "not"]}
    first, *rest = [{**event, "tomorrow": 1} for event in EVENTS]
    _observe(case, [first, later, *rest], RESULT)


def ends_without_a_run(case: ObserverCase) -> None:
    """It comes to its end where nothing has run."""
    _observe(case, [], None)


def ends_in_the_middle(case: ObserverCase) -> None:
    """It comes to its end where an error ends the run, without `run.end` and without a result."""
    _observe(case, EVENTS[:-2], None)


def refused_argument_is_an_error(case: ObserverCase, refused: str) -> None:
    """An argument that cannot be raises CobwebError with a message, before anything has begun."""
    refusal(CobwebError, lambda: case.make().open(refused))


_KIT = Kit(
    always=[
        satisfies(Kind.OBSERVERS),
        takes_a_run,
        takes_two_runs,
        takes_unknown_events,
        ends_without_a_run,
        ends_in_the_middle,
    ],
    given={"refused": [refused_argument_is_an_error]},
)
observer_checks, check_observer = _KIT.checks, _KIT.check


def _observe(
    case: ObserverCase, events: Sequence[Mapping[str, Any]], result: Mapping[str, Any] | None
) -> None:
    """Go through an observer's life with copies of the events."""

    def live() -> None:
        observer = case.make()
        observer.open(case.argument)
        for event in json.loads(json.dumps(events)):
            observer.take(event)
        observer.close(result)

    bounded("the observer", live)
