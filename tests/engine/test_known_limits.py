"""Where the engine stops although a legal order exists: the examples of docs/engine-limits.md.

Each is found by the search where it is asked beforehand, not by the engine that finds out in the
run. A change that makes one of them settle is welcome: then the example leaves the docs and this
file.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cobweb.engine import Engine, analyse
from cobweb.model import CobId, Graph
from tests.support.drive import Drive
from tests.support.graphs import SIMPLE, graph_of, type_of
from tests.support.search import Search
from tests.support.webs import of, rolled
from tests.support.words import binds

TURNED = (
    graph_of("x/a x/b", "x/a down>up x/b down", "x/b up>down x/a down"),
    {"x/a": "down", "x/b": "up"},
    ("x/a", "x/a churn x/b up"),
)
LEFT = (
    graph_of(
        {"x/a": SIMPLE, "x/c": type_of("outdated down up", "outdated>up down>up", "up")},
        "x/c outdated>up x/a outdated",
    ),
    {"x/a": "outdated", "x/c": "outdated"},
    ("x/c", "x/c lock x/a outdated, x/a no-way outdated"),
)
APART = (
    graph_of(
        {
            "x/a": SIMPLE,
            "x/b": SIMPLE,
            "x/s": replace(
                type_of("r p q up", "up>p p>q up>r r>q q>up", "up"),
                groups={"one": ("p", "q"), "other": ("r", "q")},
            ),
        },
        *("x/a down>up x/s one", "x/a down>up x/b up", "x/b up x/s other"),
    ),
    {"x/a": "down", "x/b": "up", "x/s": "up"},
)
SHORTEST = (
    graph_of("x/a x/b x/c", "x/a outdated>down x/b outdated", "x/c down>up x/a down"),
    {"x/a": "outdated", "x/b": "up", "x/c": "down"},
)
LIMITS = {"turned": TURNED, "left": LEFT}
NO_MORE = {"apart": APART, "shortest": SHORTEST}


@pytest.mark.parametrize("name", LIMITS)
def test_a_known_limit_is_still_one_and_is_told(name: str) -> None:
    """The analysis has no finding, an order exists, and the run says what waits for what."""
    graph, states, (cob, why) = LIMITS[name]
    assert analyse(graph) == ()
    goals = dict.fromkeys(graph.cobs, "up")
    assert Search(graph).reaches({CobId(it): state for it, state in states.items()}, goals)
    drive = Drive(graph)
    drive.checked("x/a", states["x/a"])
    for other in sorted(states.keys() - {"x/a"}):
        drive.checked(other, states[other])
    drive.run()
    assert drive.engine.idle()
    assert drive.why(cob) == why


@pytest.mark.parametrize("name", LIMITS)
def test_where_the_states_are_known_before_the_run_an_order_is_found(name: str) -> None:
    graph, states, _ = LIMITS[name]
    known = {CobId(cob): state for cob, state in states.items()}
    drive = Drive(graph, states, begin={"orders": Engine(graph).foresee(known)})
    drive.run()
    assert drive.engine.unsettled() == ()


@pytest.mark.parametrize("name", NO_MORE)
def test_what_the_rules_alone_do_not_settle_is_settled_in_the_run(name: str) -> None:
    """A longer way where the shortest is closed; requests for two groups of states."""
    graph, states = NO_MORE[name]
    drive = Drive(graph, {cob: state for cob, state in states.items() if cob != "x/a"})
    drive.checked("x/a", states["x/a"])
    drive.run()
    assert drive.engine.unsettled() == ()
    assert drive.engine.looked_ahead


def test_a_host_does_not_switch_while_what_it_removes_is_lent_and_that_is_told() -> None:
    """A new configuration holds a stopped server, and waits for the one that comes in its place."""

    def named(version: int, app: str) -> Graph:
        needs = [*binds(f"a/{app}", "a/conf"), *binds(f"b/{app}", "a/conf")]
        return of(version, graph_of(f"a/conf a/{app} b/{app}", *needs), "a/conf")

    run = rolled(named(1, "app"), named(2, "new"), {"a/app": "down"})
    run.run()
    chain = "b/app holders a/conf, a/conf lock b/new, b/new unswitched b b/app"
    assert run.why("b/app") == chain
