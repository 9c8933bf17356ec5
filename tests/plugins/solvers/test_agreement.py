"""Both solvers give the layout that a brute force finds, or prove as it does that there is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import NoLayoutError
from cobweb.plugin import Solver
from cobweb_plugins.solvers import CpsatSolver, PreferenceSolver
from tests.plugins.solvers.brute import brute_force
from tests.plugins.solvers.cases import Question, questions

SOLVERS = [PreferenceSolver(), CpsatSolver()]


def _nodes(solver: Solver, question: Question) -> list[Any] | None:
    try:
        return list(solver.solve(*question)["nodes"])
    except NoLayoutError:
        return None


@pytest.mark.gate("a property beside a brute force")
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
@given(data=st.data())
def test_a_new_cluster_is_that_of_the_brute_force(solver: Solver, data: st.DataObject) -> None:
    question = data.draw(questions())
    assert _nodes(solver, question) == brute_force(*question)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
@given(data=st.data())
def test_a_changed_cluster_is_that_of_the_brute_force(solver: Solver, data: st.DataObject) -> None:
    question = data.draw(questions(existing=True))
    assert _nodes(solver, question) == brute_force(*question)
