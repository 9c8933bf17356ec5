"""Durations and allowances are read as they are written."""

from __future__ import annotations

import click
import pytest

from cobweb.cli._group import cobweb
from cobweb.cli._parameters import DURATION, FAILURES, Allowance


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("0.5s", 0.5)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "ten", "-1", "1x", "m", "0", "400d", "1 m", "1e9", "inf"])
def test_a_wrong_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is no duration|is not between"):
        DURATION.convert(text, None, None)


@pytest.mark.parametrize("command", [("apply",), ("rollback",), ("restart", "h/a"), ("drift",)])
def test_what_makes_a_run_waits_for_its_database_as_it_is_told(command: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter, match="'soon' is no duration"):
        cobweb.main([*command, "--store-timeout", "soon"], standalone_mode=False)


@pytest.mark.parametrize(
    ("text", "total", "bound"),
    [("0", 9, 0), ("3", 9, 3), ("10%", 9, 0), ("25%", 9, 2), ("100%", 9, 9)],
)
def test_an_allowance_is_bound_to_a_total(text: str, total: int, bound: int) -> None:
    allowance = FAILURES.convert(text, None, None)
    assert allowance.bound(total) == bound
    assert str(allowance) == text


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "101%", "%"])
def test_a_wrong_allowance_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"neither a number|more than"):
        FAILURES.convert(text, None, None)


def test_values_that_were_read_already_pass() -> None:
    allowance = Allowance(value=1)
    assert FAILURES.convert(allowance, None, None) is allowance
    assert DURATION.convert(5, None, None) == 5.0
