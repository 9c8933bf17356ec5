"""Objects with another goal than their preferred state, and with none: the removal of objects."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import STAY, HostVanished, WaitKind
from cobweb.model import Budget, CobId, Graph, State
from cobweb.testing.simulation import Faults, Simulation
from tests.support.drive import Drive
from tests.support.graphs import budget_of, graph_of, graphs, starts

R, A, B, C, P, Q = (CobId(f"x/{name}") for name in "rabcpq")
DOWN_FIRST = ("x/r up>down x/a down",)


def one_out(cobs: str) -> tuple[Budget, ...]:
    """Let one of these be out at once."""
    return (budget_of(cobs, name="one", unit="object"),)


def test_an_object_that_stays_moves_for_a_lock_and_stays_where_that_left_it() -> None:
    """`r` is to go down, which needs `a` down; `a` has no goal of its own."""
    drive = Drive(graph_of("x/a x/r", *DOWN_FIRST), {R: "up", A: "up"}, goals={R: "down", A: STAY})
    assert drive.run() == ["x/r up -> down [x/a down]"]
    assert drive.engine.states() == {A: "down", R: "down"}
    assert drive.engine.target(A) == "down"
    assert drive.engine.unsettled() == ()
    assert drive.engine.locks() == ()


def test_an_object_that_stays_and_is_asked_for_nothing_does_nothing() -> None:
    """Wherever it is."""
    states: dict[str, State] = {A: "outdated", B: "down", C: "up"}
    drive = Drive(graph_of("x/a x/b x/c"), states, goals=dict.fromkeys((A, B, C), STAY))
    assert drive.engine.idle()
    assert drive.engine.unsettled() == ()
    assert [drive.engine.blocked(cob) for cob in (A, B, C)] == [None] * 3


def test_an_object_that_stays_is_settled_only_when_its_state_is_known() -> None:
    """It is checked like any other; a failed check is a failure."""
    drive = Drive(graph_of("x/a"), goals={A: STAY})
    assert drive.engine.unsettled() == (A,)
    assert drive.why("x/a") == "x/a running"
    drive.checked("x/a", "outdated")
    assert drive.engine.unsettled() == ()
    drive = Drive(graph_of("x/a"), goals={A: STAY})
    drive.checked("x/a", None)
    assert drive.why("x/a") == "x/a failed unknown"


def test_an_object_that_stays_and_failed_ends_the_chain() -> None:
    """Who asked waits for it."""
    drive = Drive(graph_of("x/a x/r", *DOWN_FIRST), {R: "up", A: "up"}, goals={R: "down", A: STAY})
    drive.ended("x/a", ok=False)
    drive.checked("x/a", "up")
    assert drive.engine.unsettled() == (A, R)
    assert drive.why("x/r") == "x/r lock x/a down, x/a failed up"
    assert drive.why("x/a") == "x/a failed up"


def test_an_object_that_stays_on_a_vanished_host_is_settled_where_it_was() -> None:
    """Nothing was asked of it; what was in flight there is unknown."""
    drive = Drive(graph_of("x/a x/r", *DOWN_FIRST), {R: "up", A: "up"}, goals={R: "down", A: STAY})
    drive.step(HostVanished(host="x"))
    assert drive.engine.unsettled() == (A, R)
    assert drive.why("x/a") == "x/a unreachable"
    drive = Drive(graph_of("x/a"), {A: "up"}, goals={A: STAY})
    drive.step(HostVanished(host="x"))
    assert drive.engine.unsettled() == ()


def test_what_failed_before_starts_nothing_and_is_told_as_failed() -> None:
    """In an earlier part of the run; it lends the state that it is in."""
    graph = graph_of("x/a x/b x/c", "x/b *>up x/a up", "x/c *>up x/a down")
    drive = Drive(graph, {A: "down", B: "down", C: "down"}, failed={A, CobId("y/elsewhere")})
    assert drive.run() == []
    assert drive.state("x/c") == "up"
    assert drive.why("x/a") == "x/a failed down"
    assert drive.why("x/b") == "x/b lock x/a up, x/a failed down"


def test_what_failed_before_and_is_unknown_is_checked() -> None:
    """So its true state is told."""
    drive = Drive(graph_of("x/a"), failed={A})
    assert drive.first == ["x/a check"]
    drive.checked("x/a", "down")
    assert drive.why("x/a") == "x/a failed down"


def test_an_object_that_stays_away_takes_room_and_who_waits_is_told() -> None:
    """The budget holds also where nothing brings the object back."""
    needs = ("x/p up>down x/a down", "x/q up>down x/b down")
    graph = graph_of("x/a x/b x/p x/q", *needs, budgets=one_out("x/a x/b"))
    drive = Drive(
        graph, dict.fromkeys((A, B, P, Q), "up"), goals={A: STAY, B: STAY, P: "down", Q: "down"}
    )
    assert drive.run() == ["x/a up -> down", "x/p up -> down [x/a down]"]
    assert drive.engine.unsettled() == (Q,)
    assert drive.why("x/q") == "x/q limit x/a down, x/a excluded up"


def test_an_object_that_stays_and_is_held_away_takes_room_for_who_holds_it() -> None:
    """The chain goes on to the holder."""
    needs = ("x/p up>down x/a down", "x/q up>down x/b down", "x/p up>down x/c down")
    graph = graph_of("x/a x/b x/c x/p x/q", *needs, budgets=one_out("x/a x/b"))
    goals = {A: STAY, B: STAY, C: STAY, P: "down", Q: "down"}
    drive = Drive(graph, dict.fromkeys((A, B, C, P, Q), "up"), goals=goals)
    while drive.checking:
        drive.checked(min(drive.checking), "up")
    drive.ended("x/a")
    assert drive.why("x/q") == ("x/q limit x/p down, x/p lock x/c down, x/c running")


@st.composite
def removals(draw: st.DrawFn, graph: Graph) -> dict[CobId, State]:
    """Draw which objects are removed; all others stay."""
    return {cob.id: cob.type.remove if draw(st.booleans()) else STAY for cob in graph.cobs.values()}


@given(
    graphs(),
    st.data(),
    st.integers(0, 2**32),
    st.sampled_from([Faults(), Faults(fail=0.1, fail_check=0.05, vanish=0.02, come_back=0.1)]),
)
def test_a_removal_keeps_the_promises_and_says_who_was_not_removed(
    graph: Graph, data: st.DataObject, seed: int, faults: Faults
) -> None:
    """P1 to P4 are watched by the simulation; who stays has moved only for somebody (P5)."""
    truth = data.draw(starts(graph))
    goals = data.draw(removals(graph))
    simulation = Simulation(
        graph=graph, random=Random(seed), truth=dict(truth), faults=faults, goals=goals
    )
    simulation.run()
    engine = simulation.engines[0]
    named = {need.on for need in graph.needs}
    for cob, goal in goals.items():
        if cob in engine.unsettled():
            assert engine.chain(cob)
        elif goal != STAY:
            assert engine.state(cob) == goal
        elif cob not in named:
            assert engine.state(cob) == truth[cob]
        assert engine.blocked(cob) is None or engine.blocked(cob).kind is not WaitKind.RUNNING  # type: ignore[union-attr]
