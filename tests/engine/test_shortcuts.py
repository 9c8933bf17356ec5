"""What the engine does not look at, to be fast, changes nothing: the events are those of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine.budgets import _departures
from cobweb.engine.budgets._units import BudgetBook
from cobweb.model import Budget, Graph, Unit
from cobweb.testing.simulation import Faults, Simulation
from tests.support.graphs import graphs, starts

FAULTS = Faults(fail=0.1, fail_check=0.1, vanish=0.05, come_back=0.3)
COUNT_ANEW = BudgetBook.update


@st.composite
def limited(draw: st.DrawFn) -> Graph:
    """Draw a graph with one or two budgets over some of its objects, by host or one by one."""
    graph = draw(graphs())
    budgets = []
    for name in ("one", "two")[: draw(st.integers(1, 2))]:
        some = draw(st.sets(st.sampled_from(sorted(graph.cobs)), min_size=1))
        by_host = draw(st.booleans())
        members: dict[str, set[Any]] = {}
        for cob in sorted(some):
            members.setdefault(graph.cobs[cob].host if by_host else cob, set()).add(cob)
        units = tuple(Unit(name=it, members=frozenset(those)) for it, those in members.items())
        percent = draw(st.sampled_from([None, 50]))
        budgets.append(Budget(name=name, units=units, percent=percent))
    return replace(graph, budgets=tuple(budgets))


def events(graph: Graph, truth: Mapping[Any, str], known: set[Any], seed: int) -> list[Any]:
    """Return what a run with faults tells."""
    simulation = Simulation(
        graph=graph,
        random=Random(seed),
        truth=dict(truth),
        states={cob: truth[cob] for cob in known},
        faults=FAULTS,
        options={"returns": True},
    )
    simulation.run()
    return list(simulation.events())


@given(limited(), st.data(), st.integers(0, 2**32))
def test_a_run_under_limits_is_that_without_shortcuts(
    graph: Graph, data: st.DataObject, seed: int
) -> None:
    """Units are counted by all their members, and what goes out is looked for in all that asks."""
    truth = data.draw(starts(graph))
    known = data.draw(st.sets(st.sampled_from(sorted(truth))))
    told = events(graph, truth, known, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_departures, "_ask_nobody_out", lambda _machine, _ways: False)
        patch.setattr(
            BudgetBook,
            "update",
            lambda book, unit, working, _=None: COUNT_ANEW(book, unit, working),
        )
        assert events(graph, truth, known, seed) == told
