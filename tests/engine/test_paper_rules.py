"""One test per rule of the COB paper, sections 5.1 to 5.4; the numbers are the paper's."""

from __future__ import annotations

from cobweb.model import CobId
from tests.support.drive import Drive
from tests.support.graphs import graph_of, type_of

STOP_BEFORE = "x/a up>down x/b down"
START_AFTER = "x/a down>up x/b up"


def test_5_1_unknown_is_left_by_check_alone() -> None:
    """5.1: `unknown` signals that check() has to be called to determine the true state."""
    drive = Drive(graph_of("x/a"))
    assert drive.first == ["x/a check"]
    assert drive.checked("x/a", "up") == ["x/a is up (check)"]


def test_5_1_a_target_may_lie_behind_intermediate_states() -> None:
    """5.1: for reaching a target a COB can go through multiple intermediate states."""
    chain = type_of("a b c", "a>b b>c", "c")
    drive = Drive(graph_of({"x/a": chain}), {"x/a": "a"})
    assert [*drive.first[1:], *drive.run()] == ["x/a a -> b", "x/a b -> c"]


def test_5_1_the_preferred_state_is_the_target_of_its_own_accord() -> None:
    """5.1: change objects can have a preferred target state."""
    drive = Drive(graph_of("x/a"), {"x/a": "down"})
    assert drive.first[1:] == ["x/a down -> up"]


def test_5_2_neighbours_that_are_not_linked_do_not_meet() -> None:
    """5.2: interaction only happens with the next neighbours in the dependency graph."""
    drive = Drive(graph_of("x/a x/b y/c", START_AFTER), {"x/a": "down", "x/b": "up", "y/c": "down"})
    assert not [text for text in drive.lines if "y/c" in text and ("asks" in text or "x/" in text)]


def test_5_2_a_sparse_matrix_without_a_way_leaves_the_object_where_it_is() -> None:
    """5.2, 5.4: steps 4 and 5 are skipped where no transition leads to the target."""
    stuck = type_of("a b", "b>a", "b")
    drive = Drive(graph_of({"x/a": stuck}), {"x/a": "a"})
    assert drive.first == ["x/a is a (journal)"]
    assert drive.why("x/a") == "x/a no-way b"


def test_5_3_a_transition_dependency_is_locked_before_the_transition() -> None:
    """5.3: (A, x, y) <- (B, z): A has to acquire a state lock of B for z."""
    drive = Drive(graph_of("x/a x/b", START_AFTER), {"x/a": "down", "x/b": "up"})
    assert drive.first[2:] == [
        "x/a asks x/b up",
        "x/a gets x/b up",
        "x/a down -> up [x/b up]",
    ]


def test_5_3_a_lock_dependency_is_locked_before_a_lock_is_given() -> None:
    """5.3: (C, u) <- (D, v): to lock itself into u, C has to acquire a state lock of D for v."""
    graph = graph_of("x/a x/c x/d", "x/a down>up x/c up", "x/c up x/d up")
    drive = Drive(graph, {"x/a": "down", "x/c": "up", "x/d": "up"})
    assert drive.first[3:] == [
        "x/a asks x/c up",
        "x/c asks x/d up",
        "x/c gets x/d up",
        "x/a gets x/c up",
        "x/a down -> up [x/c up]",
    ]


def test_5_3_a_locked_object_does_not_switch_state_until_the_lock_is_released() -> None:
    """5.3: B will not switch state until A releases the lock."""
    graph = graph_of("x/a x/b x/c", START_AFTER, "x/c down>up x/b down")
    drive = Drive(graph, {"x/a": "down", "x/b": "up"})
    assert drive.checked("x/c", "down")[1:] == ["x/c asks x/b down", "x/a is recalled from x/b up"]
    assert drive.state("x/b") == "up"
    assert drive.ended("x/a")[1:] == ["x/a releases x/b up", "x/b up -> down"]


def test_5_4_a_request_makes_the_locked_object_go_into_the_state() -> None:
    """5.4: lock the expected state if already there or go into it otherwise and lock it."""
    drive = Drive(graph_of("x/a x/b", "x/a down>up x/b down"), {"x/a": "down", "x/b": "up"})
    assert drive.run() == ["x/a down -> up [x/b down]", "x/b down -> up"]
    assert "x/b up -> down" in drive.first


def test_5_4_rule_1_the_requested_state_of_higher_priority_is_the_target() -> None:
    """5.4 rule 1: of requests for different states the one with the higher priority is chosen."""
    needs = ("x/a down>up x/c up", "x/b down>up x/c down")
    drive = Drive(graph_of("x/a x/b x/c", *needs), {"x/a": "down", "x/b": "down"})
    drive.checked("x/c", "up")
    assert drive.engine.target(CobId("x/c")) == "down"
    assert "x/c up -> down" in drive.lines
    assert "x/a gets x/c up" not in drive.lines


def test_5_4_rule_1_without_requests_the_target_is_the_preferred_state() -> None:
    """5.4 rule 1: if no lock requests are present, the target state is the preferred state."""
    drive = Drive(graph_of("x/a"), {"x/a": "up"})
    assert drive.engine.target(CobId("x/a")) == "up"


def test_5_4_rule_2_lock_dependencies_are_asked_for_only_when_requested() -> None:
    """5.4 rule 2: in the target state it checks whether lock requests for it are present."""
    graph = graph_of("x/c x/d", "x/c up x/d up")
    drive = Drive(graph, {"x/c": "up", "x/d": "up"})
    assert not [text for text in drive.lines if "asks" in text]


def test_5_4_rule_3_all_requests_for_the_state_are_granted_at_once() -> None:
    """5.4 rule 3: it grants all state locks to other objects which are requesting this state."""
    needs = ("x/a down>up x/c up", "x/b down>up x/c up")
    drive = Drive(graph_of("x/a x/b x/c", *needs), {"x/a": "down", "x/b": "down", "x/c": "down"})
    assert drive.ended("x/c")[1:3] == ["x/a gets x/c up", "x/b gets x/c up"]


def test_5_4_rule_4_only_the_dependencies_of_the_next_step_are_asked_for() -> None:
    """5.4 rule 4: it issues requests for all its own dependencies of the transition."""
    chain = type_of("a b c", "a>b b>c", "c")
    graph = graph_of({"x/a": chain, "x/d": chain, "x/e": chain}, "x/a a>b x/d c", "x/a b>c x/e c")
    drive = Drive(graph, {"x/a": "a", "x/d": "c", "x/e": "c"})
    assert "x/a asks x/e c" not in drive.lines
    assert "x/a asks x/e c" in drive.ended("x/a")


def test_5_4_rule_5_the_transition_waits_for_the_last_lock() -> None:
    """5.4 rule 5: it triggers the transition when it holds all locks for it."""
    needs = ("x/a down>up x/b up", "x/a down>up x/c up")
    drive = Drive(graph_of("x/a x/b x/c", *needs), {"x/a": "down", "x/b": "up", "x/c": "down"})
    assert "x/a gets x/b up" in drive.first
    assert not [text for text in drive.first if text.startswith("x/a down ->")]
    assert drive.ended("x/c")[-1] == "x/a down -> up [x/b up] [x/c up]"


def test_5_4_rule_6_locks_not_needed_on_the_way_are_released() -> None:
    """5.4 rule 6: locks held which are not needed for the transition to target are released."""
    chain = type_of("a b c", "a>b b>c", "c")
    graph = graph_of({"x/a": chain, "x/d": chain}, "x/a a>b x/d c")
    drive = Drive(graph, {"x/a": "a", "x/d": "c"})
    assert drive.ended("x/a")[1] == "x/a releases x/d c"


def test_5_4_rule_7_at_the_target_without_requests_everything_is_released() -> None:
    """5.4 rule 7: all locks held are released and all requests are revoked."""
    graph = graph_of("x/a x/c x/d", "x/a down>up x/c up", "x/c up x/d up")
    drive = Drive(graph, {"x/a": "down", "x/c": "up", "x/d": "up"})
    assert drive.ended("x/a")[1:] == ["x/a releases x/c up", "x/c releases x/d up"]
    assert drive.engine.locks() == ()
