"""A limit makes a circle of new contents: it is named whose old content serves whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
SITE = """\
cobweb: 1
name: pair
inventory: {all: {hosts: {a: {}, b: {}}}}
imports: [simple.yml]
cobs:
  db: {type: simple, on: all, spec: {text: "1"}}
  web: {type: simple, on: all, spec: {text: "1"}, after: [db@all]}
limits:
  rolling: {on: all, cob: web, max: 1}
"""
HELD, FREE = SITE, SITE[: SITE.index("limits:")]
"""With the limit each host waits for the other one; without it both databases come first."""


@pytest.mark.parametrize(("text", "pairs"), [(HELD, [{"cob": "a/web", "on": "b/db"}]), (FREE, [])])
def test_a_plan_names_what_is_served_by_old_content(
    run: Run,
    make_site: Callable[[str], Path],
    check_schema: Callable[[str, Any], None],
    text: str,
    pairs: list[dict[str, str]],
) -> None:
    site = make_site(text)
    assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0
    data = json.loads(run("-C", site, "plan", "-o", "json").out)
    assert data["old_content"] == []
    (site / "site.yml").write_text(text.replace('"1"', '"2"'), encoding="utf-8")
    ran = run("-C", site, "plan", "-o", "json")
    data = json.loads(ran.out)
    check_schema("plan", data)
    assert (ran.code, data["old_content"]) == (0, pairs)
    line = "old content serves, in a circle that a limit makes: b/db for a/web\n"
    assert (line in run("-C", site, "plan").out) == bool(pairs)
    assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0


@pytest.mark.parametrize("text", [HELD, FREE])
def test_validate_warns_of_it_before_anything_changes(
    run: Run, make_site: Callable[[str], Path], text: str
) -> None:
    ran = run("-C", make_site(text), "validate")
    told = [line for line in ran.err.splitlines() if "old one still" in line]
    warning = (
        "warning: site.yml:9:3: if all changes at once, a/web gets its new content while b/db, on "
        "which it relies, has its old one still: with the limit they wait in a circle "
        "(where that does not do, change one of them in a commit of its own)"
    )
    assert (ran.code, told) == (0, [warning] if text == HELD else [])


def test_validate_names_the_pair_that_the_plan_of_such_a_change_names(
    run: Run, make_site: Callable[[str], Path]
) -> None:
    """The first host in the inventory goes first."""
    site = make_site(SITE.replace("{a: {}, b: {}}", "{b: {}, a: {}}"))
    assert "b/web gets its new content while a/db" in run("-C", site, "validate").err
    assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0
    text = (site / "site.yml").read_text(encoding="utf-8")
    (site / "site.yml").write_text(text.replace('"1"', '"2"'), encoding="utf-8")
    assert "makes: a/db for b/web" in run("-C", site, "plan").out


def test_a_gate_is_no_old_content(run: Run, make_site: Callable[[str], Path]) -> None:
    site = make_site(SITE.replace('"1"}}', '"1"}, trust: 0}'))
    assert run("-C", site, "validate").err.count("old one still") == 0


def test_alike_pairs_are_warned_of_once(run: Run, make_site: Callable[[str], Path]) -> None:
    site = make_site(SITE.replace("b: {}", "b: {}, c: {}"))
    told = run("-C", site, "validate").err
    assert told.count("old one still") == 1
    assert "(2 more like this)" in told
