"""Sections of plugins beside each other and beside the site's own keys: nothing wins in silence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Expansion
from tests.support.graphs import SIMPLE

Maker = Any


class Making:
    """A section that stands for what a test says."""

    source = Path(__file__)

    def __init__(self, name: str, expansion: Expansion) -> None:
        self.name = name
        self._expansion = expansion

    def expand(self, _sections: Mapping[str, Any], _context: object) -> Expansion:
        return self._expansion


COB = {"type": "file", "on": "all"}
FILE = replace(SIMPLE, name="file")
LIMIT = {"on": "all", "cob": "motd", "max": 1}
FUNCTION: Callable[..., str] = lambda _host: ""  # noqa: E731  # a value of the table
SAME = {
    "COB `lamp`": Expansion(cobs={"lamp": COB}),
    "limit `dark`": Expansion(limits={"dark": LIMIT}),
    "type `simple`": Expansion(types={"simple": SIMPLE}),
    "function `glow`": Expansion(functions={"glow": FUNCTION}),
    "shared part `file.lab`": Expansion(shared={"file": {"lab": {"size": 1}}}),
    "group `street`": Expansion(inventory={"street": {}}),
    "host `n1`": Expansion(inventory={"east": {"hosts": {"n1": {}}}}),
}
SITE = """\
one: 1
two: 2
cobs: {motd: {type: file, on: all}}
"""


def options(one: Expansion, two: Expansion) -> dict[str, Any]:
    """Return the options of a site with the sections `one` and `two`."""
    expanders = [Making("one", one), Making("two", two)]
    return {
        "sections": {"one": {}, "two": {}},
        "expanders": expanders,
        "types": {"file": FILE},
    }


def assert_found(findings: list[str], pattern: str) -> None:
    assert [it for it in findings if re.search(pattern, it)], findings


@pytest.mark.parametrize(("what", "expansion"), SAME.items(), ids=[it.split()[0] for it in SAME])
def test_two_sections_that_make_the_same_are_told_with_both_places(
    maker: Maker, what: str, expansion: Expansion
) -> None:
    other = expansion
    if what.startswith("host"):
        other = Expansion(inventory={"west": expansion.inventory["east"]})
    found = maker.findings(SITE, **options(expansion, other))
    place = r"site\.yml:\d+:\d+"
    pattern = f"{place}: `two` makes the {what}, as `one` at {place} does"
    assert_found(found, pattern.replace("`file.lab`", r"`file\.lab`"))


def test_parts_of_one_type_that_two_sections_share_are_all_there(maker: Maker) -> None:
    parts = [Expansion(shared={"file": {name: {"size": 1}}}) for name in ("lab", "office")]
    site = maker.site(SITE, **options(*parts))
    assert site.types["file"].shared == {"lab": {"size": 1}, "office": {"size": 1}}


@pytest.mark.parametrize(("key", "cobs"), [("cobs", {"motd": COB}), ("limits", {"dark": LIMIT})])
def test_a_section_and_a_file_that_make_the_same_are_told_with_both_places(
    maker: Maker, key: str, cobs: dict[str, Any]
) -> None:
    text = SITE + "limits: {dark: {on: all, cob: motd, max: 1}}\n"
    made = Expansion(**{key: cobs})
    found = maker.findings(text, **options(made, Expansion()))
    assert_found(found, r"site\.yml:\d+:\d+: `\w+` in `\w+` is a name .* site\.yml:\d+:\d+ has it")


KID = {"kid": {"hosts": {"m1": {"v": 1}}}}
CLASHES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "child": ({"g": {"children": KID}}, {"h": {"children": KID}}, "makes the group `kid`"),
    "host of a child": ({"g": {"children": KID}}, {"m": KID["kid"]}, "makes the host `m1`"),
    "range": (
        {"g": {"hosts": {"z[1:3]": {"v": 1}}}},
        {"h": {"hosts": {"z2": {"v": 2}}}},
        "makes the host `z2`",
    ),
    "variables of another's group": (
        {"g": {"hosts": {"m1": {"v": 1}}}},
        {"h": {"children": {"g": {"vars": {"v": 3}}}}},
        "makes the group `g`",
    ),
    "host of the site": (
        {"g": {"children": {"kid": {"hosts": {"app[01:02]": {"v": 1}}}}}},
        {},
        "the site's inventory has a host `app01`, which its one make as well",
    ),
}


@pytest.mark.parametrize("case", CLASHES)
def test_what_is_made_twice_is_found_at_any_depth_and_in_ranges(maker: Maker, case: str) -> None:
    one, two, message = CLASHES[case]
    found = maker.findings(SITE, **options(Expansion(inventory=one), Expansion(inventory=two)))
    assert any(message in it for it in found), found


@pytest.mark.parametrize("part", ["hosts", "children"])
@pytest.mark.parametrize("value", [["n1"], 3])
def test_what_is_no_mapping_in_an_inventory_is_a_finding(
    maker: Maker, part: str, value: Any
) -> None:
    wrong = Expansion(inventory={"g": {part: value}})
    found = maker.findings(SITE, **options(wrong, Expansion()))
    assert_found(found, r"site\.yml:\d+:\d+: .*must be")


def test_two_sections_have_the_same_range_of_the_site_s_hosts_in_their_groups(maker: Maker) -> None:
    parts = [Expansion(inventory={name: {"hosts": {"app[01:02]": None}}}) for name in "gh"]
    site = maker.site(SITE, **options(*parts))
    assert list(site.groups["g"]) == list(site.groups["h"]) == ["app01", "app02"]
