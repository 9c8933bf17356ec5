"""What a section stands for refuses what cannot be meant; a decision is told in one line."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.model import Decision, Expansion


@pytest.mark.parametrize("releases", ["n1/lamp", ["n1"], ["n1/lamp", "n2"]])
def test_releases_are_objects_or_all_of_a_host(releases: Any) -> None:
    with pytest.raises(ValueError, match="HOST/COB"):
        Expansion(releases=releases)
    assert Expansion(releases=["n1/lamp", "n2/*"]).releases == ["n1/lamp", "n2/*"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"on": True}, "decision lamps/n1, revision 7, by ann: it is dark"),
        (None, "decision lamps/n1 taken back, revision 7, by ann: it is dark"),
    ],
)
def test_a_decision_is_told_in_one_line_which_is_its_place(body: Any, told: str) -> None:
    decision = Decision(
        section="lamps",
        key="n1",
        body=body,
        revision=7,
        author="ann",
        reason=" it is\n\tdark ",
        time=1.0,
    )
    assert str(decision) == str(decision.place) == told
