"""Look-ahead finds the cheapest order where there is one, and says so where there is none."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import NoOrder, find_order, parts
from tests.support.problems import KINDS, cost, drawn

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
