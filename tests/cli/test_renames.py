"""`was`: an object goes on under another name, and nothing moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.model import CobId, Job
from cobweb.store import GrantWritten, HostLost
from cobweb_plugins.simulate import SimulateExecutor
from tests.cli.test_protection import GUARD, B
from tests.cli.test_stale_plans import APPLY, edit

pytestmark = [
    pytest.mark.full("renames by commands; store/test_renames and generation are in the gate")
]

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
BACK = ("rollback", "--yes", "--executor", "simulate")


@pytest.fixture
def applied(run: Run, site: Path) -> Path:
    """Return the site after its first apply."""
    assert run("-C", site, *APPLY).code == 0
    return site


def rename(site: Path, old: str, new: str) -> None:
    """Give a COB that stands in the site another name."""
    edit(site, f"  {old}:\n", f"  {new}:\n    was: {old}\n")


def states(run: Run, site: Path) -> dict[str, str]:
    data = json.loads(run("-C", site, "status", "-o", "json").out)
    return {it["id"]: it["state"] for it in data["cobs"]}


def nothing_moves(run: Run, site: Path) -> None:
    ran = run("-C", site, *APPLY)
    assert (ran.code, "0 transitions, 0 checks" in ran.err) == (0, True), ran.err
    assert run("-C", site, "plan", "--detailed-exitcode").code == 0


@pytest.mark.gate("the story of a rename")
def test_a_rename_moves_nothing(run: Run, applied: Path, check_schema: CheckSchema) -> None:
    rename(applied, "b", "c")
    plan = run("-C", applied, "plan", "--detailed-exitcode")
    assert (plan.code, plan.out) == (2, "= beta/c (was beta/b)\n\n")
    assert plan.err == "0 to add, 0 to change, 0 to remove; no transition\n"
    data = json.loads(run("-C", applied, "plan", "-o", "json").out)
    check_schema("plan", data)
    (change,) = data["changes"]
    assert (change["kind"], change["was"], change["diff"]) == ("renamed", "beta/b", [])
    told = run("-C", applied, *APPLY).err.splitlines()[-1]
    assert told.startswith("done: 1 object renamed (0 transitions, 0 checks, ")
    nothing_moves(run, applied)
    assert states(run, applied) == {"alpha/a": "up", "alpha/cfg": "up", "beta/c": "up"}


@pytest.mark.gate("the story of a rename")
def test_what_others_need_follows(run: Run, applied: Path) -> None:
    rename(applied, "a", "z")
    edit(applied, "requires: [a@back]", "requires: [z@back]")
    edit(applied, "stops: [a]", "stops: [z]")
    nothing_moves(run, applied)
    edit(applied, "port=", "port = ")
    steps = [line.split("  ")[0] for line in run("-C", applied, *APPLY).err.splitlines()[:5]]
    assert steps == ["beta/b", "alpha/z", "alpha/cfg", "alpha/z", "beta/b"]


def test_it_may_stay_in_the_site_and_go_from_it(run: Run, applied: Path) -> None:
    rename(applied, "b", "c")
    nothing_moves(run, applied)
    nothing_moves(run, applied)
    edit(applied, "    was: b\n", "")
    nothing_moves(run, applied)


def test_names_follow_each_other(run: Run, applied: Path) -> None:
    rename(applied, "b", "c")
    nothing_moves(run, applied)
    edit(applied, "  c:\n    was: b\n", "  d:\n    was: c\n")
    nothing_moves(run, applied)
    assert "beta/d" in states(run, applied)
    for _ in range(2):
        assert run("-C", applied, *BACK, "1").code == 0
        assert "beta/b" in states(run, applied)
        assert run("-C", applied, *BACK, "2").code == 0
        assert "beta/c" in states(run, applied)


def test_a_rename_with_a_change_is_both(run: Run, applied: Path) -> None:
    rename(applied, "b", "c")
    edit(applied, "    was: b\n", "    was: b\n    spec: {x: 1}\n")
    out = run("-C", applied, "plan").out
    assert out.startswith("~ beta/c (was beta/b)\n    +x: 1\n")
    assert run("-C", applied, *APPLY).code == 0
    assert states(run, applied)["beta/c"] == "up"


def test_what_was_never_known_is_new(run: Run, applied: Path) -> None:
    edit(applied, "cobs:\n", "cobs:\n  n: {type: simple, on: back, was: m}\n")
    assert run("-C", applied, "plan").out.startswith("+ alpha/n")
    assert run("-C", applied, *APPLY).code == 0


def test_a_name_that_is_free_again_is_another_object(run: Run, applied: Path) -> None:
    rename(applied, "b", "c")
    nothing_moves(run, applied)
    edit(applied, "    was: b\n", "")
    edit(applied, "cobs:\n", "cobs:\n  b: {type: simple, on: front}\n")
    assert run("-C", applied, "plan").out.startswith("+ beta/b\n")
    assert run("-C", applied, *APPLY).code == 0
    assert states(run, applied)["beta/c"] == "up"


def test_hosts_know_an_object_by_its_first_name(
    run: Run, applied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As types remember there whose what is there is; a new one of that name is another one."""
    rename(applied, "b", "c")
    nothing_moves(run, applied)
    edit(applied, "    was: b\n", "")
    edit(applied, "cobs:\n", "cobs:\n  b: {type: simple, on: front}\n")
    known: dict[str, str] = {}
    submit = SimulateExecutor.submit

    def note(self: SimulateExecutor, job: Job) -> None:
        known[job.cob] = job.cob_vars["id"]
        submit(self, job)

    monkeypatch.setattr(SimulateExecutor, "submit", note)
    for command in (APPLY, ("drift", "--executor", "simulate")):
        known.clear()
        assert run("-C", applied, *command).code == 0
        assert known["beta/b"] == "beta/b~2"
        assert known.get("beta/c", "beta/b") == "beta/b"
    assert known.keys() == {"alpha/a", "alpha/cfg", "beta/b", "beta/c"}


def test_a_host_that_stands_in_an_old_generation_is_understood(run: Run, applied: Path) -> None:
    """It has not switched when its object is taken away under its second name."""
    rename(applied, "b", "c")
    assert run("-C", applied, *APPLY, "--limit", "alpha").code == 0
    assert states(run, applied).keys() >= {"beta/c"}
    assert run("-C", applied, "plan", "--detailed-exitcode").code == 0
    text = (applied / "site.yml").read_text(encoding="utf-8")
    start = text.index("  c:\n")
    (applied / "site.yml").write_text(text[:start], encoding="utf-8")
    ran = run("-C", applied, *APPLY)
    assert ran.code == 0
    assert "beta/c  up -> down" in ran.err


@pytest.mark.gate("the story of a rename")
def test_an_object_that_was_renamed_goes_under_its_old_needs(run: Run, applied: Path) -> None:
    """Also where its host never switched: the generation is read with today's names."""
    rename(applied, "b", "c")
    with Site(applied) as session:
        store = session.store(create=True)
        store.write([GrantWritten(cob=CobId("alpha/a"), holder=CobId("beta/b"), state="up")])
        store.write([HostLost(host="beta", time=9.0)])
    assert run("-C", applied, *APPLY, "--limit", "beta").code == 0
    with Site(applied) as session:
        assert all(holder != "beta/b" for _, holder, _ in session.store().locks())
        assert [it.new for it in session.store().renames()] == ["beta/c"]


def test_a_saved_plan_of_a_rename_is_carried_out(run: Run, applied: Path, tmp_path: Path) -> None:
    rename(applied, "b", "c")
    plan = tmp_path / "my.plan"
    assert run("-C", applied, "plan", "--out", plan).code == 0
    assert run("-C", applied, "apply", plan, "--executor", "simulate").code == 0
    assert "beta/c" in states(run, applied)


def test_a_protected_object_may_be_renamed_and_stays_protected(run: Run, site: Path) -> None:
    edit(site, B, B + GUARD)
    assert run("-C", site, *APPLY).code == 0
    rename(site, "b", "c")
    nothing_moves(run, site)
    text = (site / "site.yml").read_text(encoding="utf-8")
    (site / "site.yml").write_text(text[: text.index("  c:\n")], encoding="utf-8")
    ran = run("-C", site, *APPLY)
    assert (ran.code, "protected, so not removed: beta/c" in ran.err) == (1, True)


def test_a_rollback_gives_the_old_name_back(run: Run, applied: Path) -> None:
    rename(applied, "b", "c")
    nothing_moves(run, applied)
    ran = run("-C", applied, *BACK)
    assert (ran.code, "0 transitions, 0 checks" in ran.err) == (0, True)
    assert "beta/b" in states(run, applied)
