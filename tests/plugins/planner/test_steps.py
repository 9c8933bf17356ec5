"""The default planner: conformance, and worked examples by hand."""

from __future__ import annotations

import pytest

from cobweb.model import (
    Cob,
    CobId,
    CobType,
    Graph,
    LockNeed,
    Need,
    Nothing,
    Transition,
    TransitionNeed,
)
from cobweb.plugin import PlannedStep
from cobweb.testing import NamedCheck, PlannerCase, planner_checks
from cobweb_plugins.planner import EventPlanner, StagesPlanner

TYPE = CobType(
    name="mark",
    states=("outdated", "down", "up"),
    preferred="up",
    remove="down",
    check=Nothing(),
    transitions=(
        Transition(source="down", dest="up", action=Nothing()),
        Transition(source="up", dest="down", action=Nothing()),
        Transition(source="outdated", dest="up", action=Nothing()),
    ),
)


@pytest.mark.parametrize("check", planner_checks(PlannerCase(make=EventPlanner)), ids=str)
def test_event_conforms(check: NamedCheck) -> None:
    check()


@pytest.mark.parametrize("check", planner_checks(PlannerCase(make=StagesPlanner)), ids=str)
def test_stages_conforms(check: NamedCheck) -> None:
    check()


def test_stages_does_one_step_of_a_host_in_each() -> None:
    a, b = _step("a/x", "d", "u", 0, 1), _step("a/y", "d", "u", 0, 1)
    c, d = _step("b/x", "d", "u", 0, 1), _step("b/y", "d", "u", 1, 2, "a/x")
    result = StagesPlanner().stages(_graph(), (a, b, c, d))
    assert result.stages == ((a, c), (b,), (d,))
    assert result.critical_path == (a, d)
    graph = _graph(_need("b/app", "a/db"))
    assert StagesPlanner().priorities(graph) == EventPlanner().priorities(graph)


def _graph(*needs: Need) -> Graph:
    ids = {cob for need in needs for cob in (need.cob, need.on)}
    return Graph(cobs={cob: Cob(id=cob, type=TYPE) for cob in sorted(ids)}, needs=needs)


def _need(cob: str, on: str, *, dest: str = "up", state: str = "up") -> TransitionNeed:
    return TransitionNeed(cob=CobId(cob), source="*", dest=dest, on=CobId(on), state=state)


def _step(  # a step has as many parts
    cob: str, source: str, dest: str, start_s: float, end_s: float, *waits: str
) -> PlannedStep:
    return PlannedStep(
        cob=CobId(cob),
        source=source,
        dest=dest,
        start_s=start_s,
        end_s=end_s,
        waits_for=tuple(map(CobId, waits)),
    )


def test_figure_1_of_the_paper_has_five_stages() -> None:
    steps = (
        _step("b/b", "up", "down", 0, 1),
        _step("a/a", "up", "down", 1, 2, "b/b"),
        _step("a/cfg", "outdated", "up", 2, 3, "a/a"),
        _step("a/a", "down", "up", 3, 4, "a/cfg"),
        _step("b/b", "down", "up", 4, 5, "a/a"),
    )
    result = EventPlanner().stages(_graph(), steps)
    assert result.stages == tuple((step,) for step in steps)
    assert result.critical_path == steps


def test_a_second_step_of_an_object_comes_after_its_first() -> None:
    first, second = _step("a/a", "up", "down", 0, 1), _step("a/a", "down", "up", 1, 2)
    result = EventPlanner().stages(_graph(), (second, first))
    assert result.stages == ((first,), (second,))


def test_a_stage_is_in_the_order_of_starts_and_ids() -> None:
    late, b, a = (
        _step("a/x", "d", "u", 1, 2),
        _step("b/x", "d", "u", 0, 1),
        _step("a/y", "d", "u", 0, 1),
    )
    assert EventPlanner().stages(_graph(), (late, b, a)).stages == ((a, b, late),)


def test_critical_path_follows_the_wait_that_ended_last() -> None:
    short, long = _step("a/short", "d", "u", 0, 1), _step("b/long", "d", "u", 0, 9)
    last = _step("c/last", "d", "u", 9, 10, "a/short", "b/long")
    other = _step("d/other", "d", "u", 0, 5)
    assert EventPlanner().stages(_graph(), (short, long, last, other)).critical_path == (
        long,
        last,
    )


def test_a_wait_for_what_did_not_move_counts_for_nothing() -> None:
    step = _step("a/a", "down", "up", 0, 1, "b/still")
    result = EventPlanner().stages(_graph(), (step,))
    assert result.stages == ((step,),)
    assert result.critical_path == (step,)


def test_steps_without_length_keep_the_order_of_the_run() -> None:
    first, second = _step("z/z", "d", "u", 0, 0), _step("a/a", "d", "u", 0, 0, "z/z")
    assert EventPlanner().stages(_graph(), (first, second)).stages == ((first,), (second,))


def test_priority_is_the_longest_chain_to_go() -> None:
    graph = _graph(_need("b/app", "a/db"), _need("c/web", "b/app"), _need("d/log", "a/db"))
    weights = EventPlanner().priorities(graph)
    assert weights == {"a/db": 3.0, "b/app": 2.0, "c/web": 1.0, "d/log": 1.0}


def test_needs_of_stopping_and_locks_do_not_count() -> None:
    lock = LockNeed(cob=CobId("b/app"), within="up", on=CobId("a/db"), state="up")
    graph = _graph(
        _need("a/db", "b/app", dest="down", state="down"),
        _need("a/cfg", "a/db", dest="*", state="down"),
        lock,
    )
    assert set(EventPlanner().priorities(graph).values()) == {1.0}


def test_a_chain_of_many_thousand_objects_needs_no_deep_stack() -> None:
    count = 20_000
    needs = [_need(f"h{n:05}/x", f"h{n - 1:05}/x") for n in range(1, count)]
    weights = EventPlanner().priorities(_graph(*needs))
    assert weights[CobId("h00000/x")] == count
    assert weights[CobId(f"h{count - 1:05}/x")] == 1.0
