"""What one run does otherwise than the site says: other bounds, and another canary."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
APPLY = ("apply", "--yes", "--executor", "simulate")
SITE = """\
cobweb: 1
name: four
inventory: {all: {hosts: {'web[1:4]': {version: 1}}}}
imports: [simple.yml]
cobs:
  app: {type: simple, on: all, spec: {text: "{{ version }}"}}
limits:
  rolling: {on: all, cob: app, max: 1, first: 1}
"""


@pytest.fixture
def four(run: Run, make_site: Callable[[str], Path]) -> Path:
    """Make a site of four hosts of which one may be out, with a new version to come."""
    site = make_site(SITE)
    assert run("-C", site, *APPLY).code == 0
    (site / "site.yml").write_text(SITE.replace("version: 1", "version: 2"), encoding="utf-8")
    return site


def most_out(events: Path) -> int:
    """Return how many slots were out at once at most."""
    out, most = 0, 0
    for line in events.read_text(encoding="utf-8").splitlines():
        kind = json.loads(line)["type"]
        out += (kind == "slot.take") - (kind == "slot.return")
        most = max(most, out)
    return most


def test_one_run_may_take_more_out_than_the_site_lets(run: Run, four: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    ran = run("-C", four, *APPLY, "--budget", "rolling=3", "--events", events)
    assert ran.code == 0, ran.err
    assert most_out(events) == 3
    newest = json.loads(run("-C", four, "runs", "-o", "json").out)["runs"][0]
    assert newest["command"] == "apply --budget rolling=3 --executor simulate"
    (four / "site.yml").write_text(SITE.replace("version: 1", "version: 3"), encoding="utf-8")
    assert run("-C", four, *APPLY, "--events", events).code == 0
    assert most_out(events) == 1


def test_a_plan_says_whose_turn_it_is_under_a_limit(
    run: Run, four: Path, check_schema: Callable[[str, Any], None]
) -> None:
    line = "limit rolling (max 2): web1 first, then web2, web3, web4\n"
    assert line in run("-C", four, "plan", "--budget", "rolling=2").out
    text = (four / "site.yml").read_text(encoding="utf-8")
    (four / "site.yml").write_text(
        text.replace("max: 1, first: 1", "max: 25%, first: 2, pause: 9s")
    )
    told = run("-C", four, "plan").out
    assert "limit rolling (max 25%): web1, web2 first, 9 s pause, then web3, web4\n" in told
    data = json.loads(run("-C", four, "plan", "-o", "json").out)
    check_schema("plan", data)
    (limit,) = data["limits"]
    assert (limit["limit"], limit["max"], limit["pause"]) == ("rolling", "25%", 9.0)
    assert (limit["canary"], limit["units"]) == (["web1", "web2"], ["web1", "web2", "web3", "web4"])
    assert run("-C", four, *APPLY).code == 0
    assert "limit" not in run("-C", four, "plan").out
    one = SITE.replace("{version: 1}", "{version: 2}, web3: {version: 3}")
    (four / "site.yml").write_text(one, encoding="utf-8")
    told = run("-C", four, "plan")
    assert "web3/app  outdated -> up" in told.out
    assert "limit" not in told.out


def test_a_plan_keeps_the_bounds_that_it_was_made_with(
    run: Run, four: Path, tmp_path: Path, check_schema: Callable[[str, Any], None]
) -> None:
    plan, events = tmp_path / "my.plan", tmp_path / "events.jsonl"
    assert run("-C", four, "plan", "--budget", "rolling=2", "--out", plan).code == 0
    data = json.loads(plan.read_text(encoding="utf-8"))
    check_schema("plan", data)
    assert data["budgets"] == {"rolling": 2}
    go = ("-C", four, "apply", plan, "--executor", "simulate", "--events", events)
    ran = run(*go, "--budget", "rolling=4")
    assert (ran.code, "--budget is part of the plan" in ran.err) == (64, True)
    assert run(*go).code == 0
    assert most_out(events) == 2


@pytest.mark.parametrize("command", [("plan",), APPLY, ("rollback", "1", "--yes")])
def test_a_limit_that_is_not_there_has_no_other_bound(
    run: Run, four: Path, command: tuple[str, ...]
) -> None:
    simulated = () if "plan" in command or "--executor" in command else ("--executor", "simulate")
    ran = run("-C", four, *command, *simulated, "--budget", "roling=3")
    assert ran.code == 64
    assert "no limit on what is out is called 'roling' (did you mean rolling?)" in ran.err


@pytest.mark.parametrize("odd", ["rolling", "rolling=0", "=2", "rolling=x", "rolling=50%"])
def test_a_bound_is_a_number_from_one(run: Run, four: Path, odd: str) -> None:
    ran = run("-C", four, "plan", "--budget", odd)
    assert ran.code == 64
    assert "is no limit with a number from 1" in ran.err
