"""Failures, hosts that vanish and return, interrupts, and input that does not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cobweb.engine import (
    CheckDropped,
    Engine,
    Halt,
    HostReturned,
    HostVanished,
    StateDoubted,
    TransitionDropped,
)
from cobweb.errors import ProtocolError
from cobweb.model import CobId
from tests.support.drive import Drive
from tests.support.graphs import graph_of, type_of
from tests.support.words import requires

PAIR = graph_of("x/a y/b", "x/a down>up y/b up")


def gone(drive: Drive, host: str) -> list[str]:
    """Let a host vanish."""
    return drive.step(HostVanished(host=host))


def back(drive: Drive, host: str) -> list[str]:
    """Let a host come back."""
    return drive.step(HostReturned(host=host))


def test_a_failed_transition_leads_to_one_check_and_no_further_transition() -> None:
    """The object is unknown, then has its true state, and stays failed for this run."""
    drive = Drive(graph_of("x/a"), {"x/a": "down"})
    assert drive.ended("x/a", ok=False) == ["x/a is unknown (transition)", "x/a check"]
    assert drive.checked("x/a", "down") == ["x/a is down (check)"]
    assert drive.engine.idle()
    assert drive.engine.unsettled() == ("x/a",)
    assert drive.why("x/a") == "x/a failed down"


def test_a_failed_object_still_lends_the_state_that_it_is_in() -> None:
    """What does not depend on the failure goes on."""
    drive = Drive(graph_of("x/a x/b", "x/a down>up x/b down"), {"x/a": "down", "x/b": "up"})
    drive.ended("x/b", ok=False)
    assert drive.checked("x/b", "down")[-1] == "x/a down -> up [x/b down]"


def test_a_failed_transition_keeps_its_locks_until_it_has_been_checked() -> None:
    """Nobody knows yet what it left behind."""
    drive = Drive(PAIR, {"x/a": "down", "y/b": "up"})
    drive.ended("x/a", ok=False)
    assert drive.engine.locks() == (("y/b", "x/a", "up"),)
    assert drive.checked("x/a", "down")[-1] == "x/a releases y/b up"


def test_a_failed_check_leaves_the_object_unknown_and_failed() -> None:
    """Unknown is left by a check alone, and this one failed."""
    drive = Drive(PAIR, {"x/a": "down"})
    assert drive.checked("y/b", None) == []
    assert drive.why("x/a") == "x/a lock y/b up, y/b failed unknown"


def test_a_vanished_host_blocks_its_own_objects_and_what_needs_them() -> None:
    """Its objects start nothing and grant nothing new."""
    graph = graph_of("x/a y/b z/c", "x/a down>up y/b up")
    drive = Drive(graph, {"y/b": "up", "z/c": "down"})
    assert gone(drive, "y") == []
    assert drive.checked("x/a", "down")[1:] == ["x/a asks y/b up"]
    assert drive.ended("z/c") == ["z/c is up (transition)"]
    assert drive.why("x/a") == "x/a lock y/b up, y/b unreachable"
    assert drive.engine.blocked(CobId("z/c")) is None


def test_a_vanished_host_asks_for_its_locks_back() -> None:
    """Nobody may start on the word of an object that cannot be asked."""
    graph = graph_of("x/a x/w y/b", "x/a down>up y/b up", "x/a down>up x/w up")
    drive = Drive(graph, {"x/a": "down", "x/w": "down", "y/b": "up"})
    assert gone(drive, "y") == [
        "x/a is recalled from y/b up",
        "x/a releases y/b up",
        "x/a asks y/b up",
    ]
    assert drive.ended("x/w")[1:] == ["x/a gets x/w up"]
    assert back(drive, "y") == ["y/b is unknown (check)", "y/b check"]
    assert drive.checked("y/b", "up")[-1] == "x/a down -> up [x/w up] [y/b up]"


def test_a_transition_on_a_vanished_host_keeps_its_locks() -> None:
    """What it did may still go on: its needs stay in force until it has been checked."""
    drive = Drive(PAIR, {"x/a": "down", "y/b": "up"})
    assert gone(drive, "x") == ["x/a is unknown (transition)"]
    assert gone(drive, "x") == []
    assert drive.engine.locks() == (("y/b", "x/a", "up"),)
    assert drive.why("x/a") == "x/a unreachable"
    assert back(drive, "x") == ["x/a check"]
    assert drive.checked("x/a", "up")[1:] == ["x/a releases y/b up"]


def test_a_holder_that_vanished_keeps_the_locked_object_waiting_and_is_named() -> None:
    """The chain ends in the unreachable host."""
    graph = graph_of("x/a y/b z/c", "x/a down>up y/b up", "z/c down>up y/b down")
    drive = Drive(graph, {"x/a": "down", "y/b": "up"})
    gone(drive, "x")
    drive.checked("z/c", "down")
    assert drive.engine.idle()
    assert drive.why("z/c") == "z/c lock y/b down, y/b holders x/a up, x/a unreachable"


def test_an_idle_holder_on_a_vanished_host_takes_its_requests_back() -> None:
    """Nothing runs there, so nothing is needed for it."""
    graph = graph_of("x/a y/b", "x/a down>up y/b down")
    drive = Drive(graph, {"x/a": "down", "y/b": "up"})
    assert gone(drive, "x") == ["x/a releases y/b down"]
    assert drive.run() == ["y/b down -> up"]


def test_the_late_end_of_a_transition_on_a_vanished_host_is_still_news() -> None:
    """A report that was on its way counts; the host stays unreachable."""
    drive = Drive(PAIR, {"x/a": "down", "y/b": "up"})
    gone(drive, "x")
    assert drive.ended("x/a") == ["x/a is up (transition)", "x/a releases y/b up"]
    failing = Drive(PAIR, {"x/a": "down", "y/b": "up"})
    gone(failing, "x")
    assert failing.ended("x/a", ok=False) == ["x/a releases y/b up"]


def test_the_late_end_of_a_check_on_a_vanished_host_is_still_news() -> None:
    """A check that found something did; one that found nothing is no failure of the object."""
    drive = Drive(graph_of("x/a x/b"))
    gone(drive, "x")
    assert drive.checked("x/a", "down") == ["x/a is down (check)"]
    assert drive.checked("x/b", None) == []
    assert drive.why("x/b") == "x/b unreachable"


def test_an_object_that_comes_back_speaks_as_a_new_incarnation_once_checked() -> None:
    """Its neighbours can tell its new words from its old ones."""
    drive = Drive(PAIR, {"x/a": "down"}, owned={CobId("x/a")})
    gone(drive, "x")
    back(drive, "x")
    drive.checked("x/a", "down")
    first, *_, last = drive.sent
    assert (last.incarnation, last.kind) == (first.incarnation + 1, "request")


def test_after_a_halt_nothing_new_starts_and_running_ends_are_taken() -> None:
    """The first interrupt: let running transitions end, start neither transition nor check."""
    drive = Drive(graph_of("x/a x/b", "x/b down>up x/a up"), {"x/a": "down", "x/b": "down"})
    assert drive.step(Halt()) == []
    assert drive.ended("x/a") == ["x/a is up (transition)", "x/b gets x/a up"]
    assert drive.engine.idle()
    assert drive.why("x/b") == "x/b halted up"


def test_after_a_halt_a_failure_is_not_checked() -> None:
    """It stays unknown; the next run checks it."""
    drive = Drive(graph_of("x/a x/b"), {"x/a": "down"})
    drive.step(Halt())
    assert drive.ended("x/a", ok=False) == ["x/a is unknown (transition)"]
    gone(drive, "x")
    assert back(drive, "x") == []
    assert drive.why("x/b") == "x/b halted"


def test_a_dropped_transition_never_was() -> None:
    """It may be started again and does not count."""
    drive = Drive(graph_of("x/a"), {"x/a": "down"})
    assert drive.step(TransitionDropped(cob=CobId("x/a"))) == ["x/a down -> up"]
    assert drive.state("x/a") == "down"


def test_a_dropped_check_is_begun_again_unless_nothing_may_begin() -> None:
    """The object stays unknown; after a halt it waits for the next run."""
    drive = Drive(graph_of("x/a y/b"))
    dropped = CheckDropped(cob=CobId("x/a"))
    assert drive.step(dropped) == ["x/a check"]
    drive.step(Halt())
    assert drive.step(dropped) == []
    assert drive.why("x/a") == "x/a halted"
    gone(drive, "y")
    assert drive.step(CheckDropped(cob=CobId("y/b"))) == []
    assert drive.why("y/b") == "y/b unreachable"


MISFITS: dict[str, Callable[[Drive], object]] = {
    "no check of x/a is under way": lambda drive: drive.checked("x/a", "up"),
    "no check of x/a is": lambda drive: drive.step(CheckDropped(cob=CobId("x/a"))),
    "no transition of x/a is under way": lambda drive: drive.ended("x/a"),
    "x/b has no state 'odd'": lambda drive: drive.checked("x/b", "odd"),
    "x/b has no state 'unknown'": lambda drive: drive.checked("x/b", "unknown"),
    "no transition of x/b is under way": lambda drive: drive.step(
        TransitionDropped(cob=CobId("x/b"))
    ),
    "x/z is not owned": lambda drive: drive.checked("x/z", "up"),
    "x/q is not owned": lambda drive: drive.engine.blocked(CobId("x/q")),
    "no object of host q": lambda drive: drive.step(HostVanished(host="q")),
    "host x had not vanished": lambda drive: drive.step(HostReturned(host="x")),
    "x/b is not at rest in a known state": lambda drive: drive.step(StateDoubted(cob=CobId("x/b"))),
    "was started before": lambda drive: drive.engine.start({}),
}


def test_a_doubted_object_is_checked_and_goes_on_from_there() -> None:
    """The lock on what is not there any more is called back before it comes to be again."""
    drive = Drive(graph_of("x/a x/b", *requires("x/b", "x/a")), {"x/a": "up", "x/b": "up"})
    assert drive.step(StateDoubted(cob=CobId("x/a"))) == ["x/a is unknown (check)", "x/a check"]
    assert "x/a down -> up" in drive.checked("x/a", "down")[-1]
    drive.run()
    assert drive.engine.unsettled() == ()


def test_what_is_doubted_while_nothing_new_is_started_stays_unknown() -> None:
    drive = Drive(graph_of("x/a"), {"x/a": "up"})
    drive.step(Halt())
    assert drive.step(StateDoubted(cob=CobId("x/a"))) == ["x/a is unknown (check)"]
    assert drive.engine.busy() == frozenset()


@pytest.mark.parametrize("message", MISFITS)
def test_input_that_does_not_fit_is_refused_and_changes_nothing(message: str) -> None:
    """Illegal input raises and changes nothing."""
    drive = Drive(graph_of("x/a x/b"), {"x/a": "up"})
    before = (drive.engine.states(), drive.engine.busy(), drive.engine.locks())
    with pytest.raises(ProtocolError, match=message):
        MISFITS[message](drive)
    assert (drive.engine.states(), drive.engine.busy(), drive.engine.locks()) == before
    assert drive.checked("x/b", "up") == ["x/b is up (check)"]


def test_an_engine_has_to_be_started() -> None:
    """Without the journal's states nothing can be decided."""
    with pytest.raises(ProtocolError, match="not started"):
        Engine(PAIR).step(Halt())


def test_a_state_that_the_type_does_not_know_is_unknown() -> None:
    """A type may have changed since the journal was written."""
    assert Drive(graph_of("x/a"), {"x/a": "resting"}).first == ["x/a check"]


def test_what_is_not_movable_is_checked_and_lends_its_state_but_stays() -> None:
    """A run with a limit to some objects does not touch the others."""
    graph = graph_of("x/a x/b x/c", "x/a down>up x/b up", "x/c down>up x/b down")
    states = {"x/a": "down", "x/b": "up", "x/c": "down"}
    drive = Drive(graph, states, movable={CobId("x/a"), CobId("x/c")})
    assert drive.lines[-1] == "x/a down -> up [x/b up]"
    drive.run()
    assert drive.why("x/c") == "x/c lock x/b down, x/b excluded down"
    assert Drive(graph_of("x/a"), {"x/a": "down"}, movable=set()).why("x/a") == "x/a excluded up"


def test_a_goal_overrides_the_preferred_state() -> None:
    """What is removed goes to its `remove` state."""
    drive = Drive(graph_of("x/a"), {"x/a": "up"}, goals={CobId("x/a"): "down"})
    assert drive.run() == ["x/a up -> down"] or drive.state("x/a") == "down"
    assert drive.engine.unsettled() == ()


def test_an_object_that_is_pushed_to_and_fro_stops_and_names_its_counterpart() -> None:
    """X needs Y down to go up and Y needs X down to go up: a run always ends."""
    graph = graph_of("x/a x/b", "x/a *>up x/b down", "x/b *>up x/a down")
    drive = Drive(graph, {"x/a": "down", "x/b": "down"})
    drive.run()
    assert drive.engine.idle()
    chain = drive.engine.chain(drive.engine.unsettled()[0])
    assert chain[-1].kind == "churn"
    assert chain[-1].on is not None


def test_objects_that_change_their_mind_for_ever_stop_too() -> None:
    """A lock whose own needs ask for the asker is asked for and taken back without end."""
    graph = graph_of("x/a x/b", "x/a down>up x/b down", "x/b down x/a down")
    drive = Drive(graph, {"x/a": "down", "x/b": "down"})
    drive.run()
    assert drive.engine.idle()
    assert "churn" in drive.why("x/a")


def test_needs_for_two_states_of_one_object_are_never_met_and_named() -> None:
    """The step waits for a lock that it can't have."""
    graph = graph_of("x/a x/b", "x/a down>up x/b up", "x/a down>up x/b down")
    drive = Drive(graph, {"x/a": "down", "x/b": "down"})
    drive.run()
    assert drive.why("x/a").startswith("x/a lock x/b up, x/b requested x/a down")


def test_lock_needs_for_two_states_of_one_object_are_never_met_and_named() -> None:
    """No lock is lent, and the reason is the second need."""
    graph = graph_of("x/a x/b x/c", "x/c down>up x/a up", "x/a up x/b up", "x/a up x/b down")
    drive = Drive(graph, {"x/a": "up", "x/b": "down", "x/c": "down"})
    drive.run()
    assert drive.why("x/c").startswith("x/c lock x/a up, x/a lock x/b up, x/b requested x/a down")


def test_a_circle_is_told_with_the_link_that_closes_it() -> None:
    """P5: the chain ends in a printed cycle."""
    graph = graph_of("x/a x/b", "x/a down>up x/b up", "x/b down>up x/a up")
    drive = Drive(graph, {"x/a": "down", "x/b": "down"})
    assert drive.why("x/a") == "x/a lock x/b up, x/b lock x/a up"
    assert drive.engine.chain(CobId("x/b"))[-1].on == "x/b"


def test_a_chain_leads_through_locks_that_are_lent_on_top_of_locks() -> None:
    """Who can't give a lock back yet names its own holder."""
    needs = ("x/a down>up x/b up", "x/b up x/d up", "x/z down>up x/d down")
    drive = Drive(graph_of("x/a x/b x/d x/z", *needs), {"x/a": "down", "x/b": "up", "x/d": "up"})
    drive.checked("x/z", "down")
    assert drive.why("x/z") == (
        "x/z lock x/d down, x/d holders x/b up, x/b holders x/a up, x/a running"
    )


def test_a_chain_leads_through_an_object_that_is_kept_where_it_wants_to_be() -> None:
    """Who is at its goal and lends it may still be what others wait for."""
    three = type_of("a b c", "a>b b>a b>c", "c")
    cobs = {"x/c": three, "x/d": three, "x/h": three, "x/m": three, "x/w": three}
    needs = ("x/h b>c x/c c", "x/h b>c x/w c", "x/c c x/d b", "x/m b>c x/d c")
    drive = Drive(graph_of(cobs, *needs), {"x/c": "c", "x/h": "b", "x/m": "b"})
    drive.checked("x/w", None)
    drive.checked("x/d", "b")
    assert drive.engine.idle()
    assert drive.why("x/m") == (
        "x/m lock x/d c, x/d requested x/c b, x/c requested x/h c, x/h lock x/w c, "
        "x/w failed unknown"
    )


def test_old_locks_on_two_states_are_recalled_where_they_do_not_fit() -> None:
    """The world may have moved while nobody looked."""
    graph = graph_of("x/a x/b x/c x/w", "x/a down>up x/b up", "x/a down>up x/w up")
    locks = (("x/b", "x/a", "up"), ("x/b", "x/c", "down"))
    states = {"x/a": "down", "x/b": "down"}
    drive = Drive(graph, states, locks=locks, incarnation=2)
    assert drive.lines.count("x/a is recalled from x/b up") == 1
    assert "x/c is recalled from x/b down" not in drive.lines
    assert drive.checked("x/c", "up")[1:] == ["x/c releases x/b down", "x/b down -> up"]


def test_a_chain_of_an_object_without_trouble_is_empty() -> None:
    """Nothing is waited for."""
    assert Drive(graph_of("x/a"), {"x/a": "up"}).engine.chain(CobId("x/a")) == ()


def test_a_check_that_failed_and_then_did_not_is_forgotten() -> None:
    """Nothing was left half done: the object goes on when its host has come back."""
    drive = Drive(graph_of("x/a x/b"), {"x/b": "up"})
    drive.checked("x/a", None)
    gone(drive, "x")
    back(drive, "x")
    assert drive.checked("x/a", "down")[-1] == "x/a down -> up"
