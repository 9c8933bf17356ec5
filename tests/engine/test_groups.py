"""Needs for a group of states: any of them will do, and who is in one of them stays there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cobweb.engine import STAY, HostReturned, HostVanished, Receive
from cobweb.model import CobId, CobType, State
from tests.support.drive import Drive
from tests.support.graphs import SIMPLE, graph_of, type_of

LIFE = replace(
    type_of(
        "absent configured ready up",
        "absent>configured configured>ready ready>up up>ready ready>absent configured>absent",
        "up",
        "absent",
    ),
    groups={
        "stopped": ("ready", "configured", "absent"),
        "present": ("configured", "ready", "up"),
        "ends": ("up", "absent"),
    },
)
ASKS = "x/a down>up x/s stopped"


def life(*needs: str, cobs: str = "x/a") -> tuple[dict[str, CobType], list[str]]:
    """Return types of an object `x/s` with groups, and of simple ones beside it, and needs."""
    simple = type_of("down up", "down>up up>down", "up", "down")
    return {"x/s": LIFE} | dict.fromkeys(cobs.split(), simple), list(needs)


def drive(states: dict[str, State], *needs: str, cobs: str = "x/a", **options: object) -> Drive:
    """Start an engine over `x/s` and others."""
    types, needed = life(*needs, cobs=cobs)
    return Drive(graph_of(types, *needed), states, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["ready", "configured", "absent"])
def test_an_object_in_a_state_of_the_group_lends_it_and_stays(state: State) -> None:
    """The words on the way name the group; the object is locked in the state that it is in."""
    story = drive({"x/a": "down", "x/s": state}, ASKS)
    assert story.first[2:] == [
        "x/a asks x/s stopped",
        "x/a gets x/s stopped",
        "x/a down -> up [x/s stopped]",
    ]
    assert story.engine.locks() == ((CobId("x/s"), CobId("x/a"), "stopped"),)
    assert story.engine.target(CobId("x/s")) == state


def test_an_object_in_none_of_them_goes_to_the_nearest() -> None:
    """And back to its preferred state when nobody asks any more."""
    story = drive({"x/a": "down", "x/s": "up"}, ASKS)
    assert story.first[2:] == ["x/a asks x/s stopped", "x/s up -> ready"]
    assert story.ended("x/s")[1:] == ["x/a gets x/s stopped", "x/a down -> up [x/s stopped]"]
    assert story.ended("x/a")[1:] == ["x/a releases x/s stopped", "x/s ready -> up"]


def test_of_two_that_are_as_near_the_first_of_the_group_is_meant() -> None:
    """From `ready`, `up` and `absent` are one step away each."""
    assert LIFE.stands_for("ends", "ready") == "up"
    assert replace(LIFE, groups={"ends": ("absent", "up")}).stands_for("ends", "ready") == "absent"
    assert replace(LIFE, groups={"far": ("up", "configured")}).stands_for("far", "absent") == (
        "configured"
    )


def test_where_no_way_leads_into_the_group_the_requester_is_told() -> None:
    """The first state of the group stands for it then."""
    stuck = replace(type_of("a b c", "c>b", "b"), groups={"g": ("a", "c")})
    simple = type_of("down up", "down>up up>down", "up", "down")
    graph = graph_of({"x/s": stuck, "x/a": simple}, "x/a down>up x/s g")
    story = Drive(graph, {"x/a": "down", "x/s": "b"})
    assert story.engine.target(CobId("x/s")) == "a"
    assert story.why("x/a") == "x/a lock x/s g, x/s no-way a"


def test_a_request_for_a_group_is_counted_anew_when_the_object_gets_into_another_state() -> None:
    """A check finds it elsewhere: where it is now is as good."""
    story = drive({"x/a": "down"}, ASKS)
    assert story.first[1:] == ["x/s check", "x/a asks x/s stopped"]
    assert story.engine.target(CobId("x/s")) == "ready"
    assert story.checked("x/s", "configured")[1] == "x/a gets x/s stopped"


def test_who_asks_for_one_state_of_it_takes_the_others_along() -> None:
    """`up` is neither asked for: both are content with `ready`, and go on together."""
    needs = (ASKS, "x/b down>up x/s ready")
    story = drive({"x/a": "down", "x/b": "down", "x/s": "up"}, *needs, cobs="x/a x/b")
    assert story.first[-1] == "x/s up -> ready"
    assert story.ended("x/s")[3:] == [
        "x/a down -> up [x/s stopped]",
        "x/b down -> up [x/s ready]",
    ]


def test_a_request_of_higher_priority_moves_it_within_the_group() -> None:
    """`absent` comes first; the request for the group is met there as well."""
    needs = (ASKS, "x/b down>up x/s absent")
    states = {"x/a": "down", "x/b": "down", "x/s": "up"}
    story = drive(states, *needs, cobs="x/a x/b")
    assert story.first[-1] == "x/s up -> ready"
    assert story.run()[:3] == [
        "x/s ready -> absent",
        "x/a down -> up [x/s stopped]",
        "x/b down -> up [x/s absent]",
    ]


def test_a_locked_object_does_not_move_within_the_group_either() -> None:
    """P2: it leaves its state when the lock has come back, though the group would hold there."""
    story = drive({"x/a": "down", "x/s": "ready"}, ASKS, "x/b down>up x/s absent", cobs="x/a x/b")
    assert story.checked("x/b", "down")[1:] == [
        "x/b asks x/s absent",
        "x/a is recalled from x/s stopped",
    ]
    assert story.state("x/s") == "ready"
    assert story.ended("x/a")[1:] == ["x/a releases x/s stopped", "x/s ready -> absent"]


def test_a_recalled_holder_gets_it_again_in_the_state_that_follows() -> None:
    """It waits for something else, so it gives the lock back, asks again, and is content there."""
    needs = ("x/a down>up x/s stopped", "x/a down>up x/b up", "x/b down>up x/s absent")
    story = drive({"x/a": "down", "x/s": "ready"}, *needs, cobs="x/a x/b")
    assert "x/a gets x/s stopped" in story.first
    assert story.checked("x/b", "down")[-4:] == [
        "x/a is recalled from x/s stopped",
        "x/a releases x/s stopped",
        "x/a asks x/s stopped",
        "x/s ready -> absent",
    ]
    assert story.run()[:2] == [
        "x/b down -> up [x/s absent]",
        "x/a down -> up [x/b up] [x/s stopped]",
    ]


def test_the_lock_needs_of_the_actual_state_apply() -> None:
    """`ready` may be lent only with `x/d` up; `configured` without more."""
    needs = (ASKS, "x/s ready x/d up")
    states = {"x/a": "down", "x/d": "up"}
    story = drive(states | {"x/s": "ready"}, *needs, cobs="x/a x/d")
    assert "x/s gets x/d up" in story.first
    story = drive(states | {"x/s": "configured"}, *needs, cobs="x/a x/d")
    assert not any("x/d up" in text for text in story.first)


def test_a_state_satisfies_a_need_for_a_group_that_has_it() -> None:
    """And a group one for a larger one: one word is said for both."""
    story = drive({"x/a": "down", "x/s": "up"}, ASKS, "x/a down>up x/s configured")
    assert story.first[2] == "x/a asks x/s configured"
    story = drive({"x/a": "down", "x/s": "up"}, "x/a down>up x/s present", "x/a *>up x/s up")
    assert story.first[2:4] == ["x/a asks x/s up", "x/a gets x/s up"]


def test_of_two_groups_the_first_common_state_is_asked_for() -> None:
    """In the order of the group whose name comes first."""
    story = drive({"x/a": "down", "x/s": "up"}, ASKS, "x/a down>up x/s present")
    assert story.first[2] == "x/a asks x/s configured"
    assert story.run()[1:3] == ["x/s absent -> configured", "x/a down -> up [x/s configured]"]


def test_needs_without_a_common_state_are_never_met_and_named() -> None:
    """As with two states of one object."""
    story = drive({"x/a": "down", "x/s": "ready"}, ASKS, "x/a down>up x/s up")
    assert story.run() == []
    assert story.why("x/a") == "x/a lock x/s up, x/s requested x/a ready"


def test_what_is_lent_binds_before_what_a_step_asks_for() -> None:
    """A lock on a group that is lent on is not given up for one of its states."""
    needs = (
        *("x/a up x/s present", "x/a up>down x/s ready"),
        *("x/b down>up x/a up", "x/c down>up x/a down"),
    )
    states = {"x/a": "up", "x/b": "down", "x/c": "up", "x/s": "up"}
    story = drive(states, *needs, cobs="x/a x/b x/c")
    assert "x/b down -> up [x/a up]" in story.lines
    assert not any("releases x/s" in text for text in story.lines)
    assert "x/a releases x/s present" in story.ended("x/b")


def test_an_old_lock_on_a_group_holds_the_object_where_it_is_found() -> None:
    """The journal has the group's name; the state is what the object is in."""
    locks = (("x/s", "x/a", "stopped"),)
    story = drive({"x/s": "configured"}, ASKS, locks=locks)
    assert story.first[0] == "x/a gets x/s stopped"
    assert story.engine.target(CobId("x/s")) == "configured"
    assert story.checked("x/a", "up")[1:] == [
        "x/a releases x/s stopped",
        "x/s configured -> ready",
    ]


def test_an_old_lock_is_filed_when_the_object_has_been_checked() -> None:
    """Until then nobody knows which state it is on."""
    story = drive({"x/a": "down"}, ASKS, locks=(("x/s", "x/a", "stopped"),))
    found = story.checked("x/s", "absent")
    assert found[0] == "x/s is absent (check)"
    assert story.engine.locks() == ((CobId("x/s"), CobId("x/a"), "stopped"),)
    assert story.engine.target(CobId("x/s")) == "absent"


def test_a_message_from_elsewhere_names_the_group() -> None:
    """The engine of the locked object knows which state that is; the other one need not."""
    types, needs = life(ASKS)
    graph = graph_of(types, *needs)
    one = Drive(graph, {"x/a": "down"}, owned={CobId("x/a")})
    other = Drive(graph, {"x/s": "configured"}, owned={CobId("x/s")}, goals={CobId("x/s"): STAY})
    assert one.first[-1] == "x/a sends x/s request stopped"
    answer = other.step(Receive(message=one.sent[-1]))
    assert answer == ["x/a gets x/s stopped", "x/s sends x/a grant stopped"]
    assert one.step(Receive(message=other.sent[-1])) == ["x/a down -> up [x/s stopped]"]


def test_a_lock_that_is_asked_back_stays_so_where_the_object_is_found_elsewhere_in_the_group() -> (
    None
):
    """Its host was lost while the holder moves: it is asked back once, and ends when that ends."""
    types = {"x/a": SIMPLE, "y/s": LIFE, "y/t": SIMPLE}
    graph = graph_of(types, "x/a down>up y/s stopped", "y/s absent y/t up")
    story = Drive(graph, {"x/a": "down", "y/s": "ready", "y/t": "up"})
    assert story.first[-1] == "x/a down -> up [y/s stopped]"
    assert "x/a is recalled from y/s stopped" in story.step(HostVanished(host="y"))
    story.step(HostReturned(host="y"))
    story.checked("y/t", "up")
    assert "y/s gets y/t up" in story.checked("y/s", "absent")
    assert not any("recalled" in text for text in story.lines[-3:])
    assert "x/a releases y/s stopped" in story.ended("x/a")
