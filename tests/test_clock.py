"""Names of moments: one for each, in the order of time."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cobweb._clock import name_of_moment

MOMENTS = st.floats(min_value=0, max_value=4e9)


@given(MOMENTS, st.floats(min_value=1 / 65_536, max_value=1.5))
def test_a_later_moment_has_a_later_name(first: float, later: float) -> None:
    """Also where both are in one second."""
    assert name_of_moment(first) < name_of_moment(first + later + 1e-6)


@given(MOMENTS)
def test_a_name_is_a_time_with_four_digits(moment: float) -> None:
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", name_of_moment(moment))


def test_the_time_is_that_of_utc() -> None:
    assert name_of_moment(1_795_273_539.5) == "20261121-150539-8000"
