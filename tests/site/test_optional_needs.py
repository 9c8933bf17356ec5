"""A need with `optional: true` asks for nothing where there is no instance that it could mean."""

from __future__ import annotations

from typing import Any

import pytest

Maker = Any

SITE = """
inventory:
  app: {{hosts: {{app01: {{peer: db}}, app02: {{peer: none}}, app03: {{peer: app01}}}}}}
  db: {{hosts: {{db01: }}}}
  none: {{hosts: {{}}}}
cobs:
  a:
    type: simple
    on: app
    needs: [{{when: "down -> up", cob: b, state: up, {need}}}]
  b: {{type: simple, on: "app01,db01"}}
"""
HERE, THERE = "(app01/a, down -> up) <- (app01/b, up)", "(app01/a, down -> up) <- (db01/b, up)"
FROM_THREE = "(app03/a, down -> up) <- (app01/b, up)"


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        ("optional: true", {HERE}),
        ("on: none, optional: true", set()),
        ("on: app02, optional: true", set()),
        ('on: "{{{{ peer }}}}", optional: true', {THERE, FROM_THREE}),
    ],
    ids=["same host", "empty group", "not there", "by host"],
)
def test_where_nothing_can_be_meant_nothing_is_needed(
    maker: Maker, need: str, expected: set[str]
) -> None:
    graph = maker.site(SITE.format(need=need.replace("{{{{", "{{").replace("}}}}", "}}"))).graph()
    assert {str(each) for each in graph.needs} == expected


@pytest.mark.parametrize(
    ("need", "message"),
    [
        ("optional: false", "which is not on the same host"),
        ("on: none", "matches no host"),
        ("on: app02", "matches no instance"),
        ("optional: maybe", "`optional` of a need of COB `a` must be true or false"),
    ],
    ids=["same host", "empty group", "not there", "no truth"],
)
def test_without_the_word_it_is_an_error(maker: Maker, need: str, message: str) -> None:
    assert any(message in each for each in maker.findings(SITE.format(need=need)))
