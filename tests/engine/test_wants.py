"""Objects that want another state than their type prefers (`Cob.want`)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cobweb.engine import TroubleKind, analyse
from cobweb.model import Graph
from tests.support.drive import Drive
from tests.support.examples import examples
from tests.support.graphs import budget_of, graph_of, graphs, starts, type_of
from tests.support.words import after, requires

LADDER = type_of("off ready up", "off>ready ready>up up>ready ready>off", "up", "off")


def wanting(graph: Graph, **wants: str) -> Graph:
    """Give objects `x/NAME` what they want."""
    cobs = {
        cob: replace(it, want=wants[it.name]) if it.name in wants else it
        for cob, it in graph.cobs.items()
    }
    return replace(graph, cobs=cobs)


def moves(drive: Drive) -> list[str]:
    """Run to the end and return all transitions, without their locks."""
    drive.run()
    return [line.partition(" [")[0] for line in drive.lines if "->" in line]


def test_an_object_goes_where_it_wants() -> None:
    graph = wanting(graph_of({"x/a": LADDER, "x/b": LADDER}), a="ready")
    drive = Drive(graph, {"x/a": "up", "x/b": "off"})
    assert sorted(moves(drive)) == ["x/a up -> ready", "x/b off -> ready", "x/b ready -> up"]
    assert drive.engine.unsettled() == ()


def test_a_request_counts_for_more_than_what_it_wants() -> None:
    needs = after("x/b", "x/a")
    graph = wanting(graph_of("x/a x/b", *needs), a="down")
    drive = Drive(graph, {"x/a": "down", "x/b": "down"})
    assert moves(drive) == ["x/a down -> up", "x/b down -> up", "x/a up -> down"]


def test_what_it_wants_is_home_for_budgets_as_well() -> None:
    """Though it does not serve there: the slot comes back, and what has served takes room."""
    budget = budget_of("x/a x/b", unit="object")
    graph = graph_of({"x/a": LADDER, "x/b": LADDER}, budgets=(budget,))
    drive = Drive(wanting(graph, a="ready", b="ready"), {"x/a": "up", "x/b": "up"})
    assert moves(drive) == ["x/a up -> ready"]
    assert drive.engine.slots() == frozenset()
    assert drive.why("x/b") == "x/b limit x/a ready, x/a excluded ready"


def test_a_wanted_state_without_a_way_is_found() -> None:
    kind = replace(LADDER, states=("lost", *LADDER.states))
    (trouble,) = analyse(wanting(graph_of({"x/a": kind}), a="lost"))
    assert trouble.kind is TroubleKind.NO_WAY


def test_two_stopped_objects_that_need_each_other_stopped_are_no_trouble() -> None:
    """What pushes out what prefers to be up leaves what wants to be down alone."""
    needs = ("x/a down>up x/b down", "x/b down>up x/a down")
    assert [it.kind for it in analyse(graph_of("x/a x/b", *needs))] == [TroubleKind.PUSH]
    assert analyse(wanting(graph_of("x/a x/b", *needs), b="down")) == ()


def test_what_wants_the_same_is_thought_about_once() -> None:
    needs = [need for number in range(3) for need in requires(f"x/b{number}", "x/a")]
    graph = graph_of("x/a x/b0 x/b1 x/b2", *needs)
    assert analyse(wanting(graph, b0="down", b1="down", b2="down")) == ()


@given(st.data())
@settings(max_examples=examples(60))
def test_a_want_is_what_the_type_prefers(data: st.DataObject) -> None:
    """An object that wants a state goes as one of a type that prefers it, and serves as before."""
    drawn = data.draw(graphs())
    kinds_of = {
        cob: replace(it.type, serving=(it.type.preferred,)) for cob, it in drawn.cobs.items()
    }
    graph = replace(drawn, cobs={c: replace(it, type=kinds_of[c]) for c, it in drawn.cobs.items()})
    wants = {cob: data.draw(st.sampled_from(it.type.states)) for cob, it in graph.cobs.items()}
    marked = {cob: replace(it, want=wants[cob]) for cob, it in graph.cobs.items()}
    typed = {
        cob: replace(it, type=replace(it.type, preferred=wants[cob]))
        for cob, it in graph.cobs.items()
    }
    states = {str(cob): state for cob, state in data.draw(starts(graph)).items()}
    first, second = (
        Drive(replace(graph, cobs=cobs), states, movable=graph.cobs.keys())
        for cobs in (marked, typed)
    )
    assert moves(first) == moves(second)
    assert first.engine.states() == second.engine.states()
    assert first.engine.unsettled() == second.engine.unsettled()
    kinds = [
        sorted((it.kind, it.cobs) for it in analyse(replace(graph, cobs=cobs)))
        for cobs in (marked, typed)
    ]
    assert kinds[0] == kinds[1]
