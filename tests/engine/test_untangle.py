"""Circles that only the priority of states has made are broken when nothing else can happen."""

from __future__ import annotations

from random import Random

from cobweb.model import CobId, Graph
from cobweb.testing.simulation import Simulation
from tests.support.drive import Drive
from tests.support.graphs import budget_of, graph_of

PAIR_NEEDS = (
    "x/cfg outdated>* x/db down",
    "x/cfg outdated>* y/db up",
    "y/cfg outdated>* y/db down",
    "y/cfg outdated>* x/db up",
)
PAIR = "x/cfg x/db y/cfg y/db"
STATES = {"x/cfg": "outdated", "x/db": "up", "y/cfg": "outdated", "y/db": "up"}
AT_MOST_ONE = budget_of("x/db y/db", name="pair")


def test_each_of_a_pair_is_changed_while_the_other_one_is_up() -> None:
    """One after the other, in the order that the look-ahead finds."""
    drive = Drive(graph_of(PAIR, *PAIR_NEEDS), STATES)
    drive.run()
    assert drive.engine.unsettled() == ()
    changes = [text for text in drive.lines if "cfg outdated ->" in text]
    assert sorted(changes) == [
        "x/cfg outdated -> up [x/db down] [y/db up]",
        "y/cfg outdated -> up [x/db up] [y/db down]",
    ]


def test_with_a_limit_never_both_of_the_pair_are_down() -> None:
    """The circle leads through the limit: one holds the room that the other one waits for."""
    drive = Drive(graph_of(PAIR, *PAIR_NEEDS, budgets=(AT_MOST_ONE,)), STATES)
    steps = [text for text in drive.first if "->" in text] + drive.run()
    assert [text for text in steps if "/db" in text.partition("[")[0]] == [
        "x/db up -> down",
        "x/db down -> up",
        "y/db up -> down",
        "y/db down -> up",
    ]
    assert drive.engine.unsettled() == ()


def test_who_waits_for_a_failure_as_well_is_not_favoured() -> None:
    """Nothing is stopped and started in vain."""
    needs = (*PAIR_NEEDS, "x/cfg outdated>* x/z up", "y/cfg outdated>* x/z up")
    drive = Drive(graph_of(f"{PAIR} x/z", *needs), {**STATES, "x/z": "down"})
    drive.ended("x/z", ok=False)
    drive.checked("x/z", "down")
    drive.run()
    assert {"x/cfg", "y/cfg"} <= set(drive.engine.unsettled())
    assert not [text for text in drive.lines if text == "x/db down -> up"]
    assert drive.why("y/cfg").endswith("x/z failed down")


def test_a_circle_of_needs_stays_a_circle() -> None:
    """Only what priority made can be undone."""
    graph = graph_of("x/a x/b", "x/a down>up x/b up", "x/b down>up x/a up")
    drive = Drive(graph, {"x/a": "down", "x/b": "down"})
    assert drive.engine.unsettled() == ("x/a", "x/b")


def test_engines_that_share_nothing_do_not_guess() -> None:
    """None of them knows that nothing runs anywhere."""
    graph: Graph = graph_of(PAIR, *PAIR_NEEDS)
    simulation = Simulation(
        graph=graph,
        random=Random(0),
        truth={CobId(cob): state for cob, state in STATES.items()},
        states={CobId(cob): state for cob, state in STATES.items()},
        owners=[frozenset({cob}) for cob in graph.cobs],
    )
    simulation.run()
    assert [cob for engine in simulation.engines for cob in engine.unsettled()] != []
