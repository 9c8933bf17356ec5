"""Policies: the examples 1.7 and 1.8 of Hedeby, and what lets pools come to rest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb_plugins.pools.decision import Policy, Priority, Service, Share, Standing

POLICIES: list[Policy] = [Priority(), Share()]


def standing(priority: float = 1, entitled: int = 0) -> Standing:
    service = Service(name="s", adapter="a", holds=frozenset({"host"}), priority=priority)
    return Standing(service=service, entitled=entitled)


@pytest.mark.parametrize(
    ("priority", "urgency", "weight"),
    [(1, 1, 1), (2, 50, 100), (3, 40, 120)],
    ids=["spare pool", "A", "B"],
)
def test_the_weights_of_example_1_7(priority: float, urgency: float, weight: float) -> None:
    assert Priority().weight(standing(priority), urgency, 1) == weight


def test_a_priority_does_not_look_at_how_many_there_are() -> None:
    assert {Priority().weight(standing(2, entitled=1), 50, index) for index in range(1, 9)} == {100}


def test_a_share_is_sure_and_beyond_it_the_urgency_counts() -> None:
    weights = [Share().weight(standing(priority=9, entitled=2), 50, index) for index in (1, 2, 3)]
    assert weights == [math.inf, math.inf, 50]


def test_a_share_of_nothing_is_nothing() -> None:
    assert Share().weight(standing(entitled=0), 50, 1) == 50
    assert Share().weight(standing(entitled=2), 0, 1) == 0


def test_policies_have_the_names_of_the_section() -> None:
    assert [(it.point, it.name) for it in POLICIES] == [
        ("pool_policy", "priority"),
        ("pool_policy", "share"),
    ]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@given(
    at=st.builds(standing, st.floats(0, 100), st.integers(0, 9)),
    urgencies=st.tuples(st.floats(0, 1000), st.floats(0, 1000)).map(sorted),
    indices=st.tuples(st.integers(1, 12), st.integers(1, 12)).map(sorted),
)
def test_a_weight_grows_with_the_urgency_and_never_with_the_index(
    policy: Policy, at: Standing, urgencies: list[float], indices: list[int]
) -> None:
    for index in indices:
        low, high = (policy.weight(at, urgency, index) for urgency in urgencies)
        assert 0 <= low <= high
    for urgency in urgencies:
        early, late = (policy.weight(at, urgency, index) for index in indices)
        assert late <= early
