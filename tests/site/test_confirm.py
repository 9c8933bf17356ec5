"""The dead-man switch in a site: what is read, and what is found wrong."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.generation import content_of
from cobweb.model import CobId, Confirm

Maker = Any
APP = CobId("app01/a")
TYPES = """\
types:
  net:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: }
    revert: "restore {{ cob.name }}"
    prepare: "keep"
"""


def confirm_of(maker: Maker, text: str, kind: str = "net") -> Confirm | None:
    site = maker.site(f"{TYPES}cobs: {{a: {{type: {kind}, on: app01, confirm: {text}}}}}")
    found: Confirm | None = site.graph().cobs[APP].confirm
    return found


@pytest.mark.parametrize(
    ("text", "within_s"), [("60s", 60), ("90", 90), ("1m30s", 90), ("{within: 2m}", 120)]
)
def test_the_time_may_stand_alone(maker: Maker, text: str, within_s: float) -> None:
    assert confirm_of(maker, text) == Confirm(within_s=within_s)


def test_an_object_may_say_how_it_is_taken_back(maker: Maker) -> None:
    text = "{within: 60s, revert: 'ip link set {{ cob.name }} up', prepare: keep}"
    revert = "ip link set {{ cob.name }} up"
    assert confirm_of(maker, text) == Confirm(within_s=60, revert=revert, prepare="keep")


def test_a_type_may_say_it_for_all(maker: Maker) -> None:
    kind = maker.site(f"{TYPES}cobs: {{a: {{type: net, on: app01}}}}").types["net"]
    assert (kind.revert, kind.prepare) == ("restore {{ cob.name }}", "keep")


def test_it_is_no_part_of_what_an_object_is_meant_to_be(maker: Maker) -> None:
    sites = [maker.site(f"{TYPES}cobs: {{a: {{type: net, on: app01{more}}}}}") for more in WISHES]
    assert len({content_of(site.graph().cobs[APP]) for site in sites}) == 1


WISHES = ("", ", confirm: 60s", ", confirm: {within: 20s, revert: other}")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "`confirm` of COB `a` is empty"),
        ("soon", "`confirm` of COB `a` must be a duration above 0, not `soon`"),
        ("true", "`confirm` of COB `a` must be a duration above 0, not `True`"),
        ("2s", "`confirm` of COB `a` is shorter than 5 s"),
        ("[60s]", "`confirm` of COB `a` must be a mapping, not a list"),
        ("{revert: x}", "`confirm` of COB `a` lacks `within`"),
        ("{within: 60s, revret: x}", "unknown key `revret` in `confirm` of COB `a` (did you mean"),
        ("{within: 60s, revert: 7}", "`revert` of `confirm` of COB `a` must be text, not a number"),
        ("{within: 60s, revert: '{{ cob'}", "`revert` of `confirm` of COB `a` is no template"),
        ("{within: 60s, prepare: x}", "`confirm` of COB `a` has `prepare` without `revert`"),
    ],
)
def test_what_is_wrong_is_found_with_its_place(maker: Maker, text: str, found: str) -> None:
    first, *others = maker.findings(
        f"{TYPES}cobs: {{a: {{type: net, on: app01, confirm: {text}}}}}"
    )
    assert first.startswith("site.yml:11:")
    assert found in first
    assert others in ([], [other for other in others if "check.yml" in other])


def test_a_change_that_cannot_be_taken_back_cannot_be_confirmed(maker: Maker) -> None:
    (found,) = maker.findings("cobs: {a: {type: simple, on: app01, confirm: 60s}}")
    assert "`confirm` of COB `a`: nothing says how its host takes a change back" in found
    assert "the type `simple` has no `revert`; write `confirm: {..., revert: ...}`" in found


def test_a_type_with_nothing_but_a_preparation_is_refused(maker: Maker) -> None:
    text = TYPES.replace('    revert: "restore {{ cob.name }}"\n', "")
    assert "type `net` has `prepare` without `revert`" in maker.findings(text)[0]
