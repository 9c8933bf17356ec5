"""P1 to P6 of the design over random graphs, types, delays, mail and faults."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import WaitKind
from cobweb.model import CobId
from cobweb.testing.simulation import Faults, Simulation
from tests.support.graphs import graphs, starts

ENDS = {
    WaitKind.FAILED,
    WaitKind.UNREACHABLE,
    WaitKind.NO_WAY,
    WaitKind.CHURN,
    WaitKind.LIMIT,
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
    )


@given(simulations(faults=st.just(Faults()), parts=1))
def test_one_engine_without_faults_keeps_all_promises(simulation: Simulation) -> None:
    """Each object gets to its goal, or a chain of reasons says why not (P5)."""
    simulation.run()
    explained(simulation)


@given(simulations(faults=FAULTS, parts=1))
def test_one_engine_with_faults_keeps_all_promises(simulation: Simulation) -> None:
    """Failures and vanished hosts break no promise."""
    simulation.run()
    explained(simulation)


@given(simulations(faults=FAULTS, parts=4))
def test_engines_that_share_nothing_keep_the_promises(simulation: Simulation) -> None:
    """Mail between owners is lost, doubled, late and reordered, and no promise breaks."""
    simulation.run()


def explained(simulation: Simulation) -> None:
    """Check P5: the chain of each unsettled object ends where it may."""
    engine = simulation.engines[0]
    for cob in engine.unsettled():
        chain = engine.chain(cob)
        assert chain, cob
        last = chain[-1]
        assert last.kind in ENDS or last.on in {link.cob for link in chain}, chain
