"""Where the engine stops although a legal order exists: the examples of docs/engine-limits.md.

Each is found by the search, not by the engine. A change that makes one of them settle is welcome:
then the example leaves the docs and this file.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cobweb.engine import analyse
from cobweb.model import CobId
from tests.support.drive import Drive
from tests.support.graphs import SIMPLE, graph_of, type_of
from tests.support.search import Search

SHORTEST = (
    graph_of("x/a x/b x/c", "x/a outdated>down x/b outdated", "x/c down>up x/a down"),
    {"x/a": "outdated", "x/b": "up", "x/c": "down"},
    "x/a lock x/b outdated, x/b no-way outdated",
)
TURNED = (
    graph_of("x/a x/b", "x/a down>up x/b down", "x/b up>down x/a down"),
    {"x/a": "down", "x/b": "up"},
    "x/a churn x/b up",
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
    "x/a lock x/s one, x/s requested x/b r, x/b requested x/a up",
)
LIMITS = {"apart": APART, "shortest": SHORTEST, "turned": TURNED}


@pytest.mark.parametrize("name", LIMITS)
def test_a_known_limit_is_still_one_and_is_told(name: str) -> None:
    """The analysis has no finding, an order exists, and the run says what waits for what."""
    graph, states, why = LIMITS[name]
    typed = {CobId(cob): state for cob, state in states.items()}
    assert analyse(graph) == ()
    assert Search(graph).reaches(typed, dict.fromkeys(graph.cobs, "up"))
    drive = Drive(graph, {cob: state for cob, state in states.items() if cob != "x/a"})
    drive.checked("x/a", states["x/a"])
    drive.run()
    assert drive.engine.idle()
    assert drive.why("x/a") == why
