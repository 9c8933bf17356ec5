"""More removals than a plan may have unasked are refused before anything is done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_protection import journal
from tests.cli.test_stale_plans import APPLY, edit

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
MORE = "".join(f"  x{n}: {{type: simple, on: back}}\n" for n in range(7))
SAID = (
    "4 removals, of 10 known objects, are more than 3 "
    "(if `cobweb plan` shows what is meant: --max-removals 4)"
)


def without(site: Path, count: int) -> None:
    """Take some objects out of the site."""
    for n in range(count):
        edit(site, f"  x{n}: {{type: simple, on: back}}\n", "")


@pytest.fixture
def large(run: Run, site: Path) -> Path:
    """Return a site of ten objects after its first apply."""
    edit(site, "cobs:\n", "cobs:\n" + MORE)
    assert run("-C", site, *APPLY).code == 0
    return site


def test_too_many_removals_are_refused_and_leave_no_trace(
    run: Run, large: Path, check_schema: CheckSchema
) -> None:
    without(large, 4)
    before = journal(run, large)
    ran = run("-C", large, *APPLY)
    assert (ran.code, ran.err) == (1, f"cobweb: {SAID}\n")
    assert journal(run, large) == before
    plan = run("-C", large, "plan", "--detailed-exitcode")
    assert plan.code == 1
    assert "0 to add, 0 to change, 4 to remove" in plan.err
    assert plan.err.endswith(f"an apply of this is refused: {SAID}\n")
    data = json.loads(run("-C", large, "plan", "-o", "json").out)
    check_schema("plan", data)
    assert [it["kind"] for it in data["refusals"]] == ["removals"]
    assert data["refusals"][0]["cobs"] == [f"alpha/x{n}" for n in range(4)]


@pytest.mark.parametrize("most", ["4", "40%", "100%"])
def test_they_go_where_that_is_said(run: Run, large: Path, most: str) -> None:
    without(large, 4)
    plan = ("plan", "--detailed-exitcode", "--max-removals", most)
    assert run("-C", large, *plan).code == 2
    assert run("-C", large, *APPLY, "--max-removals", most).code == 0


def test_three_may_always_go(run: Run, large: Path) -> None:
    without(large, 3)
    assert run("-C", large, *APPLY).code == 0


def test_none_may_go_where_that_is_said(run: Run, large: Path) -> None:
    without(large, 1)
    ran = run("-C", large, *APPLY, "--max-removals", "0")
    assert ran.code == 1
    assert "1 removals" not in ran.err
    assert "1 removal, of 10 known objects, is more than 0" in ran.err


def test_a_limit_counts_against_all_that_is_known(run: Run, large: Path) -> None:
    without(large, 4)
    assert run("-C", large, *APPLY, "--limit", "beta").code == 0
    assert run("-C", large, *APPLY, "--limit", "alpha").code == 1
    assert run("-C", large, *APPLY, "--limit", "alpha", "--max-removals", "40%").code == 0


def test_a_site_that_is_to_go_may(run: Run, large: Path) -> None:
    edit(large, "cobs:\n", "present: false\ncobs:\n")
    assert run("-C", large, "plan").code == 0
    assert run("-C", large, *APPLY).code == 0


def test_a_rollback_is_no_exception_unless_it_is_that_of_a_failed_apply(
    run: Run, site: Path
) -> None:
    assert run("-C", site, *APPLY).code == 0
    edit(site, "cobs:\n", "cobs:\n" + MORE)
    assert run("-C", site, *APPLY).code == 0
    back = ("rollback", "--yes", "--executor", "simulate")
    ran = run("-C", site, *back)
    assert ran.code == 1
    assert "7 removals, of 10 known objects, are more than 3" in ran.err
    assert run("-C", site, "plan", "--generation", "1").code == 1
    assert run("-C", site, *back, "--max-removals", "70%").code == 0


def test_a_saved_plan_is_no_exception(run: Run, large: Path, tmp_path: Path) -> None:
    without(large, 4)
    plan = tmp_path / "my.plan"
    assert run("-C", large, "plan", "--out", plan).code == 1
    assert run("-C", large, "apply", plan, "--executor", "simulate").code == 1
    most = ("--max-removals", "4")
    assert run("-C", large, "apply", plan, "--executor", "simulate", *most).code == 0


def test_what_is_wrong_with_the_option_is_told(run: Run, large: Path) -> None:
    assert run("-C", large, *APPLY, "--max-removals", "many").code == 64
