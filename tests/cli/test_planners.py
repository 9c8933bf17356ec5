"""`cobweb plan --planner`: who makes the stages, and what barriers would cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]

SITE = """\
cobweb: 1
name: two
inventory: {all: {hosts: {alpha: {}, beta: {}}}}
types:
  mark:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: none.yml}
    transitions: {"down -> up": {tasks: none.yml}, "up -> down": {tasks: none.yml}}
cobs:
  a: {type: mark, on: alpha}
  b: {type: mark, on: alpha}
  c: {type: mark, on: beta, requires: [a@alpha]}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site.yml").write_text(SITE)
    (tmp_path / "none.yml").write_text("[]\n")
    return tmp_path


@pytest.mark.parametrize(
    ("planner", "stages"),
    [
        ("event", [["alpha/a", "alpha/b"], ["beta/c"]]),
        ("stages", [["alpha/a"], ["alpha/b"], ["beta/c"]]),
    ],
)
def test_a_planner_makes_the_stages(
    run: Run, site: Path, check_schema: CheckSchema, planner: str, stages: list[list[str]]
) -> None:
    data = json.loads(run("-C", site, "plan", "--planner", planner, "-o", "json").out)
    check_schema("plan", data)
    assert [[step["cob"] for step in stage] for stage in data["stages"]] == stages
    assert data["planner"] == planner
    assert data["makespan"] == {"event": 2.0, "stages": 3.0}


def test_what_barriers_would_cost_is_told(run: Run, site: Path) -> None:
    out = run("-C", site, "plan").out
    assert "makespan, if each transition took 1: 2 by event, 3 stage by stage\n" in out
    assert "\n3 to add, 0 to change, 0 to remove; 3 transitions in 2 stages\n" in run(
        "-C", site, "plan"
    ).err.join("\n\n")


def test_nothing_is_told_where_barriers_cost_nothing(run: Run, site: Path) -> None:
    text = (site / "site.yml").read_text().replace("  b: {type: mark, on: alpha}\n", "")
    (site / "site.yml").write_text(text)
    assert "makespan" not in run("-C", site, "plan").out
    data = json.loads(run("-C", site, "plan", "-o", "json").out)
    assert data["makespan"] == {"event": 2.0, "stages": 2.0}


def test_an_unknown_planner_is_wrong_usage(run: Run, site: Path) -> None:
    ran = run("-C", site, "plan", "--planner", "stage")
    assert ran.code == 64
    assert "there is no planner of plans 'stage'" in ran.err
    assert "did you mean stages?" in ran.err
    ran = run("-C", site, "plan", "--planner", "waterfall")
    assert "there are: event, stages" in " ".join(ran.err.split())


def test_a_saved_plan_of_any_planner_is_carried_out(run: Run, site: Path, tmp_path: Path) -> None:
    plan = tmp_path / "my.plan"
    assert run("-C", site, "plan", "--planner", "stages", "--out", str(plan)).code == 0
    assert run("-C", site, "apply", "--executor", "simulate", "--yes", str(plan)).code == 0
