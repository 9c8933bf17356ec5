"""Conformance checks for deciders: `decide` is pure, ends, and comes to rest.

Each call gets a new instance and copies of what the case has, at a fixed time of day and with a
fixed random seed: so a check sees what it is named for, and nothing that a call before has left.
"""

from __future__ import annotations

import copy
import random  # not to be used, but to see whether a decider uses it
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from jsonschema import Draft202012Validator

from cobweb.model import Decision
from cobweb.testing import Kit, bounded, expect, plain
from cobweb_plugins.controller.deciders._values import (
    DECIDER_LIMIT_S,
    Decider,
    DeciderView,
    Outcome,
    decider_problem,
    outcome_problems,
    parts_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeciderCase:
    """What the kit needs to try a decider.

    `view`, `observations`, `memory` and `now_s` are what one `decide` is given; where it has
    something to write, more is tried. `hostile` are further observations that `decide` must bear.
    Where nothing new is seen, nothing is written any more after `rests_after` decisions.
    `decision_schema` is that of the section.
    """

    make: Callable[[], Decider]
    view: DeciderView
    observations: Any
    memory: Any = None
    now_s: float = 1e9
    hostile: Sequence[Any] = ()
    rests_after: int = 10
    decision_schema: Mapping[str, Any] | None = None


def satisfies_the_protocol(case: DeciderCase) -> None:
    """The class has the point "decider", a name, `every_s` and the methods of the protocol."""
    cls: Any = type(case.make())
    point, name = getattr(cls, "point", None), getattr(cls, "name", None)
    expect(point == "decider", f"its point is {point!r}, not 'decider'")
    expect(isinstance(name, str) and name, f"its name is {name!r}, not that of a section")
    problem = decider_problem(cls)
    expect(not problem, problem)


def same_inputs_same_outcome(case: DeciderCase) -> None:
    """The same inputs give the same, also at another time of day and with another random seed."""
    first, second, third = (_decided(case, moment=number) for number in (0, 0, 1))
    expect(first == second, f"the first call gives {first}, the second {second}")
    expect(first == third, f"at another time, or by another chance, {first} is {third}")


def replay_gives_the_same(case: DeciderCase) -> None:
    """What was recorded as JSON, and is read again, gives the same outcome."""
    recorded = replace(
        case,
        view=DeciderView.of(plain("the view", case.view.as_data())),
        observations=plain("what it observes", case.observations),
        memory=plain("its memory", case.memory),
    )
    first, second = _decided(case), _decided(recorded)
    expect(first == second, f"{first} is {second} from what was recorded")


def inputs_are_left_as_they_were(case: DeciderCase) -> None:
    """decide() does not change what it is given."""
    given = _inputs(case)
    _decided(case, given)
    for before, after in zip(_inputs(case), given, strict=True):
        expect(before == after, f"decide() has changed {before} to {after}")


def outcome_is_sound(case: DeciderCase) -> None:
    """The outcome, also that of a first turn, is plain JSON within the limits of an `Outcome`."""
    for memory in (case.memory, None):
        _expect_sound(_decided(replace(case, memory=memory)))


def ends_within_its_limit(case: DeciderCase) -> None:
    """decide() ends within the time that a turn of this decider may take."""
    _decided(case, bound_s=_limit_s(case))


def killed_anywhere_it_comes_to_rest(case: DeciderCase) -> None:
    """Killed before the write it decides the same again; after it, it soon writes nothing more."""
    expect(_decided(case) == _decided(case), "killed before the write it decides something else")
    now = case
    for turn in range(2 * case.rests_after):
        outcome = _decided(now)
        after = _written(now, outcome)
        rests = turn < case.rests_after or _bodies(after) == _bodies(now)
        expect(rests, f"decision {turn + 1} of the same observations writes {outcome.writes}")
        now = after


def hostile_observations_are_borne(case: DeciderCase, hostile: Sequence[Any]) -> None:
    """It raises for none of the hostile observations, and each outcome is sound."""
    for each in hostile:
        _expect_sound(_decided(replace(case, observations=each)))


def writes_fit_the_schema(case: DeciderCase, schema: Mapping[str, Any]) -> None:
    """What it writes, also by hostile observations, is what its section takes."""
    checker = Draft202012Validator(schema)
    for each in (case.observations, *case.hostile):
        for key, body in _decided(replace(case, observations=each)).writes.items():
            wrong = next(checker.iter_errors(body), None) if body is not None else None
            expect(wrong is None, f"by {each!r} it writes {key}: {wrong and wrong.message}")


_KIT = Kit(
    always=[
        satisfies_the_protocol,
        same_inputs_same_outcome,
        replay_gives_the_same,
        inputs_are_left_as_they_were,
        outcome_is_sound,
        ends_within_its_limit,
        killed_anywhere_it_comes_to_rest,
    ],
    given={
        "hostile": [hostile_observations_are_borne],
        "decision_schema": [writes_fit_the_schema],
    },
)
decider_checks, check_decider = _KIT.checks, _KIT.check


def _limit_s(case: DeciderCase) -> Any:
    return getattr(case.make(), "limit_s", DECIDER_LIMIT_S)


def _inputs(case: DeciderCase) -> tuple[DeciderView, Any, Any]:
    """Return copies of what a decider is given, so that none changes the case."""
    return copy.deepcopy((case.view, case.observations, case.memory))


def _decided(
    case: DeciderCase,
    given: tuple[DeciderView, Any, Any] | None = None,
    *,
    moment: int = 0,
    bound_s: float = 60.0,
) -> Outcome:
    """Return what a new instance decides, of copies of what the case has unless some are given."""
    view, observations, memory = given or _inputs(case)
    decide = partial(case.make().decide, view, observations, memory, case.now_s)
    with _moment(moment):
        outcome = bounded(f"decide() of {case.observations!r}", decide, bound_s)
    expect(parts_of(outcome) is not None, f"decide() returned no Outcome but {outcome!r}")
    return outcome


@contextmanager
def _moment(number: int) -> Iterator[None]:
    """Have a time of day and a random seed that a number stands for."""
    chance, at_s = random.getstate(), 1e9 + 100_000.5 * number
    clocks: dict[str, Any] = dict.fromkeys(("time", "monotonic"), lambda: at_s)
    clocks["time_ns"] = lambda: int(at_s * 1e9)
    random.seed(number)
    try:
        with patch.multiple(time, **clocks):
            yield
    finally:
        random.setstate(chance)


def _expect_sound(outcome: Outcome) -> None:
    problems = outcome_problems(outcome)
    expect(not problems, "; ".join(problems))


def _written(case: DeciderCase, outcome: Outcome) -> DeciderCase:
    """Return the case as it is when an outcome has been stored."""
    name, decisions = case.make().name, dict(case.view.decisions)
    revision = 1 + max((it.revision for it in decisions.values()), default=0)
    by: dict[str, Any] = {"section": name, "author": name, "reason": "decided", "time": case.now_s}
    for key, body in outcome.writes.items():
        decisions.pop(key, None)
        if body is not None:
            decisions[key] = Decision(key=key, body=body, revision=revision, **by)
    memory = plain("its memory", outcome.memory)
    return replace(case, view=replace(case.view, decisions=decisions), memory=memory)


def _bodies(case: DeciderCase) -> Mapping[str, Any]:
    return {key: it.body for key, it in case.view.decisions.items()}
