"""Who of the members goes away, how often and for how long; and how times are told."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.plugin import seconds_of
from cobweb_plugins.applications._recovery import Flaps, Presence, in_words


def test_who_is_away_is_told_once_and_is_back_once() -> None:
    presence = Presence(None, None)
    assert presence.gone("n1", "no route", 0)
    assert not presence.gone("n1", "no answer", 1)
    assert presence.away == {"n1": "no answer"}
    assert presence.back("n1")
    assert not presence.back("n1")
    assert not presence.away
    assert not presence.flapping()
    assert not presence.lost(1e9)


@pytest.mark.parametrize(
    ("moments", "is_left"),
    [
        ([0, 1], False),
        ([0, 300, 600], True),
        ([0, 300, 601], False),
        ([0, 500, 1000, 1050, 1100], True),
    ],
)
def test_who_goes_away_too_often_within_the_time_is_flapping(
    moments: list[float], *, is_left: bool
) -> None:
    presence = Presence(Flaps(times=3, within_s=600), None)
    for now in moments:
        presence.gone("n1", "no route", now)
        presence.gone("n1", "no route", now + 1)  # it is still away
        presence.back("n1")
        presence.gone("n2", "no route", now)
    expected = {"n1": "it was away 3 times within 10m"} if is_left else {}
    assert presence.flapping() == expected


def test_who_is_away_for_too_long_is_lost() -> None:
    presence = Presence(None, 60)
    assert presence.next_loss(0) == math.inf
    presence.gone("n1", "no route", 0)
    presence.gone("n2", "no route", 30)
    presence.gone("n1", "no answer", 50)
    assert (presence.next_loss(50), presence.lost(59)) == (60, {})
    assert presence.lost(60) == {"n1": "no answer for 1m: no answer"}
    assert presence.next_loss(60) == 90
    presence.back("n1")
    assert presence.lost(89) == {}


@given(st.integers(1, 366 * 86400) | st.floats(0.001, 100))
def test_times_are_told_as_a_site_says_them(seconds: float) -> None:
    said = in_words(seconds)
    assert seconds_of(said) == pytest.approx(seconds, rel=1e-5)
