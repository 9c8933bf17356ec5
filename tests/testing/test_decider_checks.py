"""The conformance kit for deciders: each broken promise is caught by the check named for it."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

import random  # that it is used is one of the broken promises
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, ClassVar

import pytest

from cobweb.model import Decision
from cobweb.testing import NamedCheck
from cobweb_plugins.controller.deciders import DeciderView, Outcome
from cobweb_plugins.controller.deciders.kit import DeciderCase, check_decider, decider_checks

Failing = Callable[[Iterable[NamedCheck]], set[str]]


class Good:
    """Wants as many of the nodes in as there is `work`, one more or less in each turn."""

    point: ClassVar[str] = "decider"
    name: ClassVar[str] = "nodes"
    every_s: ClassVar[float] = 10

    def observe(self, context: Any) -> Any:
        raise NotImplementedError

    def decide(self, view: DeciderView, observations: Any, memory: Any, now_s: float) -> Outcome:
        work = observations.get("work", 0)
        inside = [it for it in view.data if it in view.decisions]
        outside = [it for it in view.data if it not in view.decisions]
        writes: dict[str, Any] = {}
        if len(inside) < work and outside:
            writes[outside[0]] = {"in": True}
        if inside and len(inside) > work:
            writes[inside[-1]] = None
        turns = (memory or {"turns": 0})["turns"] + 1
        return Outcome(writes, {"turns": turns, "at": now_s}, {"n1": f"there is work for {work}"})


class Nameless(Good):
    name: ClassVar[str] = ""


class Elsewhere(Good):
    point: ClassVar[str] = "observer"


class Blind(Good):
    observe = None  # type: ignore[assignment]  # this is what is tried


class NeverDue(Good):
    every_s: ClassVar[float] = 0


class WithoutTime(Good):
    limit_s: ClassVar[float] = True


class NeverRests(Good):
    def decide(self, view: DeciderView, *_: Any) -> Outcome:
        return Outcome({"n1": None if "n1" in view.decisions else {"in": True}})


class RestsNowAndThen(Good):
    def decide(self, _view: Any, _observations: Any, memory: Any, _now_s: float) -> Outcome:
        turn = (memory or 0) + 1
        return Outcome({"n1": {"turn": turn}} if turn % 9 == 0 else {}, turn)


class RemembersFromTheStart(Good):
    def decide(self, view: DeciderView, observations: Any, memory: Any, now_s: float) -> Outcome:
        assert memory["turns"]
        return super().decide(view, observations, memory, now_s)


class ReturnsNothing(Good):
    def decide(self, *_: Any) -> Any:
        return None


def _saying(say: Callable[[DeciderView, Any], Any], limit_s: float = 30.0) -> type[Good]:
    """Return a decider that decides well, and then has something else to say."""

    class Saying(Good):
        def decide(self, view: DeciderView, observations: Any, *more: Any) -> Outcome:
            outcome = super().decide(view, observations, *more)
            return Outcome(outcome.writes, outcome.memory, {"n1": say(view, observations)})

    Saying.limit_s = limit_s  # type: ignore[attr-defined]  # few deciders have one
    return Saying


def _waiting(_view: DeciderView, _observations: Any) -> str:
    threading.Event().wait(0.02)  # nothing comes: this is how time goes by
    return ""


DECIDED = Decision(
    section="nodes", key="n1", body={"in": True}, revision=4, author="ann", reason="", time=1.0
)
NEVER_KNOWN = {
    "same_inputs_same_outcome",
    "replay_gives_the_same",
    "killed_anywhere_it_comes_to_rest",
}
EACH_CALL = NEVER_KNOWN | {
    "inputs_are_left_as_they_were",
    "outcome_is_sound",
    "ends_within_its_limit",
    "hostile_observations_are_borne",
    "writes_fit_the_schema",
}
NUMBERS = count()


def _case(make: Callable[[], Any], **more: Any) -> DeciderCase:
    given: dict[str, Any] = {
        "view": DeciderView(data=["n1", "n2", "n3", "n4"], decisions={"n1": DECIDED}),
        "observations": {"work": 3},
        "hostile": [{}, {"work": 1000}, {"work": -1, "odd": float("nan")}],
        "decision_schema": {"type": "object"},
    }
    return DeciderCase(make=make, **(given | more))


@pytest.mark.parametrize("work", [0, 1, 3, 9])
def test_a_good_decider_passes(work: int) -> None:
    case = _case(Good, observations={"work": work})
    check_decider(case)
    assert len(decider_checks(case)) == 9
    assert len(decider_checks(_case(Good, hostile=(), decision_schema=None))) == 7


@pytest.mark.parametrize(
    ("make", "more", "caught"),
    [
        (Nameless, {}, "satisfies_the_protocol"),
        (Elsewhere, {}, "satisfies_the_protocol"),
        (Blind, {}, "satisfies_the_protocol"),
        (NeverDue, {}, "satisfies_the_protocol"),
        (WithoutTime, {}, "satisfies_the_protocol"),
        (_saying(lambda _, __: f"{time.time():.0f}"), {}, "same_inputs_same_outcome"),
        (_saying(lambda _, __: f"{time.time_ns()}"), {}, "same_inputs_same_outcome"),
        (_saying(lambda _, __: f"{time.monotonic()}"), {}, "same_inputs_same_outcome"),
        (_saying(lambda _, __: f"{random.random()}"), {}, "same_inputs_same_outcome"),
        (_saying(lambda _, __: f"call {next(NUMBERS)}"), {}, NEVER_KNOWN),
        (
            _saying(lambda _, observations: str(observations.get("seen"))),
            {"observations": {"seen": ()}},
            "replay_gives_the_same",
        ),
        (
            _saying(lambda view, _: type(view.data).__name__),
            {"view": DeciderView(data=("n1", "n2"))},
            "replay_gives_the_same",
        ),
        (Good, {"observations": {"work": 1, "set": {1}}}, "replay_gives_the_same"),
        (
            _saying(lambda _, observations: observations.setdefault("more", "")),
            {},
            "inputs_are_left_as_they_were",
        ),
        (
            _saying(lambda view, _: view.data.pop()),
            {},
            "inputs_are_left_as_they_were",
        ),
        (
            _saying(lambda _, observations: 0 if observations.get("work") == 3 else ""),
            {},
            "outcome_is_sound",
        ),
        (RemembersFromTheStart, {"memory": {"turns": 7}}, "outcome_is_sound"),
        (_saying(_waiting, limit_s=0.001), {"rests_after": 3}, "ends_within_its_limit"),
        (NeverRests, {}, "killed_anywhere_it_comes_to_rest"),
        (RestsNowAndThen, {}, "killed_anywhere_it_comes_to_rest"),
        (Good, {"rests_after": 1}, "killed_anywhere_it_comes_to_rest"),
        (
            _saying(lambda _, observations: str(1 // (observations.get("work", 0) + 1))),
            {"decision_schema": None},
            "hostile_observations_are_borne",
        ),
        (
            _saying(lambda _, observations: observations.get("odd", "")),
            {},
            "hostile_observations_are_borne",
        ),
        (Good, {"decision_schema": {"required": ["at"]}}, "writes_fit_the_schema"),
        (
            Good,
            {"observations": {}, "hostile": [{"work": 3}], "decision_schema": {"const": 1}},
            "writes_fit_the_schema",
        ),
        (ReturnsNothing, {}, EACH_CALL),
    ],
)
def test_a_broken_promise_is_caught(
    make: Callable[[], Any], more: dict[str, Any], caught: str | set[str], failing: Failing
) -> None:
    names = {caught} if isinstance(caught, str) else caught
    assert failing(decider_checks(_case(make, **more))) == names


def test_the_kit_leaves_chance_and_the_case_as_they_were() -> None:
    before = random.getstate()
    case = _case(_saying(lambda view, _: view.data.pop()))
    with pytest.raises(AssertionError, match=r"^inputs_are_left_as_they_were: decide\(\) has chan"):
        check_decider(case)
    assert case.view.data == ["n1", "n2", "n3", "n4"]
    assert random.getstate() == before
