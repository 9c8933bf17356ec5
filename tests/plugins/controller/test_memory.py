"""What a controller remembers: values that go through JSON and back, and how they change."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import StoreError
from cobweb_plugins.controller._memory import (
    DRIFT,
    GIT,
    OPEN,
    Attempt,
    Fate,
    Goal,
    Held,
    Input,
    Memory,
    Pin,
    Slices,
    Tried,
    id_of,
)

MOST_OVER = 50
"""How many inputs that are over are remembered."""

NAMES = st.sampled_from(["git", "drift", "pools", "switches"])
VALUES = st.sampled_from(["1", "2", "9a24", "9a243679e1"])
TEXTS = st.text(max_size=8)
MAYBE = st.none() | TEXTS
TIMES = st.floats(0, 4e9)
IDS = st.lists(st.sampled_from(["n1/a", "n1/b", "n2/a"]), max_size=3).map(tuple)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)

INPUTS = st.builds(
    Input,
    id=TEXTS,
    source=NAMES,
    input=VALUES,
    what=TEXTS,
    state=st.sampled_from(list(Fate)),
    reason=TEXTS,
    since=TIMES,
    outages=IDS,
    removals=IDS,
    more=IDS,
    findings=st.lists(TEXTS, max_size=2).map(tuple),
    by=MAYBE,
    said=MAYBE,
    at=st.none() | TIMES,
)
GOALS = st.builds(
    Goal,
    files=TEXTS,
    site=TEXTS,
    decisions=st.dictionaries(NAMES, st.integers(0, 99), max_size=2),
    serve=st.none() | st.dictionaries(TEXTS, PLAIN, max_size=2),
    database=TEXTS,
    pending=st.dictionaries(NAMES, VALUES, max_size=2),
    covered=IDS,
    is_free=st.booleans(),
)
TRIED = st.builds(
    Tried,
    key=TEXTS,
    state=st.sampled_from(["reached", "failed", "refused", "pending"]),
    reason=TEXTS,
    run=MAYBE,
    exit_code=st.none() | st.integers(0, 130),
    failures=st.integers(0, 99),
    again_s=st.none() | TIMES,
    basis=TEXTS,
)
UNIQUE = st.lists(INPUTS, max_size=4, unique_by=lambda it: (it.source, it.input)).map(tuple)
MEMORIES = st.builds(
    Memory,
    uses_git=st.booleans(),
    newest=TEXTS,
    goal=st.none() | GOALS,
    inputs=UNIQUE,
    attempt=st.none() | st.builds(Attempt, key=TEXTS, token=TEXTS, after=TEXTS),
    tried=st.none() | TRIED,
    pin=st.none()
    | st.builds(
        Pin, generation=st.integers(1, 99), commit=TEXTS, by=TEXTS, reason=TEXTS, time=TIMES
    ),
    held=st.none() | st.builds(Held, generation=st.integers(1, 99), since=TIMES, newest=TEXTS),
    slices=st.none() | st.builds(Slices, host=TEXTS, time=TIMES),
    seen=st.integers(0, 99),
    tokens=st.lists(TEXTS, max_size=3).map(tuple),
)

GOAL = Goal(files="c0ffee", site="5", decisions={"pools": 2}, serve=None, database="d")
ONE = Input(id="git-1", source=GIT, input="1", what="one", state=Fate.WAITING, reason="", since=1.0)


def keys(memory: Memory) -> list[tuple[str, str]]:
    return [(it.source, it.input) for it in memory.inputs]


def through_json(memory: Memory) -> Memory:
    data: dict[str, Any] = json.loads(json.dumps(memory.as_data()))
    return Memory.of(data)


# JSON


@given(memory=MEMORIES)
def test_a_memory_is_the_same_after_json(memory: Memory) -> None:
    assert through_json(memory) == memory


def test_no_memory_is_an_empty_one() -> None:
    assert Memory.of(None) == Memory() == through_json(Memory())


@given(memory=MEMORIES)
def test_a_memory_that_was_read_says_the_same_of_its_goal(memory: Memory) -> None:
    again = through_json(memory)
    assert (again.goal and again.goal.key) == (memory.goal and memory.goal.key)
    assert again.open() == memory.open()
    assert [it.shown for it in again.inputs] == [it.shown for it in memory.inputs]


@given(memory=MEMORIES, data=st.data())
def test_a_memory_of_another_version_is_refused(memory: Memory, data: st.DataObject) -> None:
    found = memory.as_data()
    name = data.draw(st.sampled_from(["inputs", "goal", "tried"]))
    if data.draw(st.booleans()):
        found[name] = 7
    else:
        found["an unknown one"] = name
    with pytest.raises(StoreError, match="cannot be read"):
        Memory.of(found)


# The goal


@given(goal=GOALS, cobs=IDS)
def test_what_a_person_lets_go_is_covered_and_no_other_goal(
    goal: Goal, cobs: tuple[str, ...]
) -> None:
    covering = goal.covering(cobs)
    assert set(covering.covered) == {*goal.covered, *cobs}
    assert covering.key == goal.key
    assert covering.covering(cobs) == covering


@given(goal=GOALS)
def test_what_was_brought_about_covers_nothing_more(goal: Goal) -> None:
    done = goal.reached()
    assert (done.pending, done.covered, done.is_free) == ({}, (), False)
    assert done.key == goal.key


@given(one=GOALS, other=GOALS)
def test_a_goal_is_its_files_and_decisions(one: Goal, other: Goal) -> None:
    same = (one.files, dict(one.decisions)) == (other.files, dict(other.decisions))
    assert (one.key == other.key) is same


# Inputs


@given(memory=MEMORIES, new=st.lists(INPUTS, max_size=8))
def test_each_input_is_remembered_once_as_it_was_last(memory: Memory, new: list[Input]) -> None:
    known = {(it.source, it.input): it for it in memory.inputs}
    for it in new:
        memory = memory.with_input(it)
        known[(it.source, it.input)] = it
        assert memory.inputs[0] == it
    assert {(it.source, it.input): it for it in memory.inputs} == known
    assert len(keys(memory)) == len(set(keys(memory)))
    for (source, value), it in known.items():
        assert memory.input(source, value) == it
    assert memory.input("nobody", "1") is None


@given(fates=st.lists(st.sampled_from(list(Fate)), min_size=60, max_size=140))
def test_of_what_is_over_the_last_ones_are_remembered_and_all_that_is_open(
    fates: list[Fate],
) -> None:
    memory = Memory()
    new = [replace(ONE, input=str(number), state=fate) for number, fate in enumerate(fates)]
    for it in new:
        memory = memory.with_input(it)
    is_open = [it for it in new if it.state in OPEN]
    over = [it for it in memory.inputs if it.state not in OPEN]
    assert {it.input for it in memory.open()} == {it.input for it in is_open}
    newest_first = [it for it in reversed(new) if it.state not in OPEN]
    assert [it.input for it in over[:MOST_OVER]] == [it.input for it in newest_first[:MOST_OVER]]


def test_of_many_that_are_over_50_are_remembered() -> None:
    memory = Memory()
    for number in range(3 * MOST_OVER):
        memory = memory.with_input(replace(ONE, input=str(number), state=Fate.ADMITTED))
        assert len(memory.inputs) <= MOST_OVER
    assert memory.inputs[0].input == str(3 * MOST_OVER - 1)


def test_what_was_rejected_last_of_a_source_is_remembered() -> None:
    """It may be the newest still, and would wait anew."""
    memory = Memory()
    for source, number in ((GIT, 1), (GIT, 2), ("pools", 1)):
        it = replace(ONE, id=f"{source}-{number}", source=source, input=str(number))
        memory = memory.with_input(replace(it, state=Fate.REJECTED))
    for number in range(4 * MOST_OVER):
        it = replace(ONE, id=f"more-{number}", source="pools", input=f"{number} more")
        memory = memory.with_input(replace(it, state=Fate.ADMITTED))
    found = memory.input(GIT, "2"), memory.input("pools", "1")
    assert [it and it.state for it in found] == [Fate.REJECTED] * 2
    assert memory.input(GIT, "1") is None
    assert len(memory.inputs) <= MOST_OVER + 2


@given(memory=MEMORIES, data=st.data(), now_s=TIMES)
def test_what_is_replaced_lapses_and_nothing_else_changes(
    memory: Memory, data: st.DataObject, now_s: float
) -> None:
    current = set(data.draw(st.lists(st.sampled_from([*keys(memory), (GIT, "none")]))))
    left = memory.lapsed(current, now_s)
    assert sorted(keys(left)) == sorted(keys(memory))
    for before in memory.inputs:
        after = left.input(before.source, before.input)
        if before in memory.open() and (before.source, before.input) not in current:
            assert after is not None
            assert (after.state, after.at, after.more) == (Fate.LAPSED, now_s, ())
            assert (after.id, after.by, after.said) == (before.id, before.by, before.said)
            assert after.reason
        else:
            assert after == before
    assert {(it.source, it.input) for it in left.open()} <= current
    assert replace(left, inputs=memory.inputs) == memory
    assert left.lapsed(current, now_s + 1) == left


@given(memory=MEMORIES, now_s=TIMES, but=VALUES)
def test_only_repairs_wait_no_more(memory: Memory, now_s: float, but: str) -> None:
    left = memory.without_repairs(now_s, but)
    kept = {(it.source, it.input) for it in memory.open() if it.source != DRIFT or it.input == but}
    assert {(it.source, it.input) for it in left.open()} == kept


# How attempts end


@given(failures=st.integers(0, 200), now_s=TIMES)
def test_a_goal_that_failed_waits_twice_as_long_each_time(failures: int, now_s: float) -> None:
    tried = Tried(key=GOAL.key, state="failed", failures=failures)
    attempt = Attempt(key=GOAL.key, token="0" * 8, after="")
    memory = Memory(goal=GOAL, tried=tried, attempt=attempt)
    after = memory.after("failed", "x", now_s=now_s, code=1, run="r")
    assert after.tried is not None
    assert after.tried.again_s is not None
    pause_s = after.tried.again_s - now_s
    assert pause_s == pytest.approx(min(60.0 * 2**failures, 3600.0), abs=1e-3)
    assert (after.tried.failures, after.tried.run, after.attempt) == (failures + 1, "r", None)


def test_the_pauses_of_a_goal_that_fails_on_and_on() -> None:
    memory, pauses = Memory(goal=GOAL), list[float]()
    for _ in range(8):
        memory = memory.after("failed", "x", now_s=1000.0, code=1)
        assert memory.tried is not None
        assert memory.tried.again_s is not None
        pauses.append(memory.tried.again_s - 1000.0)
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]


@given(memory=MEMORIES, state=st.sampled_from(["failed", "refused"]), now_s=TIMES)
def test_failures_of_another_goal_do_not_count(memory: Memory, state: str, now_s: float) -> None:
    memory = replace(memory, goal=GOAL)
    after = memory.after(state, "why", now_s=now_s, code=4, basis="b").tried
    assert after is not None
    before = memory.tried.failures if memory.tried and memory.tried.key == GOAL.key else 0
    failed = state == "failed"
    assert after.failures == before + failed
    assert (after.again_s is not None) is failed
    assert (after.key, after.state, after.reason) == (GOAL.key, state, "why")
    assert (after.exit_code, after.basis) == (4, "b")


@given(memory=MEMORIES, run=st.none() | st.just("r9"), now_s=TIMES)
def test_what_is_reached_is_pending_no_more(memory: Memory, run: str | None, now_s: float) -> None:
    done = memory.reached(run, now_s)
    if memory.goal is None:
        assert done == memory
        return
    assert done.goal == memory.goal.reached()
    assert done.tried is not None
    assert (done.tried.state, done.tried.key) == ("reached", memory.goal.key)
    assert (done.tried.failures, done.tried.again_s, done.attempt) == (0, None, None)
    assert done.tried.exit_code in (0, None)
    assert not [it for it in done.open() if it.source == DRIFT]
    assert [it for it in done.open() if it.source != DRIFT] == [
        it for it in done.inputs if it.state in OPEN
    ]
    if run:
        assert done.tried.run == run
    assert done.reached(None, now_s) == done, "to find it reached once more changes nothing"


def test_a_run_that_reached_the_goal_is_remembered_while_it_stays_so() -> None:
    done = Memory(goal=GOAL).reached("r1", 1.0).reached(None, 2.0)
    assert done.tried is not None
    assert (done.tried.run, done.tried.exit_code) == ("r1", 0)
    other = replace(done, goal=replace(GOAL, files="beef")).reached(None, 3.0)
    assert other.tried is not None
    assert (other.tried.run, other.tried.exit_code) == (None, None)


@given(memory=MEMORIES)
def test_a_goal_that_may_not_be_now_has_a_reason(memory: Memory) -> None:
    waits = memory.waiting("a window")
    assert waits.tried is not None
    assert (waits.tried.state, waits.tried.reason) == ("pending", "a window")
    assert replace(waits, tried=memory.tried) == memory


def test_the_last_attempts_are_remembered() -> None:
    memory = Memory()
    for number in range(100):
        attempt = Attempt(key="k", token=str(number), after="")
        memory = memory.with_attempt(attempt)
        assert memory.attempt == attempt
        assert memory.tokens[0] == str(number)
    assert 5 < len(memory.tokens) < 50
    assert len(set(memory.tokens)) == len(memory.tokens)


@pytest.mark.parametrize(
    ("source", "value", "found"),
    [
        (GIT, "9a243679e1", "git-9a243679"),
        (DRIFT, "0123456789ab", "drift-01234567"),
        ("pools", "1234567890", "pools-1234567890"),
    ],
)
def test_what_people_call_an_input(source: str, value: str, found: str) -> None:
    assert id_of(source, value) == found
