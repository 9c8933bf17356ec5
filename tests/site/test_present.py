"""A site that is not present has hosts and no objects, and is checked all the same."""

from __future__ import annotations

import pytest

from tests.site.conftest import Maker

SITE = """\
present: {present}
cobs:
  a: {{type: simple, on: app, requires: [b@db]}}
  b: {{type: simple, on: db}}
limits:
  one: {{on: app, cob: a, max: 1}}
"""


def test_without_it_all_objects_are_there(maker: Maker) -> None:
    """`true` is what a site says that does not say it."""
    said, unsaid = (
        maker.site(text).graph()
        for text in (SITE.format(present="true"), SITE.format(present="true").partition("\n")[2])
    )
    assert list(said.cobs) == list(unsaid.cobs) == ["app01/a", "app02/a", "db01/b"]


@pytest.mark.parametrize("limit", [None, "app01"])
def test_a_site_that_is_not_present_has_hosts_and_no_objects(
    maker: Maker, limit: str | None
) -> None:
    site = maker.site(SITE.format(present="false"))
    assert list(site.hosts) == ["app01", "app02", "db01"]
    assert not site.graph(limit).cobs
    assert not site.trees()


def test_what_is_written_of_objects_is_checked_all_the_same(maker: Maker) -> None:
    """So that all of it can come back."""
    (found,) = maker.findings(SITE.format(present="false").replace("b@db", "c@db"))
    assert "`c`" in found


@pytest.mark.parametrize("word", ["no", '"false"', "0", "[]", ""])
def test_it_is_true_or_false_and_nothing_else(maker: Maker, word: str) -> None:
    """`no` is a text, as everywhere in a site."""
    (found,) = maker.findings(SITE.format(present=word))
    assert "`present` of the site must be true or false" in found
