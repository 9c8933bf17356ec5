"""Chains of reasons as sentences."""

from __future__ import annotations

from dataclasses import replace

from cobweb.engine import Engine
from cobweb.kernel._sentences import link_text
from cobweb.model import CobId
from tests.support.graphs import SIMPLE, graph_of


def test_who_waits_for_a_group_of_states_is_told_which_states_these_are() -> None:
    grouped = replace(SIMPLE, groups={"stopped": ("down", "outdated")})
    needs = ["x/a down>up x/s stopped", "x/s up>down x/a up"]
    engine = Engine(graph_of({"x/a": SIMPLE, "x/s": grouped}, *needs))
    engine.start({CobId("x/a"): "down", CobId("x/s"): "up"})
    assert [link_text(link) for link in engine.chain(CobId("x/a"))] == [
        "x/a waits for x/s to be stopped (down, outdated)",
        "x/s waits for x/a to be up",
    ]
