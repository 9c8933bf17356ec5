"""A saved plan whose base has changed is refused, with what was done and edited meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.model import CobId
from cobweb.store import Forgotten, StateWritten, TransitionBegan

pytestmark = [pytest.mark.full("each way that a plan gets stale; the gate has two people")]

Run = Callable[..., Any]
APPLY = ("apply", "--yes", "--executor", "simulate")
A, B, CFG = CobId("alpha/a"), CobId("beta/b"), CobId("alpha/cfg")
HINT = " (make a new one with `cobweb plan --out`)"


@pytest.fixture
def applied(run: Run, site: Path) -> Path:
    """Return the site after its first apply."""
    assert run("-C", site, *APPLY).code == 0
    return site


def edit(site: Path, old: str, new: str) -> None:
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def written(site: Path, *entries: Any) -> None:
    with Site(site) as session:
        session.store(create=True).write(entries)


def refused(run: Run, site: Path, plan: Path) -> list[str]:
    """Apply a plan that is refused, see that nothing was changed, and return what is told."""
    before = run("-C", site, "status", "-o", "json").out, run("-C", site, "runs", "-o", "json").out
    ran = run("-C", site, "apply", plan, "--executor", "simulate")
    after = run("-C", site, "status", "-o", "json").out, run("-C", site, "runs", "-o", "json").out
    assert (ran.code, ran.out) == (1, "")
    assert before == after
    lines: list[str] = ran.err.splitlines()
    return lines


def make_plan(run: Run, site: Path, *options: str) -> Path:
    file = site.parent / "my.plan"
    assert run("-C", site, "plan", "--out", file, *options).code == 0
    return file


def last_run(run: Run, site: Path) -> str:
    found: str = json.loads(run("-C", site, "runs", "-o", "json").out)["runs"][0]["id"]
    return found


def test_a_run_that_came_after_the_plan_is_named_with_what_it_changed(
    run: Run, applied: Path
) -> None:
    """Two people: one changes a port and plans, the other one is faster with another port."""
    edit(applied, "port: 8080", "port: 9090")
    plan = make_plan(run, applied)
    edit(applied, "port: 9090", "port: 7070")
    assert run("-C", applied, *APPLY, "-m", "Port 7070").code == 0
    edit(applied, "port: 7070", "port: 9090")
    error, ran, *lines = refused(run, applied, plan)
    assert error == f"cobweb: the states have changed since the plan was made{HINT}"
    assert ran.startswith(f"note: run {last_run(run, applied)}: apply --executor simulate by ")
    assert ran.endswith(" UTC, generation 2 (Port 7070)")
    assert lines == ["note: alpha/cfg: to be changed then, up now"]


def test_an_object_that_the_plan_left_alone_has_another_content(run: Run, applied: Path) -> None:
    plan = make_plan(run, applied)
    edit(applied, "port: 8080", "port: 9090")
    assert run("-C", applied, *APPLY).code == 0
    edit(applied, "port: 9090", "port: 8080")
    assert refused(run, applied, plan)[2:] == [
        "note: alpha/cfg: up then, up with another content now"
    ]


@pytest.mark.gate("the story of a stale plan")
def test_states_that_were_written_meanwhile_are_told(run: Run, applied: Path) -> None:
    plan = make_plan(run, applied)
    written(
        applied,
        StateWritten(cob=A, state="down", reason="check", time=2.0),
        TransitionBegan(cob=B, source="up", dest="down", time=2.0),
        Forgotten(cob=CFG),
        StateWritten(cob=CobId("gamma/x"), state="up", reason="check", time=2.0),
    )
    assert refused(run, applied, plan)[1:] == [
        "note: alpha/a: up then, down now",
        "note: alpha/cfg: up then, forgotten now",
        "note: beta/b: up then, in transition now",
        "note: gamma/x: not there then, up now",
    ]


@pytest.mark.gate("the story of a stale plan")
def test_edits_of_the_site_are_told_by_object(run: Run, applied: Path) -> None:
    edit(applied, "cobs:\n", "cobs:\n  new: {type: simple, on: front}\n")
    edit(applied, "port: 8080", "port: 9090")
    plan = make_plan(run, applied)
    edit(applied, "port: 9090", "port: 7070")
    edit(applied, "  new: {type: simple", "  other: {type: simple")
    edit(applied, "  b:\n    type: simple\n    on: front\n    requires: [a@back]\n", "")
    error, *lines = refused(run, applied, plan)
    assert error == f"cobweb: the site has changed since the plan was made{HINT}"
    assert lines == [
        "note: alpha/cfg: changed in the site since the plan was made",
        "note: beta/b: taken out of the site since the plan was made",
        "note: beta/new: taken out of the site since the plan was made",
        "note: beta/other: added to the site since the plan was made",
    ]


def test_an_edit_that_concerns_no_object_is_told(run: Run, applied: Path) -> None:
    plan = make_plan(run, applied)
    edit(applied, "    requires: [a@back]\n", "    after: [a@back]\n")
    _, *lines = refused(run, applied, plan)
    assert lines == [
        "note: no object differs in the site: needs, limits, types, task files or hosts do"
    ]


def test_site_and_states_can_both_have_changed(run: Run, applied: Path) -> None:
    plan = make_plan(run, applied)
    edit(applied, "port: 8080", "port: 9090")
    written(applied, StateWritten(cob=A, state="down", reason="check", time=2.0))
    error, *lines = refused(run, applied, plan)
    assert error == f"cobweb: the site and the states have changed since the plan was made{HINT}"
    assert lines == [
        "note: alpha/cfg: changed in the site since the plan was made",
        "note: alpha/a: up then, down now",
    ]


def test_a_plan_of_another_site_is_told_as_such(
    run: Run, site: Path, site_text: str, tmp_path: Path
) -> None:
    plan = make_plan(run, site)
    (tmp_path / ".git").mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "simple").symlink_to(site / "simple")
    text = site_text.replace("alpha", "one").replace("beta", "two")
    (other / "site.yml").write_text(text, encoding="utf-8")
    ran = run("-C", other, "apply", plan, "--executor", "simulate")
    assert ran.code == 1
    assert "note: no object of the plan is in this site: is it the right one?" in ran.err


def test_another_generation_with_the_same_states_makes_a_plan_stale(
    run: Run, applied: Path
) -> None:
    """The other one changed a need alone: no state and no content tells of it."""
    plan = make_plan(run, applied)
    edit(applied, "    requires: [a@back]\n", "    after: [a@back]\n")
    assert run("-C", applied, *APPLY, "-m", "No stop").code == 0
    edit(applied, "    after: [a@back]\n", "    requires: [a@back]\n")
    error, *lines = refused(run, applied, plan)
    assert error == f"cobweb: generation 2 was applied since the plan was made{HINT}"
    assert len(lines) == 1
    assert lines[0].endswith("generation 2 (No stop)")


@pytest.mark.parametrize("limit", [(), ("--limit", "alpha")], ids=["whole", "limited"])
def test_a_plan_with_nothing_to_do_may_be_applied_twice(
    run: Run, applied: Path, limit: tuple[str, ...]
) -> None:
    plan = make_plan(run, applied, *limit)
    for _ in range(2):
        assert run("-C", applied, "apply", plan, "--executor", "simulate").code == 0


def test_many_objects_are_counted(
    run: Run, make_site: Callable[[str], Path], site_text: str
) -> None:
    many = make_site(site_text.replace("{beta: {}}", "{'web[01:30]': {}}"))
    plan = make_plan(run, many)
    assert run("-C", many, *APPLY).code == 0
    lines = refused(run, many, plan)
    assert len(lines) == 13
    assert lines[2] == "note: alpha/a: new then, up now"
    assert lines[-1] == "note: ... and 22 more objects"


def test_the_last_runs_are_named(run: Run, applied: Path) -> None:
    edit(applied, "port: 8080", "port: 1")
    plan = make_plan(run, applied)
    for port in range(2, 9):
        edit(applied, f"port: {port - 1}", f"port: {port}")
        assert run("-C", applied, *APPLY).code == 0
    edit(applied, "port: 8", "port: 1")
    _, many, *runs, _ = refused(run, applied, plan)
    assert many == "note: 7 runs came after the plan, the last 5:"
    assert [line.rpartition(" ")[2] for line in runs] == ["4", "5", "6", "7", "8"]


def test_a_plan_of_an_older_format_is_told_as_such(run: Run, applied: Path) -> None:
    plan = make_plan(run, applied)
    data = json.loads(plan.read_text(encoding="utf-8"))
    plan.write_text(json.dumps({**data, "format": 1}), encoding="utf-8")
    message = "the plan was made by another version of Cobweb: format 1 is not 3"
    assert refused(run, applied, plan) == [f"cobweb: {plan}: {message}{HINT}"]


@pytest.mark.gate("bad input")
def test_an_edited_plan_is_refused(run: Run, applied: Path) -> None:
    plan = make_plan(run, applied)
    text = plan.read_text(encoding="utf-8")
    plan.write_text(text.replace('"limit": null', '"limit": "alpha"'), encoding="utf-8")
    assert refused(run, applied, plan) == [f"cobweb: {plan}: the plan was edited or damaged{HINT}"]


@pytest.mark.gate("secrets")
def test_a_plan_has_no_secrets(run: Run, applied: Path) -> None:
    """It is handed from job to job of a pipeline: neither texts nor cipher texts are in it."""
    old = "  a:\n    type: simple\n"
    edit(applied, old, f"{old}    spec: {{key: !vault 'first cipher text'}}\n")
    plan = applied / "my.plan"
    assert run("-C", applied, "plan", "--out", plan).code == 0
    assert run("-C", applied, "apply", plan, "--executor", "simulate").code == 0
    edit(applied, "first cipher", "second cipher")
    ran = run("-C", applied, "plan", "--diff", "--out", plan)
    assert (ran.code, "~ alpha/a" in ran.out) == (0, True)
    assert "cipher" not in plan.read_text(encoding="utf-8") + ran.out + ran.err
