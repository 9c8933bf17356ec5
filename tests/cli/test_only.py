"""Runs that move a few objects only (`--only`)."""

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
inventory: {all: {hosts: {'web[1:3]': {}, db1: {}}, vars: {text: one, schema: one, odd: one}}}
imports: [simple.yml]
cobs:
  db: {type: simple, on: db1, spec: {text: "{{ schema }}"}}
  app: {type: simple, on: 'web*', spec: {text: "{{ text }}"}, requires: [db@db1]}
  odd: {type: simple, on: 'web*', spec: {text: "{{ odd }}"}}
"""
RELEASE = (("text: one", "text: two"), ("schema: one", "schema: two"))


def edit(site: Path, *pairs: tuple[str, str]) -> None:
    text = (site / "site.yml").read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    (site / "site.yml").write_text(text, encoding="utf-8")


def moved(events: Path) -> set[str]:
    """Return what began a transition, by the events of a run."""
    lines = map(json.loads, events.read_text(encoding="utf-8").splitlines())
    return {it["cob"] for it in lines if it["type"] == "transition.start"}


def looked_at(events: Path) -> set[str]:
    """Return what was checked, by the events of a run."""
    lines = map(json.loads, events.read_text(encoding="utf-8").splitlines())
    return {it["cob"] for it in lines if it["type"] == "cob.state" and it.get("reason") == "check"}


@pytest.fixture
def few(run: Run, make_site: Callable[[str], Path]) -> Path:
    """Make a site of three web servers and a database, all up."""
    site = make_site(SITE)
    ran = run("-C", site, *APPLY)
    assert ran.code == 0, ran.err
    return site


def test_only_what_is_named_and_what_it_needs_is_moved(run: Run, few: Path, tmp_path: Path) -> None:
    edit(few, *RELEASE)
    events = tmp_path / "events.jsonl"
    ran = run("-C", few, *APPLY, "--only", "web2/app", "--events", events)
    assert ran.code == 0, ran.err
    assert moved(events) == {"web2/app", "db1/db"}
    assert looked_at(events) <= moved(events)
    again = run("-C", few, *APPLY, "--events", events)
    assert again.code == 0, again.err
    assert moved(events) == {"web1/app", "web3/app"}


def test_hosts_with_other_changes_keep_their_generation(
    run: Run, few: Path, tmp_path: Path
) -> None:
    edit(few, *RELEASE)
    events = tmp_path / "events.jsonl"
    ran = run("-C", few, *APPLY, "--only", "web2/app", "--events", events)
    assert ran.code == 0, ran.err
    lines = map(json.loads, events.read_text(encoding="utf-8").splitlines())
    switched = {host for it in lines if it["type"] == "generation.switch" for host in it["hosts"]}
    assert switched == {"db1", "web2"}


def test_what_is_new_or_gone_elsewhere_waits(run: Run, few: Path, tmp_path: Path) -> None:
    edit(
        few,
        ("schema: one", "schema: two"),
        ("'web*', spec: {text: \"{{ odd", "'web1', spec: {x: \"{{ odd"),
    )
    edit(few, ("  app: {type", "  new: {type: simple, on: web3}\n  app: {type"))
    events = tmp_path / "events.jsonl"
    planned = json.loads(run("-C", few, "plan", "--only", "db1/db", "-o", "json").out)
    assert (planned["counts"], planned["only"]) == (
        {"add": 0, "change": 1, "remove": 0},
        ["db1/db"],
    )
    ran = run("-C", few, *APPLY, "--only", "db1/db", "--events", events)
    assert ran.code == 0, ran.err
    assert moved(events) == looked_at(events) == {"db1/db"}
    later = json.loads(run("-C", few, "plan", "-o", "json").out)
    assert later["counts"] == {"add": 1, "change": 1, "remove": 2}


def test_what_a_change_makes_step_aside_is_moved_too(run: Run, few: Path, tmp_path: Path) -> None:
    edit(few, ("requires: [db@db1]", "binds: [db@db1]"))
    assert run("-C", few, *APPLY).code == 0
    edit(few, ("schema: one", "schema: two"))
    events = tmp_path / "events.jsonl"
    ran = run("-C", few, *APPLY, "--only", "db1/db", "--events", events)
    assert ran.code == 0, ran.err
    assert moved(events) == {"db1/db", "web1/app", "web2/app", "web3/app"}


def test_a_host_does_not_go_over_with_half_of_its_changes(run: Run, few: Path) -> None:
    edit(few, ("text: one", "text: two"), ("odd: one", "odd: two"))
    for command in (("plan",), APPLY):
        ran = run("-C", few, *command, "--only", "web2/app")
        assert ran.code == 64
        assert "changes are pending on the same host: web2/odd" in ran.err
    assert run("-C", few, *APPLY, "--only", "web2/app", "--only", "web2/odd").code == 0


def test_members_of_a_limit_that_are_not_moved_count(run: Run, few: Path) -> None:
    edit(few, ("cobs:\n", "limits: {one: {on: all, cob: app, max: 1}}\ncobs:\n"))
    assert run("-C", few, *APPLY).code == 0
    edit(few, ("text: one", "text: two"))
    ran = run("-C", few, *APPLY, "--only", "web2/app")
    assert ran.code == 0, ran.err
    assert run("-C", few, *APPLY).code == 0


def test_a_saved_plan_keeps_what_it_is_for(
    run: Run, few: Path, tmp_path: Path, check_schema: Callable[[str, Any], None]
) -> None:
    edit(few, *RELEASE)
    plan, events = tmp_path / "my.plan", tmp_path / "events.jsonl"
    assert run("-C", few, "plan", "--only", "web1/app", "--out", plan).code == 0
    check_schema("plan", json.loads(plan.read_text(encoding="utf-8")))
    go = ("-C", few, "apply", plan, "--executor", "simulate", "--events", events)
    ran = run(*go, "--only", "web2/app")
    assert (ran.code, "--only is part of the plan" in ran.err) == (64, True)
    ran = run(*go)
    assert ran.code == 0, ran.err
    assert moved(events) == {"web1/app", "db1/db"}
    newest = json.loads(run("-C", few, "runs", "-o", "json").out)["runs"][0]
    assert newest["command"] == "apply --only web1/app --executor simulate"


@pytest.mark.parametrize("command", [("plan",), APPLY])
def test_an_object_that_is_not_there_is_refused(
    run: Run, few: Path, command: tuple[str, ...]
) -> None:
    ran = run("-C", few, *command, "--only", "web1/ap")
    assert (ran.code, "there is no object 'web1/ap' (did you mean web1/app?)" in ran.err) == (
        64,
        True,
    )


def test_two_parts_do_not_go_together(run: Run, few: Path) -> None:
    for options in (("--limit", "web1"), ("--on-failure", "rollback")):
        ran = run("-C", few, *APPLY, "--only", "web1/app", *options)
        assert ran.code == 64, ran.err
    assert run("-C", few, "plan", "--generation", "1", "--only", "web1/app").code == 64


ON_DEMAND = """\
types:
  job:
    states: [down, done]
    preferred: done
    remove: down
    on_demand: true
    check: {tasks: simple/check.yml}
    transitions: {down -> done: {tasks: simple/start.yml}, done -> down: {tasks: simple/stop.yml}}
"""
JOBS = "  job: {type: job, on: 'web*', spec: {text: \"{{ job }}\"}, after: [app]}\n"


@pytest.fixture
def jobs(run: Run, make_site: Callable[[str], Path]) -> Path:
    """Make the site of `few` with a job on each web server, none of which was asked for."""
    site = make_site(ON_DEMAND + SITE.replace("odd: one", "odd: one, job: one") + JOBS)
    ran = run("-C", site, *APPLY)
    assert ran.code == 0, ran.err
    assert run("-C", site, "plan", "--detailed-exitcode").code == 0
    return site


def states(run: Run, site: Path) -> dict[str, str]:
    """Return the states of the jobs."""
    data = json.loads(run("-C", site, "status", "-o", "json").out)
    return {it["id"]: it["state"] for it in data["cobs"] if it["id"].endswith("/job")}


def test_what_is_moved_on_demand_is_left_where_it_is(run: Run, jobs: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    assert set(states(run, jobs).values()) == {"down"}
    edit(jobs, ("text: one", "text: two"), ("job: one", "job: two"))
    ran = run("-C", jobs, *APPLY, "--events", events)
    assert ran.code == 0, ran.err
    assert moved(events) == {f"web{number}/app" for number in (1, 2, 3)}
    assert run("-C", jobs, *APPLY, "--refresh", "all", "--limit", "web1").code == 0
    assert run("-C", jobs, "drift", "--executor", "simulate").code == 0
    assert set(states(run, jobs).values()) == {"down"}


def test_what_is_moved_on_demand_moves_where_it_is_named(
    run: Run, jobs: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    ran = run("-C", jobs, *APPLY, "--only", "web1/job", "--only", "web2/job", "--events", events)
    assert ran.code == 0, ran.err
    assert moved(events) == {"web1/job", "web2/job"}
    assert states(run, jobs) == {"web1/job": "done", "web2/job": "done", "web3/job": "down"}
    for words in (("rollback", "1", "--yes", "--executor", "simulate"), APPLY):
        ran = run("-C", jobs, *words)
        assert ran.code == 0, ran.err
    assert states(run, jobs) == {"web1/job": "done", "web2/job": "done", "web3/job": "down"}


def test_what_is_moved_on_demand_is_named_while_other_changes_wait_for_its_host(
    run: Run, jobs: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    edit(jobs, ("odd: one", "odd: two"))
    ran = run("-C", jobs, *APPLY, "--only", "web1/job", "--events", events)
    assert ran.code == 0, ran.err
    assert moved(events) == {"web1/job"}
    edit(jobs, ("job: one", "job: two"))  # no host goes over to half of what is new
    ran = run("-C", jobs, *APPLY, "--only", "web1/job")
    assert ran.code == 64
    assert "web1/odd" in ran.err


def test_a_job_that_is_gone_from_the_site_is_removed(run: Run, jobs: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    assert run("-C", jobs, *APPLY, "--only", "web1/job").code == 0
    edit(jobs, (JOBS, ""))
    ran = run("-C", jobs, *APPLY, "--events", events)
    assert ran.code == 0, ran.err
    assert moved(events) == {"web1/job"}
