"""P1 to P6 of the design over random graphs, types, delays, mail and faults."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import WaitKind, analyse
from cobweb.model import CobId, Graph
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import Faults, Simulation, graph_json
from tests.support.graphs import graphs, starts
from tests.support.words import words

ENDS = {
    WaitKind.FAILED,
    WaitKind.UNREACHABLE,
    WaitKind.NO_WAY,
    WaitKind.CHURN,
    WaitKind.EXCLUDED,
}
FAULTS = st.builds(
    Faults,
    lose=st.sampled_from([0.0, 0.2]),
    double=st.sampled_from([0.0, 0.3]),
    fail=st.sampled_from([0.0, 0.1]),
    fail_check=st.sampled_from([0.0, 0.05]),
    vanish=st.sampled_from([0.0, 0.02]),
    come_back=st.sampled_from([0.0, 0.1]),
)


@st.composite
def simulations(draw: st.DrawFn, *, faults: st.SearchStrategy[Faults], parts: int) -> Simulation:
    """Draw a graph, its true states, what of them is known, its owners and a seed."""
    graph = draw(graphs())
    truth = draw(starts(graph))
    known = {cob: truth[cob] for cob in sorted(truth) if draw(st.booleans())}
    owners: dict[int, set[CobId]] = {}
    for cob in sorted(truth):
        owners.setdefault(draw(st.integers(0, parts - 1)), set()).add(cob)
    return Simulation(
        graph=graph,
        random=Random(draw(st.integers(0, 2**32))),
        truth=dict(truth),
        states=known,
        owners=[frozenset(owners[part]) for part in sorted(owners)],
        faults=draw(faults),
        options={"returns": draw(st.booleans())},
    )


@given(simulations(faults=st.just(Faults()), parts=1))
def test_one_engine_without_faults_keeps_all_promises(simulation: Simulation) -> None:
    """Each object gets to its goal, or a chain of reasons says why not (P5)."""
    simulation.run()
    assert check_promises(simulation.events(), graph_json(simulation.graph)) == []
    explained(simulation)


@given(simulations(faults=FAULTS, parts=1))
def test_one_engine_with_faults_keeps_all_promises(simulation: Simulation) -> None:
    """Failures and vanished hosts break no promise."""
    simulation.run()
    assert check_promises(simulation.events(), graph_json(simulation.graph)) == []
    explained(simulation)


@given(simulations(faults=FAULTS, parts=4))
def test_engines_that_share_nothing_keep_the_promises(simulation: Simulation) -> None:
    """Mail between owners is lost, doubled, late and reordered, and no promise breaks."""
    simulation.run()
    assert check_promises(simulation.events(), graph_json(simulation.graph)) == []


@given(simulations(faults=st.just(Faults()), parts=1), st.integers(0, 30), st.integers(1, 3))
def test_a_killed_coordinator_goes_on_from_its_journal(
    simulation: Simulation, rounds: int, crashes: int
) -> None:
    """Old locks stay in force until their holders have been checked; the end is explained."""
    simulation.begin()
    for _ in range(crashes):
        for _ in range(rounds):
            simulation.round()
        simulation.crash()
    while simulation.round():
        pass
    explained(simulation)


@given(words(), st.integers(0, 30), st.data())
def test_a_killed_coordinator_settles_in_the_end(
    graph: Graph, rounds: int, data: st.DataObject
) -> None:
    """In the end: sites of the usual words settle after a crash at any moment."""
    if analyse(graph):
        return
    seed = data.draw(st.integers(0, 2**32))
    simulation = Simulation(graph=graph, random=Random(seed), truth=data.draw(starts(graph)))
    simulation.begin()
    for _ in range(rounds):
        simulation.round()
    simulation.crash()
    while simulation.round():
        pass
    assert simulation.engines[0].unsettled() == ()
    assert simulation.engines[0].locks() == ()


@given(words(), st.data())
def test_engines_that_share_nothing_settle_in_the_end(graph: Graph, data: st.DataObject) -> None:
    """In the end: sites of the usual words settle over mail that is lost, doubled and late."""
    if analyse(graph):
        return
    simulation = Simulation(
        graph=graph,
        random=Random(data.draw(st.integers(0, 2**32))),
        truth=data.draw(starts(graph)),
        owners=[frozenset({cob}) for cob in graph.cobs],
        faults=Faults(lose=0.3, double=0.3),
    )
    simulation.run()
    assert [cob for engine in simulation.engines for cob in engine.unsettled()] == []


@given(simulations(faults=FAULTS, parts=3), st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_effects(simulation: Simulation, seed: int) -> None:
    """P6: the same site, states and seed give the same run."""
    histories = []
    for _ in range(2):
        again = replace(simulation, random=Random(seed), truth=dict(simulation.truth))
        again.run()
        histories.append(again.history)
    assert histories[0] == histories[1]


def explained(simulation: Simulation) -> None:
    """Check P5: the chain of each unsettled object ends where it may."""
    engine = simulation.engines[0]
    for cob in engine.unsettled():
        chain = engine.chain(cob)
        assert chain, cob
        last = chain[-1]
        assert last.kind in ENDS or last.on in {link.cob for link in chain}, chain
