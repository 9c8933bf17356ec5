"""Runs that take objects for changed (`--renew`), and restarts."""

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
name: few
inventory: {all: {hosts: {'web[1:3]': {}, db1: {}}, vars: {text: one, odd: one}}}
imports: [simple.yml]
types:
  plain:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: simple/check.yml}
    transitions:
      down -> up: {tasks: simple/start.yml}
      up -> down: {tasks: simple/stop.yml}
cobs:
  db: {type: plain, on: db1}
  app: {type: simple, on: 'web*', spec: {text: "{{ text }}"}, requires: [db@db1]}
  odd: {type: simple, on: 'web*', spec: {text: "{{ odd }}"}}
limits:
  rolling: {on: all, cob: app, max: 1}
"""
APPS = {"web1/app", "web2/app", "web3/app"}


def edit(site: Path, old: str, new: str) -> None:
    text = (site / "site.yml").read_text(encoding="utf-8")
    assert old in text
    (site / "site.yml").write_text(text.replace(old, new, 1), encoding="utf-8")


def steps(events: Path) -> list[tuple[str, str, str]]:
    """Return the transitions that began, by the events of a run."""
    lines = map(json.loads, events.read_text(encoding="utf-8").splitlines())
    begun = (it for it in lines if it["type"] == "transition.start")
    return [(it["cob"], it["from"], it["to"]) for it in begun]


def most_out(events: Path) -> int:
    """Return how many slots were out at once at most."""
    out, most = 0, 0
    for line in events.read_text(encoding="utf-8").splitlines():
        kind = json.loads(line)["type"]
        out += (kind == "slot.take") - (kind == "slot.return")
        most = max(most, out)
    return most


@pytest.fixture
def few(run: Run, make_site: Callable[[str], Path]) -> Path:
    """Make a site of three web servers and a database, all up."""
    site = make_site(SITE)
    ran = run("-C", site, *APPLY)
    assert ran.code == 0, ran.err
    return site


def test_what_is_renewed_is_applied_again_under_its_limit(
    run: Run, few: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    refs = [word for cob in sorted(APPS) for word in ("--renew", cob)]
    ran = run("-C", few, *APPLY, *refs, "--events", events)
    assert ran.code == 0, ran.err
    assert sorted(steps(events)) == [(cob, "outdated", "up") for cob in sorted(APPS)]
    assert most_out(events) == 1
    again = run("-C", few, *APPLY, "--events", events)
    assert (again.code, steps(events)) == (0, [])


@pytest.mark.parametrize("refresh", ["all", "none"])
def test_a_check_does_not_talk_it_out_of_that(
    run: Run, few: Path, tmp_path: Path, refresh: str
) -> None:
    events = tmp_path / "events.jsonl"
    ran = run("-C", few, *APPLY, "--renew", "web1/odd", "--refresh", refresh, "--events", events)
    assert ran.code == 0, ran.err
    assert steps(events) == [("web1/odd", "outdated", "up")]


def test_a_type_without_outdated_leaves_and_comes_back(run: Run, few: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    edit(few, "max: 1", "max: 3")
    ran = run("-C", few, *APPLY, "--renew", "db1/db", "--events", events)
    assert ran.code == 0, ran.err
    seen = steps(events)
    assert {cob for cob, _, _ in seen[:3]} == {cob for cob, _, _ in seen[5:]} == APPS
    assert seen[3:5] == [("db1/db", "up", "down"), ("db1/db", "down", "up")]


def test_a_plan_names_what_goes_out_for_it_and_keeps_it(
    run: Run, few: Path, tmp_path: Path, check_schema: Callable[[str, Any], None]
) -> None:
    plan, events = tmp_path / "my.plan", tmp_path / "events.jsonl"
    assert run("-C", few, "plan", "--renew", "web1/app", "--out", plan).code == 0
    data = json.loads(plan.read_text(encoding="utf-8"))
    check_schema("plan", data)
    assert (data["restarts"], data["renew"]) == (["web1/app"], ["web1/app"])
    go = ("-C", few, "apply", plan, "--executor", "simulate", "--events", events)
    ran = run(*go, "--renew", "web2/app")
    assert (ran.code, "--renew is part of the plan" in ran.err) == (64, True)
    assert run(*go).code == 0
    assert steps(events) == [("web1/app", "outdated", "up")]


def test_what_is_renewed_must_be_there_and_selected(run: Run, few: Path) -> None:
    for options, why in (
        (("--renew", "web1/ap"), "did you mean web1/app?"),
        (("--renew", "web1/app", "--only", "web2/app"), "--only leaves it out"),
        (("--renew", "web1/app", "--limit", "web2"), "--limit leaves it out"),
        (("--renew", "web1/app", "--replan"), "--replan and --renew do not go together"),
    ):
        ran = run("-C", few, *APPLY, *options)
        assert (ran.code, why in ran.err) == (64, True), ran.err


RESTART = ("restart", "--yes", "--executor", "simulate")


def test_a_restart_changes_nothing_else_and_makes_no_generation(
    run: Run, few: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    ran = run("-C", few, *RESTART, "web1/app", "web2/odd", "--events", events)
    assert ran.code == 0, ran.err
    assert sorted(steps(events)) == [("web1/app", "outdated", "up"), ("web2/odd", "outdated", "up")]
    assert len(json.loads(run("-C", few, "generations", "-o", "json").out)["generations"]) == 1


def test_what_has_to_step_aside_for_a_restart_comes_back(
    run: Run, few: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    edit(few, "max: 1", "max: 3")
    ran = run("-C", few, *RESTART, "db1/db", "--events", events)
    assert ran.code == 0, ran.err
    assert {cob for cob, _, _ in steps(events)} == {"db1/db", *APPS}
    assert json.loads(run("-C", few, "plan", "-o", "json").out)["stages"] == []


def test_a_restart_of_what_is_to_be_changed_is_refused(run: Run, few: Path, tmp_path: Path) -> None:
    edit(few, "text: one", "text: two")
    ran = run("-C", few, *RESTART, "web1/app")
    assert ran.code == 64
    assert "a change of web1/app is pending; a restart changes nothing" in ran.err
    assert "cobweb apply --only web1/app" in ran.err
    ran = run("-C", few, *RESTART, "db1/db")
    assert (ran.code, "a change of web1/app, which it needs, is pending" in ran.err) == (64, True)
    events = tmp_path / "events.jsonl"
    ran = run("-C", few, *RESTART, "web1/odd", "--events", events)
    assert ran.code == 0, ran.err
    assert steps(events) == [("web1/odd", "outdated", "up")]
    planned = json.loads(run("-C", few, "plan", "-o", "json").out)
    assert planned["counts"] == {"add": 0, "change": 3, "remove": 0}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--yes", "web1/ap"), "did you mean web1/app?"),
        (("--yes", "--on-failure", "rollback", "web1/app"), "nothing to go back to"),
        (("web1/app",), "nobody can be asked"),
        ((), "Missing argument"),
    ],
)
def test_a_restart_that_is_refused(run: Run, few: Path, options: tuple[str, ...], why: str) -> None:
    ran = run("-C", few, "restart", "--executor", "simulate", *options)
    assert (ran.code, why in ran.err) == (64, True), ran.err
