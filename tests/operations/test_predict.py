"""Plans: what is believed, what would happen, and plans as files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cobweb.engine import WaitKind
from cobweb.errors import PlanError
from cobweb.generation import content_of, digest
from cobweb.kernel._sentences import chain_lines
from cobweb.model import UNKNOWN, Cob, CobId, Graph, Limit, LimitGroup, Missing
from cobweb.operations.context._known_states import Refresh, known_states, old_locks
from cobweb.operations.context._removal import Removal
from cobweb.operations.planning._plan import (
    Plan,
    TreeComparison,
    base_digest,
    changes_of,
    plan_text,
    read_plan,
)
from cobweb.operations.planning._prediction import Prediction, predict
from cobweb.plugin import Stages
from cobweb.store import CobRecord
from tests.support.contexts import context_over
from tests.support.graphs import figure_one

A, B, CFG = CobId("alpha/a"), CobId("beta/b"), CobId("alpha/cfg")


def record(graph: Graph, cob: CobId, **changes: Any) -> CobRecord:
    values: dict[str, Any] = {
        "cob": cob,
        "state": "up",
        "content": content_of(graph.cobs[cob]) if cob in graph.cobs else "x",
        "applied_json": '{"port": 1}',
        "in_transition": None,
        "reachable": True,
        "since": 0.0,
        "run": "r",
        "generation": 1,
        "failed": False,
        "reason": "check",
    }
    return CobRecord(**{**values, **changes})


def predicted(
    graph: Graph,
    known: dict[CobId, str],
    found: dict[CobId, str],
    *,
    movable: frozenset[CobId] | None = None,
) -> Prediction:
    """Predict a run over a graph whose hosts have all switched."""
    movable = frozenset(graph.cobs) if movable is None else movable
    return predict(context_over(graph, known, found=found, movable=movable))


def test_a_changed_configuration_is_predicted_in_the_order_of_the_paper() -> None:
    graph = figure_one()
    prediction = predicted(graph, {A: "up", B: "up"}, {CFG: "outdated"})
    assert [(step.cob, step.source, step.dest) for step in prediction.steps] == [
        (B, "up", "down"),
        (A, "up", "down"),
        (CFG, "outdated", "up"),
        (A, "down", "up"),
        (B, "down", "up"),
    ]
    assert [step.waits_for[:1] for step in prediction.steps] == [(), (B,), (A,), (CFG,), (A,)]
    assert prediction.down_s == {A: 3.0, B: 5.0}
    assert prediction.waits == ()
    assert prediction.seconds == 5.0


def lacking(graph: Graph, cob: CobId) -> Graph:
    """Return a graph in which nothing can be done any more for one object."""
    gone = Missing(message="its tasks are gone")
    it = graph.cobs[cob]
    steps = tuple(replace(step, action=gone) for step in it.type.transitions)
    kind = replace(it.type, check=gone, transitions=steps)
    return replace(graph, cobs={**graph.cobs, cob: replace(it, type=kind)})


@pytest.mark.parametrize("is_known", [True, False])
def test_work_that_cannot_be_done_any_more_is_predicted_to_fail(*, is_known: bool) -> None:
    """B has to make way for A, which has to for CFG; A is where it wants to be and stays (P10)."""
    states = {B: "up"}
    prediction = predicted(
        lacking(figure_one(), B),
        {A: "up", **(states if is_known else {})},
        {CFG: "outdated", **({} if is_known else states)},
    )
    steps = [(step.cob, step.source, step.dest) for step in prediction.steps]
    assert steps == ([(B, "up", "down")] if is_known else [])
    waits = {wait.cob: wait for wait in prediction.waits}
    assert waits.keys() == {B, CFG}
    assert waits[B].state == UNKNOWN
    for wait in waits.values():
        end = wait.chain[-1]
        assert (end.cob, end.kind, end.detail) == (B, WaitKind.FAILED, "its tasks are gone")
    assert chain_lines(waits[B]) == ["beta/b would fail: its tasks are gone"]


def test_who_waits_for_room_in_a_limit_comes_after_who_makes_it() -> None:
    kind = figure_one().cobs[A].type
    cobs = {CobId(f"h{n}/x"): Cob(id=CobId(f"h{n}/x"), type=kind) for n in range(3)}
    group = LimitGroup(name="", members=frozenset(cobs), bound=1)
    limit = Limit(name="one", groups=(group,))
    graph = Graph(cobs=cobs, limits=(limit,))
    prediction = predicted(graph, dict.fromkeys(cobs, "down"), {})
    assert [(step.cob, step.waits_for) for step in prediction.steps] == [
        ("h0/x", ()),
        ("h1/x", ("h0/x",)),
        ("h2/x", ("h1/x",)),
    ]


def test_nothing_is_predicted_where_all_is_up() -> None:
    graph = figure_one()
    prediction = predicted(graph, dict.fromkeys((A, B, CFG), "up"), {})
    assert prediction.steps == ()
    assert prediction.seconds == 0.0


DOUBTS: list[tuple[dict[str, Any], str]] = [
    ({"in_transition": ("down", "up"), "state": "down"}, "down"),
    ({"reachable": False}, "up"),
    ({"state": "unknown"}, "up"),
    ({"state": "unknown", "applied_json": None}, "down"),
    ({"state": "renamed-away"}, "up"),
    ({"content": "another"}, "outdated"),
    ({"content": "another", "state": "down"}, "down"),
]


@pytest.mark.parametrize(("changes", "guess"), DOUBTS)
def test_objects_in_doubt_are_checked(changes: dict[str, Any], guess: str) -> None:
    graph = figure_one()
    records = {cob: record(graph, cob) for cob in graph.cobs}
    records[A] = record(graph, A, **changes)
    before = known_states(graph, records)
    assert set(before.known) == {B, CFG}
    assert before.found == {A: guess}
    assert before.changed == ({A} if "content" in changes else set())


def test_refresh_all_believes_nothing() -> None:
    graph = figure_one()
    records = {cob: record(graph, cob) for cob in graph.cobs}
    before = known_states(graph, records, refresh=Refresh.ALL)
    assert before.known == {}
    assert before.changed == frozenset()


def test_added_and_removed_objects_are_told() -> None:
    graph = figure_one()
    gone = CobId("alpha/old")
    records = {cob: record(graph, cob) for cob in (A, B)} | {gone: record(graph, gone)}
    context = context_over(
        graph,
        before=known_states(graph, records),
        records=records,
        removal=Removal(graph=graph, removed=frozenset({gone})),
    )
    trees = TreeComparison(lambda _digest: None)
    changes = changes_of(context, frozenset(graph.cobs), {}, trees)
    assert [(change.cob, change.kind) for change in changes] == [(CFG, "added"), (gone, "removed")]


def test_the_base_of_a_plan_follows_states_and_contents() -> None:
    graph = figure_one()
    base = base_digest({A: record(graph, A)})
    assert base == base_digest({A: record(graph, A, since=5.0, run="other")})
    assert base != base_digest({A: record(graph, A, state="down")})
    assert base != base_digest({A: record(graph, A, content="x")})


def test_the_base_is_the_digest_of_what_is_believed_by_id() -> None:
    graph = figure_one()
    records = {
        B: record(graph, B, in_transition=("down", "up")),
        A: record(graph, A, state='"', content="x"),
    }
    assert base_digest({}) == digest({})
    assert base_digest(records) == digest(
        {A: ['"', "x", False], B: ["up", content_of(graph.cobs[B]), True]}
    )


def plan() -> Plan:
    stages = Stages(stages=(), critical_path=())
    return Plan(
        site="s", base="b", generation=1, run="r", changes=(), checks=(), stages=stages, waits=()
    )


def test_a_plan_file_can_be_read_back() -> None:
    file = read_plan(plan_text(plan()), "x.plan")
    assert (file.site, file.base, file.limit) == ("s", "b", None)


def edited(**changes: Any) -> str:
    return json.dumps({**json.loads(plan_text(plan())), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.plan: this is no plan"),
        ("[]", "x.plan: this is no plan"),
        ("{}", "x.plan: this is no plan"),
        ('{"seal": 1}', "x.plan: this is no plan"),
        (plan_text(plan())[:-20], "x.plan: this is no plan"),
        (edited(site="other"), "x.plan: the plan was edited or damaged"),
        (
            edited(format=99),
            "x.plan: the plan was made by another version of Cobweb: format 99 is not 4",
        ),
    ],
)
def test_what_is_no_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(text, "x.plan")
    assert caught.value.message == message
    assert caught.value.hint


OTHER, GONE = CobId("gamma/c"), CobId("gamma/gone")
LOCKS: list[tuple[CobId, CobId, bool, bool, str]] = [
    (A, B, True, False, "held"),
    (A, B, False, False, "held"),
    (A, OTHER, True, False, "dead"),
    (A, OTHER, True, True, "held"),
    (A, OTHER, False, False, "dead"),
    (A, OTHER, False, True, "held"),
    (GONE, A, True, False, "dead"),
    (GONE, OTHER, True, True, "left"),
    (GONE, A, False, False, "left"),
]


@pytest.mark.parametrize(("locked", "holder", "whole", "moves", "verdict"), LOCKS)
def test_locks_of_an_earlier_run_end_with_what_they_protect(  # a table
    locked: CobId, holder: CobId, *, whole: bool, moves: bool, verdict: str
) -> None:
    graph = figure_one()
    step = ("down", "up") if moves else None
    records = {OTHER: record(graph, OTHER, in_transition=step)}
    held, dead = old_locks(graph, records, [(locked, holder, "up")], whole=whole)
    assert (bool(held), bool(dead)) == (verdict == "held", verdict == "dead")
