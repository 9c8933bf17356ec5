"""Look-ahead finds the cheapest order where there is one, and says so where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import NoOrder, Problem, by_cob, explain, find_order, parts
from cobweb.model import Budget, Need
from tests.support.problems import KINDS, Drawn, cost, drawn, problem_of, world_of

randoms = st.randoms(use_true_random=False)


@pytest.mark.parametrize("kind", KINDS)
@given(random=randoms)
def test_look_ahead_finds_what_a_search_of_everything_finds(kind: str, random: Random) -> None:
    """The order takes the fewest objects out, then the fewest steps; no order is no order."""
    system = drawn(kind, random)
    assert cost(find_order(system.problem)) == system.cheapest()


@pytest.mark.parametrize("kind", KINDS)
@given(random=randoms)
def test_parts_are_searched_alone(kind: str, random: Random) -> None:
    """What they cost adds up, and where one has no order, the whole has none."""
    system = drawn(kind, random)
    found = [find_order(system.problem, part.cobs) for part in parts(system.problem)]
    whole = system.cheapest()
    if any(isinstance(each, NoOrder) for each in found):
        assert whole is None
    else:
        costs = [it for each in found if (it := cost(each)) is not None]
        assert whole == (sum(outs for outs, _ in costs), sum(steps for _, steps in costs))


@pytest.mark.parametrize("kind", KINDS)
@given(random=randoms)
def test_reductions_leave_the_answer_as_it_is(kind: str, random: Random) -> None:
    """Nor do they ever look at more situations than the plain search by much."""
    problem = drawn(kind, random).problem
    assert cost(find_order(problem)) == cost(find_order(problem, reduce=False))


@pytest.mark.parametrize("kind", KINDS)
@given(random=randoms)
def test_a_proof_leaves_no_order_and_has_nothing_to_spare(kind: str, random: Random) -> None:
    """With its needs and budgets alone there is no order; without any one of them there is."""
    systems = (drawn(kind, random).problem for _ in range(6))
    problem = next((it for it in systems if isinstance(find_order(it), NoOrder)), None)
    if problem is None:
        return
    proof = explain(problem)
    assert proof.smallest
    assert only(problem, proof.needs, proof.budgets).cheapest() is None
    for need in proof.needs:
        rest = [each for each in proof.needs if each is not need]
        assert only(problem, rest, proof.budgets).cheapest() is not None
    for budget in proof.budgets:
        others = [each for each in proof.budgets if each is not budget]
        assert only(problem, proof.needs, others).cheapest() is not None


def only(problem: Problem, needs: Sequence[Need], budgets: Sequence[Budget]) -> Drawn:
    """Return a problem with some of its needs and budgets alone."""
    graph = replace(problem.graph, needs=tuple(needs), budgets=tuple(budgets))
    less = replace(problem, graph=graph, needs=by_cob(needs), budgets=graph.budgets)
    return Drawn(less, world_of(less))
