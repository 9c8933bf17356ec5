"""How a plan reads in which objects are gone: what becomes of them, and how hosts switch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.model import CobId
from cobweb.store import HostLost, StateWritten
from tests.cli.test_stale_plans import APPLY, edit, written

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"
A, B = CobId("alpha/a"), CobId("beta/b")
WITHOUT_B = "  b:\n    type: simple\n    on: front\n    requires: [a@back]\n"


@pytest.fixture
def applied(run: Run, site: Path) -> Path:
    """Return the site after its first apply, with one object more on a third host."""
    edit(site, "      back:", "      other: {hosts: {gamma: {}}}\n      back:")
    edit(site, "cobs:\n", "cobs:\n  extra: {type: simple, on: other}\n")
    assert run("-C", site, *APPLY).code == 0
    return site


def test_a_removal_its_steps_and_the_order_of_switching_are_told(
    run: Run, applied: Path, check_schema: CheckSchema
) -> None:
    edit(applied, WITHOUT_B, "")
    edit(applied, "  a:\n    type: simple\n    on: back\n", "")
    edit(applied, "    stops: [a]\n", "")
    ran = run("-C", applied, "plan", "--detailed-exitcode")
    assert ran.code == 2
    expected = (
        "- alpha/a (removed: up -> down, then forgotten)\n"
        "- beta/b (removed: up -> down, then forgotten)\n"
        "? 2 objects to be checked first\n"
        "\n"
        "STAGE  OBJECT   TRANSITION  AFTER\n"
        "    1  beta/b   up -> down\n"
        "    2  alpha/a  up -> down  beta/b\n"
        "hosts switch: alpha, then beta; gamma at any time\n"
        "gone for good: alpha/a, beta/b\n"
        "critical path: beta/b down > alpha/a down\n"
    )
    assert ran.out == expected
    assert f"$ cobweb plan\n{ran.out}{ran.err}```" in PAGE.read_text(encoding="utf-8")
    data = json.loads(run("-C", applied, "plan", "-o", "json").out)
    check_schema("plan", data)
    assert data["counts"] == {"add": 0, "change": 0, "remove": 2}
    assert data["switches"] == [["gamma"], ["alpha"], ["beta"]]
    assert [change["kind"] for change in data["changes"]] == ["removed", "removed"]
    assert run("-C", applied, *APPLY).code == 0
    assert run("-C", applied, "plan", "--detailed-exitcode").code == 0


def test_a_removed_object_that_is_there_already_is_only_forgotten(run: Run, applied: Path) -> None:
    written(applied, StateWritten(cob=B, state="down", reason="check", time=2.0))
    edit(applied, WITHOUT_B, "")
    ran = run("-C", applied, "plan", "--refresh", "none")
    assert ran.err == "0 to add, 0 to change, 1 to remove; no transition\n"
    out = run("-C", applied, "plan").out
    assert out.startswith("- beta/b (removed: forgotten)\n")
    assert "hosts switch: beta; alpha, gamma at any time\n" in out


def test_a_plan_of_a_part_removes_on_its_hosts_alone(run: Run, applied: Path) -> None:
    edit(applied, WITHOUT_B, "")
    edit(applied, "  extra: {type: simple, on: other}\n", "")
    out = run("-C", applied, "plan", "--limit", "beta").out
    assert "- beta/b (removed: up -> down, then forgotten)\n" in out
    assert "hosts switch: beta\n" in out
    assert "gamma" not in out


def test_why_a_removal_is_not_possible_is_told(run: Run, applied: Path) -> None:
    """Nothing says what `beta/x` is: no generation has it."""
    written(applied, StateWritten(cob=CobId("beta/x"), state="up", reason="check", time=2.0))
    edit(applied, "cobs:\n", "cobs:\n  new: {type: simple, on: front}\n")
    out = run("-C", applied, "plan").out
    assert "- beta/x (removed: not possible, see below)\n" in out
    assert "beta/x would stay up:\n" in out
    assert "`cobweb forget` gives it up" in out
    assert "hosts switch: alpha, gamma at any time\n" in out


def test_many_hosts_are_folded(run: Run, make_site: Callable[[str], Path], site_text: str) -> None:
    many = make_site(site_text.replace("{beta: {}}", "{'web[01:30]': {}}"))
    assert run("-C", many, *APPLY).code == 0
    edit(many, "requires: [a@back]", "on: 'front:!web0[1-9]'\n    after: [a@back]")
    edit(many, "    type: simple\n    on: front\n", "    type: simple\n")
    out = run("-C", many, "plan").out
    assert "hosts switch: web01, then web02, then web03" in out
    edit(many, "    on: 'front:!web0[1-9]'\n", "    on: web30\n")
    lines = run("-C", many, "plan").out.replace("\n", " ")
    assert "then web10, then 19 more, one after the other; alpha, web30 at any time" in lines


def test_hosts_that_are_known_to_be_lost_are_still_asked(run: Run, applied: Path) -> None:
    """What could not be reached the last time is checked first, so a plan counts on it."""
    with Site(applied) as session:
        session.store(create=True).write([HostLost(host="beta", time=3.0)])
    edit(applied, WITHOUT_B, "")
    out = run("-C", applied, "plan").out
    assert "- beta/b (removed: up -> down, then forgotten)\n" in out
    assert "? 1 object to be checked first" in out


def test_what_nobody_can_remove_is_told_at_every_run(run: Run, applied: Path) -> None:
    written(applied, StateWritten(cob=CobId("beta/x"), state="up", reason="check", time=2.0))
    for _ in range(2):
        ran = run("-C", applied, *APPLY)
        assert ran.code == 1
        assert "beta/x has no way to removal (no generation says how" in ran.err
    assert run("-C", applied, "plan", "--detailed-exitcode").code == 2


def test_a_site_goes_whole_and_comes_back(run: Run, applied: Path) -> None:
    """By one word, with nothing else of the site touched; `status` and `show` know no objects."""
    there = {it["id"] for it in json.loads(run("-C", applied, "graph", "-o", "json").out)["cobs"]}
    edit(applied, "cobs:\n", "present: false\ncobs:\n")
    planned = json.loads(run("-C", applied, "plan", "-o", "json").out)
    assert {change["kind"] for change in planned["changes"]} == {"removed"}
    assert {change["cob"] for change in planned["changes"]} == there
    assert run("-C", applied, *APPLY).code == 0
    assert json.loads(run("-C", applied, "graph", "-o", "json").out)["cobs"] == []
    assert run("-C", applied, "plan", "--detailed-exitcode").code == 0
    edit(applied, "present: false", "present: true")
    back = json.loads(run("-C", applied, "plan", "-o", "json").out)
    assert {change["kind"] for change in back["changes"]} == {"added"}
    assert run("-C", applied, *APPLY).code == 0
