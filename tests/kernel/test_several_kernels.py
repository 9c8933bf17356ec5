"""The product's own kernel, several of them over one graph, with mail that is lost and doubled."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import analyse
from cobweb.model import CobId, Graph
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import graph_json
from tests.support.graphs import graph_of, graphs, starts
from tests.support.kernels import Kernels, Mishaps
from tests.support.words import words

NAMES = ("east", "north", "west")


@st.composite
def worlds(draw: st.DrawFn, made: st.SearchStrategy[Graph], mishaps: Mishaps) -> Kernels:
    """Draw a graph, who owns which of its hosts, what is real, and a seed."""
    graph = draw(made)
    owners = {host: draw(st.sampled_from(NAMES)) for host in sorted(graph.hosts())}
    return Kernels(
        graph=graph,
        owners=owners,
        truth=dict(draw(starts(graph))),
        random=Random(draw(st.integers(0, 2**32))),
        mishaps=mishaps,
    )


@given(worlds(graphs(), Mishaps(lose=0.2, double=0.2)))
def test_kernels_that_share_a_graph_keep_the_promises(world: Kernels) -> None:
    world.run()
    assert world.broken == []
    assert check_promises(world.merged(), graph_json(world.graph)) == []


@given(worlds(graphs(), Mishaps(lose=0.2, double=0.2, kill=0.2, fail=0.1)))
def test_kills_and_failures_break_no_needs(world: Kernels) -> None:
    world.run()
    assert world.broken == []


@given(worlds(words(), Mishaps(lose=0.3, double=0.3, kill=0.1)))
def test_kernels_of_the_usual_words_settle_in_the_end(world: Kernels) -> None:
    if analyse(world.graph):
        return
    world.run()
    assert world.broken == []
    assert world.unsettled() == []
    assert all(world.truth[cob] == it.preferred for cob, it in world.graph.cobs.items())


@pytest.mark.parametrize("seed", range(60))
def test_a_chain_over_three_owners_outlives_kills(seed: int) -> None:
    """What was asked for, granted and lost in an earlier life comes about all the same."""
    graph = graph_of(
        "h0/front h1/app h1/note h2/db",
        "h0/front *>up h1/app up",
        "h1/app *>down h0/front down",
        "h1/app *>up h2/db up",
        "h2/db *>down h1/app down",
        "h2/db outdated>* h0/front down",
        "h0/front *>up h2/db up",
    )
    truth = dict.fromkeys(graph.cobs, "up") | {"h1/note": "down", "h2/db": "outdated"}
    world = Kernels(
        graph=graph,
        owners=dict(zip(("h0", "h1", "h2"), NAMES, strict=True)),
        truth={CobId(cob): state for cob, state in truth.items()},
        random=Random(seed),
        mishaps=Mishaps(lose=0.2, double=0.2, kill=0.1),
    )
    world.run()
    assert min(world.lives.values()) >= 1 < max(world.lives.values())
    assert world.broken == []
    assert world.unsettled() == []
    assert set(world.truth.values()) == {"up"}

    ends = {it: hosts.now() + 3600 for it, hosts in world.hosts.items()}
    rounds = 0
    while any(world.hosts[it].now() < end for it, end in ends.items()):
        rounds += 1
        for owner, kernel in world.kernels.items():
            if world.hosts[owner].now() < ends[owner]:
                kernel.poll(30.0)
    assert rounds < 200, "at rest all is said again every half a minute, and not more often"
