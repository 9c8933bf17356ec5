"""Durations are read alike on the command line and in a site."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb._durations import seconds_of
from cobweb.errors import Place
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Map
from cobweb.site.reading._settings import duration

PLACE = Place(file="site.yml", line=3, column=9)


def read(value: Any) -> tuple[float | None, list[str]]:
    """Read `pause: VALUE` of a thing."""
    findings = Findings()
    node = Map(items={"pause": Leaf(value=value, place=PLACE)}, place=PLACE)
    return duration(node, "pause", "a thing", findings), [str(f) for f in findings.sorted()]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(30, 30), (0.5, 0.5), ("30s", 30), (" 1m30s ", 90), ("2h", 7200), ("1d", 86400), ("7", 7)],
)
def test_numbers_and_texts_are_durations(written: Any, seconds: float) -> None:
    assert read(written) == (seconds, [])


@pytest.mark.parametrize("written", [0, -1, True, False, None, "", "x", "0s", "400d", 1e9, {}])
def test_anything_else_is_a_finding_with_its_place(written: Any) -> None:
    found, findings = read(written)
    assert found is None
    assert findings[0].startswith("site.yml:3:9: `pause` of a thing must be a duration above 0")


def test_what_is_missing_is_no_finding() -> None:
    findings = Findings()
    assert duration(Map(items={}, place=PLACE), "pause", "a thing", findings) is None
    assert not findings.sorted()


def test_the_text_is_read_in_parts() -> None:
    assert seconds_of("1d2h3m4.5s") == 86400 + 7200 + 180 + 4.5
    with pytest.raises(ValueError, match="is no duration"):
        seconds_of("4s 5m")
