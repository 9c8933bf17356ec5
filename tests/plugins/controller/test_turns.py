"""When a decider is due: pure, for any clock."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import StoreError
from cobweb_plugins.controller.deciders import DECIDER_LIMIT_S
from cobweb_plugins.controller.deciders._turns import Turn
from cobweb_plugins.controller.deciders._values import decider_problem

LEAST_S, MOST_S = 10.0, 3600.0
NOW_S = 1.8e9

EVERY = st.floats(0.001, 1e6)
TIMES = st.floats(0, 4e9)
OUTCOME: dict[str, Any] = {"memory": {"count": 1}, "notes": {"n1": "so it is"}, "writes": {}}


@given(EVERY, st.integers(0, 2000))
def test_what_fails_is_due_later_and_later_within_bounds(every_s: float, failures: int) -> None:
    turn = Turn(failures=failures, memory=1, notes={"n1": "x"}, decided_s=5.0)
    one, two = turn.failed("it hangs", NOW_S, every_s), turn.failed("it hangs", NOW_S, every_s)
    assert one == two
    wait_s = one.due_s - NOW_S
    assert min(LEAST_S, MOST_S) - 1e-3 <= wait_s <= max(MOST_S, every_s) + 1e-3
    assert (one.failures, one.error) == (failures + 1, "it hangs")
    assert (one.memory, one.notes, one.decided_s) == (1, {"n1": "x"}, 5.0)
    again_s = one.failed("it hangs", NOW_S, every_s).due_s - NOW_S
    assert again_s >= wait_s - 1e-3


@given(EVERY, TIMES, TIMES)
def test_after_a_turn_that_went_well_nothing_is_left_of_failures(
    every_s: float, now_s: float, told_s: float
) -> None:
    before = Turn(failures=7, error="it hangs", now_s=told_s)
    turn = before.begun(now_s).after(OUTCOME, now_s, every_s)
    assert (turn.failures, turn.error) == (0, "")
    assert (turn.memory, turn.notes) == ({"count": 1}, {"n1": "so it is"})
    assert turn.now_s == turn.decided_s == max(now_s, told_s)
    assert turn.is_due(turn.due_s, every_s)
    assert not turn.is_due(now_s, every_s) or every_s < 1e-3 or now_s + every_s == now_s


@given(EVERY, TIMES)
def test_a_clock_that_was_set_back_far_makes_no_long_rest(every_s: float, due_s: float) -> None:
    turn = Turn(due_s=due_s)
    longest_s = max(every_s, MOST_S)
    assert turn.is_due(due_s - longest_s - 1, every_s)
    assert turn.is_due(due_s, every_s)


@given(TIMES, st.integers(0, 9))
def test_a_document_is_a_turn(due_s: float, failures: int) -> None:
    turn = Turn(due_s=due_s, failures=failures, notes={"a": "b"}, memory=[1])
    assert Turn.of(asdict(turn)) == turn
    assert Turn.of(None) == Turn()


def test_a_document_of_a_newer_version_is_told() -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        Turn.of({"more": 1})


class Good:
    """What has all that a decider needs."""

    every_s = 5

    def observe(self, context: Any) -> Any: ...

    def decide(self, *words: Any) -> Any: ...


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, ""),
        ({"limit_s": DECIDER_LIMIT_S}, ""),
        ({"every_s": None}, "its `every_s` is no number of seconds above 0"),
        ({"every_s": 0}, "its `every_s` is no number of seconds above 0"),
        ({"every_s": True}, "its `every_s` is no number of seconds above 0"),
        ({"every_s": float("nan")}, "its `every_s` is no number of seconds above 0"),
        ({"every_s": float("inf")}, "its `every_s` is no number of seconds above 0"),
        ({"every_s": "5s"}, "its `every_s` is no number of seconds above 0"),
        ({"limit_s": -1}, "its `limit_s` is no number of seconds above 0"),
        ({"observe": None}, "it has no method `observe`"),
        ({"decide": 7}, "it has no method `decide`"),
    ],
)
def test_what_a_class_lacks_to_be_a_decider_is_said(fields: dict[str, Any], problem: str) -> None:
    assert decider_problem(type("It", (Good,), fields)) == problem
