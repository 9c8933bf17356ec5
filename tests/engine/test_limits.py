"""Limits on transitions that are in flight."""

from __future__ import annotations

from typing import Any

from cobweb.engine import HostVanished
from cobweb.model import CobId, Limit, LimitGroup
from tests.support.drive import Drive
from tests.support.graphs import graph_of


def limit(*groups: str, bound: int = 1, **step: Any) -> Limit:
    """Make a limit; groups read `name: id id`."""
    made = tuple(
        LimitGroup(
            name=group.partition(":")[0],
            members=frozenset(CobId(cob) for cob in group.partition(":")[2].split()),
            bound=bound,
        )
        for group in groups
    )
    return Limit(name="rolling", groups=made, **step)


ALL = "x/a x/b x/c"
DOWN = {"x/a": "down", "x/b": "down", "x/c": "down"}


def test_no_more_than_the_bound_are_in_flight_and_the_next_is_the_smallest_id() -> None:
    """IN_FLIGHT bounds matching transitions in flight per group."""
    graph = graph_of(ALL, limits=(limit(f": {ALL}"),))
    drive = Drive(graph, DOWN)
    assert drive.engine.busy() == {"x/a"}
    assert drive.why("x/b") == "x/b limit x/a up, x/a running"
    assert drive.engine.blocked(CobId("x/b")).detail == "rolling"  # type: ignore[union-attr]
    assert drive.run() == ["x/b down -> up", "x/c down -> up"]
    assert drive.engine.unsettled() == ()


def test_transitions_that_a_limit_does_not_speak_of_are_free() -> None:
    """`source` and `dest` select."""
    stops = limit(f": {ALL}", source="up", dest="down")
    drive = Drive(graph_of(ALL, limits=(stops,)), DOWN)
    assert drive.engine.busy() == {"x/a", "x/b", "x/c"}


def test_each_group_counts_by_itself() -> None:
    """One bound per value of the `per` variable."""
    racks = limit("r1: x/a x/b", "r2: x/c y/other")
    drive = Drive(graph_of(ALL, limits=(racks,)), DOWN)
    assert drive.engine.busy() == {"x/a", "x/c"}
    assert drive.engine.blocked(CobId("x/b")).detail == "rolling (r1)"  # type: ignore[union-attr]


def test_a_transition_on_a_vanished_host_still_counts() -> None:
    """It may still go on."""
    graph = graph_of("x/a y/b", limits=(limit(": x/a y/b"),))
    drive = Drive(graph, {"x/a": "down", "y/b": "down"})
    assert drive.step(HostVanished(host="x")) == ["x/a is unknown (transition)"]
    assert drive.why("y/b") == "y/b limit x/a up, x/a unreachable"


def test_a_waiter_that_does_not_need_the_room_any_more_passes_it_on() -> None:
    """Room is never lost on somebody who went away."""
    graph = graph_of(f"{ALL} y/d", limits=(limit(f": {ALL} y/d"),))
    drive = Drive(graph, {**DOWN, "y/d": "down"})
    drive.ended("x/a")
    drive.step(HostVanished(host="x"))
    assert drive.why("y/d") == "y/d limit x/b up, x/b unreachable"
    assert drive.ended("x/b")[-1] == "y/d down -> up"


def test_two_limits_are_both_kept() -> None:
    """Who waits for one limit waits then for the other."""
    first = limit(": x/a x/b")
    second = limit(": x/b x/c")
    drive = Drive(graph_of(ALL, limits=(first, second)), DOWN)
    assert drive.engine.busy() == {"x/a", "x/c"}
    drive.ended("x/a")
    assert drive.engine.busy() == {"x/c"}
    assert drive.ended("x/c")[-1] == "x/b down -> up"
