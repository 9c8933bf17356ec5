"""`--max-unreachable`: how many hosts may be silent, and what is told where more are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli._parameters import FAILURES
from cobweb.cli._running import lost_bound

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]


@pytest.mark.parametrize(
    ("asked", "hosts", "most"),
    [
        ("40%", 6, 2),
        ("40%", 10, 4),
        ("40%", 2, 1),
        ("40%", 1, 1),
        ("0%", 10, 0),
        ("100%", 7, 7),
        ("3", 100, 3),
        ("0", 100, 0),
    ],
)
def test_a_share_allows_one_host_in_any_case(asked: str, hosts: int, most: int) -> None:
    bound = lost_bound(FAILURES.convert(asked, None, None))
    assert bound is not None
    assert bound(hosts) == most


def test_without_a_share_all_may_be_silent() -> None:
    assert lost_bound(None) is None


def test_a_run_that_loses_too_many_hosts_says_so_at_its_end(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    lost = ("simulate", "--unreachable", "alpha", "--unreachable", "beta")
    ran = run("-C", site, *lost, "--max-unreachable", "50%")
    assert ran.code == 1
    assert (
        "stopped: 2 of 2 hosts cannot be reached (alpha, beta), --max-unreachable allows 1; "
        "nothing was changed\n"
    ) in ran.err
    data = json.loads(run("-C", site, *lost, "--max-unreachable", "1", "-o", "json").out)
    check_schema("result", data)
    assert data["stopped"].startswith("2 of 2 hosts")
    free = json.loads(run("-C", site, *lost, "-o", "json").out)
    check_schema("result", free)
    assert (free["exit_code"], free["stopped"]) == (1, "")


def test_apply_has_a_share_and_simulate_has_none(run: Run) -> None:
    assert "[default: 40%]" in " ".join(run("apply", "--help").out.split())
    assert "--max-unreachable" in run("simulate", "--help").out
    assert "40%" not in run("simulate", "--help").out
