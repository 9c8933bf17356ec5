"""A limit on a group of states: `group`."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.model import LimitScope

Maker = Any

SITE = """
inventory: {{app: {{hosts: {{app01: , app02: }}}}}}
types:
  grouped:
    states: [outdated, down, up]
    preferred: up
    remove: down
    groups: {{running: [up, outdated]}}
    check: {{tasks: check.yml}}
    transitions: {{down -> up: , up -> down: , outdated -> down: }}
  simple:
    states: [down, up]
    preferred: up
    remove: down
    check: {{tasks: check.yml}}
    transitions: {{down -> up: , up -> down: }}
cobs: {{a: {{type: grouped, on: app}}, b: {{type: simple, on: app}}}}
limits: {{rolling: {{on: app, max: 1, {more}}}}}
"""


def test_it_is_read(maker: Maker) -> None:
    (limit,) = maker.site(SITE.format(more="cob: a, group: running")).graph().limits
    assert (limit.scope, limit.states) == (LimitScope.OUT_OF_GROUP, "running")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("cob: a, group: runing", "no group of states `runing` (did you mean `running`?)"),
        ("cob: b, group: running", "the type of `b` has no group of states `running`"),
        ("group: running", "the type of `b` has no group of states `running` (it has none)"),
        ("cob: a, group: [running]", "must be text, not a list"),
        ("cob: a, group: running, transition: up -> down", "has `transition` and `group`"),
    ],
    ids=["misspelt", "another type", "all types", "list", "both"],
)
def test_what_is_wrong_is_found(maker: Maker, more: str, message: str) -> None:
    findings = maker.findings(SITE.format(more=more))
    assert any(message in each for each in findings), findings
