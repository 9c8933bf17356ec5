"""What a run believes, does and remembers of objects that want another state (`Cob.want`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cobweb.model import Cob, CobId, Graph, Nothing
from cobweb.operations.context._known_states import Refresh, known_states
from cobweb.store import StateWritten, TransitionFinished
from tests.operations.test_predict import predicted, record
from tests.support.graphs import type_of

A, B, CFG = CobId("alpha/a"), CobId("beta/b"), CobId("alpha/cfg")
SERVICE = type_of(
    "outdated stale absent ready up",
    "absent>ready ready>up up>ready outdated>stale stale>ready ready>absent",
    "up",
    "absent",
)
MakeRig = Callable[..., Any]


def service(want: str = "", **spec: Any) -> Graph:
    kind = replace(SERVICE, check=Nothing())
    return Graph(cobs={A: Cob(id=A, type=kind, spec=spec or {"port": 1}, want=want)})


def test_a_want_alone_is_no_change_of_the_object() -> None:
    then = service()
    before = known_states(service("ready"), {A: record(then, A)})
    assert (before.known, before.found, before.changed) == ({A: "up"}, {}, frozenset())


@pytest.mark.parametrize(
    ("want", "state", "guess"),
    [("", "up", "outdated"), ("ready", "up", "outdated"), ("ready", "ready", "stale")],
)
def test_a_changed_object_is_guessed_by_what_it_wants(want: str, state: str, guess: str) -> None:
    before = known_states(service(want, port=2), {A: record(service(), A, state=state)})
    assert before.found == {A: guess}


@pytest.mark.parametrize(("applied", "guess"), [('{"port": 1}', "ready"), (None, "absent")])
def test_a_lost_state_is_guessed_by_what_it_wants(applied: str | None, guess: str) -> None:
    lost = record(service(), A, state="unknown", applied_json=applied)
    assert known_states(service("ready"), {A: lost}).found == {A: guess}


@pytest.mark.parametrize(("want", "is_known"), [("ready", False), ("", True)])
def test_what_is_taken_to_be_as_wanted_is_checked_even_if_nothing_is(
    want: str, *, is_known: bool
) -> None:
    """Otherwise its change would never be carried out."""
    graph = service(want, port=2)
    kind = replace(graph.cobs[A].type, states=("outdated", "absent", "ready", "up"))
    graph = replace(graph, cobs={A: replace(graph.cobs[A], type=kind)})
    before = known_states(graph, {A: record(service(), A, state="ready")}, refresh=Refresh.NONE)
    assert (A in before.known) is is_known


def test_what_is_where_it_wants_to_be_is_at_rest() -> None:
    assert not predicted(service("ready"), {A: "ready"}, {}).steps
    assert predicted(service("ready"), {A: "up"}, {}).steps
    assert predicted(service(), {A: "ready"}, {}).steps


def test_a_stop_is_predicted_and_is_out_to_the_end() -> None:
    """It has served and does not any more: somebody's users notice, whoever wants it."""
    prediction = predicted(service("ready"), {A: "up"}, {})
    assert [(step.source, step.dest) for step in prediction.steps] == [("up", "ready")]
    assert prediction.down_s == {A: 1.0}


def test_what_arrives_where_it_wants_to_be_has_its_spec_applied(rig: MakeRig) -> None:
    graph = service("ready")
    it = rig(graph, states={A: "absent"})
    result = it.go()
    assert result.exit_code == 0
    ends = it.entries(TransitionFinished)
    assert [(end.dest, end.applied) for end in ends] == [("ready", {"port": 1})]
    assert {found.applied for found in it.entries(StateWritten) if found.state == "absent"} == {
        None
    }
