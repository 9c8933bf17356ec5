"""Limits on what is in flight and on what is out of its preferred state."""

from __future__ import annotations

from typing import Any

from cobweb.engine import HostVanished
from cobweb.model import (
    Cob,
    CobId,
    CobType,
    Graph,
    Limit,
    LimitGroup,
    LimitScope,
    Nothing,
    Transition,
)
from tests.support.drive import Drive
from tests.support.graphs import graph_of


def limit(scope: LimitScope, *groups: str, bound: int = 1, **step: Any) -> Limit:
    """Make a limit; groups read `name: id id`."""
    made = tuple(
        LimitGroup(
            name=group.partition(":")[0],
            members=frozenset(CobId(cob) for cob in group.partition(":")[2].split()),
            bound=bound,
        )
        for group in groups
    )
    return Limit(name="rolling", scope=scope, groups=made, **step)


ALL = "x/a x/b x/c"
DOWN = {"x/a": "down", "x/b": "down", "x/c": "down"}


def test_no_more_than_the_bound_are_in_flight_and_the_next_is_the_smallest_id() -> None:
    """IN_FLIGHT bounds matching transitions in flight per group."""
    graph = graph_of(ALL, limits=(limit(LimitScope.IN_FLIGHT, f": {ALL}"),))
    drive = Drive(graph, DOWN)
    assert drive.engine.busy() == {"x/a"}
    assert drive.why("x/b") == "x/b limit x/a up, x/a running"
    assert drive.engine.blocked(CobId("x/b")).detail == "rolling"  # type: ignore[union-attr]
    assert drive.run() == ["x/b down -> up", "x/c down -> up"]
    assert drive.engine.unsettled() == ()


def test_transitions_that_a_limit_does_not_speak_of_are_free() -> None:
    """`source` and `dest` select."""
    stops = limit(LimitScope.IN_FLIGHT, f": {ALL}", source="up", dest="down")
    drive = Drive(graph_of(ALL, limits=(stops,)), DOWN)
    assert drive.engine.busy() == {"x/a", "x/b", "x/c"}


def test_each_group_counts_by_itself() -> None:
    """One bound per value of the `per` variable."""
    racks = limit(LimitScope.IN_FLIGHT, "r1: x/a x/b", "r2: x/c y/other")
    drive = Drive(graph_of(ALL, limits=(racks,)), DOWN)
    assert drive.engine.busy() == {"x/a", "x/c"}
    assert drive.engine.blocked(CobId("x/b")).detail == "rolling (r1)"  # type: ignore[union-attr]


def test_only_so_many_leave_their_preferred_state_and_coming_back_is_free() -> None:
    """OUT_OF_PREFERRED: the next leaves when one has come back."""
    cobs = "x/a x/b x/p x/q"
    needs = ("x/p outdated>up x/a down", "x/q outdated>up x/b down")
    out = limit(LimitScope.OUT_OF_PREFERRED, ": x/a x/b")
    graph = graph_of(cobs, *needs, limits=(out,))
    drive = Drive(graph, {"x/a": "up", "x/b": "up", "x/p": "outdated", "x/q": "outdated"})
    assert drive.engine.busy() == {"x/a"}
    assert drive.why("x/q") == "x/q lock x/b down, x/b limit x/a down, x/a running"
    assert drive.run() == [
        "x/p outdated -> up [x/a down]",
        "x/a down -> up",
        "x/b up -> down",
        "x/q outdated -> up [x/b down]",
        "x/b down -> up",
    ]


def test_who_is_out_already_counts_and_may_come_back() -> None:
    """Objects out count from the start."""
    out = limit(LimitScope.OUT_OF_PREFERRED, f": {ALL}")
    drive = Drive(graph_of(ALL, limits=(out,)), DOWN)
    assert drive.engine.busy() == {"x/a", "x/b", "x/c"}


def test_a_transition_on_a_vanished_host_still_counts() -> None:
    """It may still go on."""
    graph = graph_of("x/a y/b", limits=(limit(LimitScope.IN_FLIGHT, ": x/a y/b"),))
    drive = Drive(graph, {"x/a": "down", "y/b": "down"})
    assert drive.step(HostVanished(host="x")) == ["x/a is unknown (transition)"]
    assert drive.why("y/b") == "y/b limit x/a up, x/a unreachable"


def test_a_waiter_that_does_not_need_the_room_any_more_passes_it_on() -> None:
    """Room is never lost on somebody who went away."""
    graph = graph_of(f"{ALL} y/d", limits=(limit(LimitScope.IN_FLIGHT, f": {ALL} y/d"),))
    drive = Drive(graph, {**DOWN, "y/d": "down"})
    drive.ended("x/a")
    drive.step(HostVanished(host="x"))
    assert drive.why("y/d") == "y/d limit x/b up, x/b unreachable"
    assert drive.ended("x/b")[-1] == "y/d down -> up"


def test_two_limits_are_both_kept() -> None:
    """Who waits for one limit waits then for the other."""
    first = limit(LimitScope.IN_FLIGHT, ": x/a x/b")
    second = limit(LimitScope.IN_FLIGHT, ": x/b x/c")
    drive = Drive(graph_of(ALL, limits=(first, second)), DOWN)
    assert drive.engine.busy() == {"x/a", "x/c"}
    drive.ended("x/a")
    assert drive.engine.busy() == {"x/c"}
    assert drive.ended("x/c")[-1] == "x/b down -> up"


def grouped(ids: str) -> Any:
    """Make a graph of objects that run in two states, and go on from the older one by a stop."""
    steps = [("down", "up"), ("up", "down"), ("outdated", "down")]
    kind = CobType(
        name="simple",
        states=("outdated", "down", "up"),
        preferred="up",
        remove="down",
        groups={"running": ("up", "outdated")},
        check=Nothing(),
        transitions=tuple(Transition(source=a, dest=b, action=Nothing()) for a, b in steps),
    )
    cobs = {CobId(cob): Cob(id=CobId(cob), type=kind) for cob in ids.split()}
    group = LimitGroup(name="", members=frozenset(cobs), bound=1)
    rolling = Limit(
        name="rolling", scope=LimitScope.OUT_OF_GROUP, states="running", groups=(group,)
    )
    return Graph(cobs=cobs, limits=(rolling,))


def test_what_runs_by_an_older_content_leaves_its_group_one_by_one() -> None:
    """OUT_OF_GROUP: who is outdated still runs, and only so many stop at once."""
    drive = Drive(grouped(ALL), dict.fromkeys(ALL.split(), "outdated"))
    assert drive.engine.busy() == {"x/a"}
    assert (
        drive.run()
        == [
            step for cob in ALL.split() for step in (f"{cob} outdated -> down", f"{cob} down -> up")
        ][1:]
    )


def test_who_is_out_of_the_group_comes_in_freely_and_takes_room() -> None:
    drive = Drive(grouped(ALL), {"x/a": "outdated", "x/b": "down", "x/c": "down"})
    assert drive.engine.busy() == {"x/b", "x/c"}
    assert drive.why("x/a") == "x/a limit x/b down, x/b running"
    assert drive.run()[-2:] == ["x/a outdated -> down", "x/a down -> up"]


def test_who_goes_out_of_the_group_for_good_is_out_on_the_way_only() -> None:
    """All of them are to stop: one by one, and nobody waits for ever."""
    drive = Drive(
        grouped(ALL),
        dict.fromkeys(ALL.split(), "up"),
        goals=dict.fromkeys(map(CobId, ALL.split()), "down"),
    )
    assert drive.engine.busy() == {"x/a"}
    assert drive.run() == [f"{cob} up -> down" for cob in ALL.split()][1:]
    assert drive.engine.unsettled() == ()
