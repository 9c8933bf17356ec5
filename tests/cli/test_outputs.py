"""What the commands that run a site write follows the shipped schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 0),
        (["--initial", "up"], 0),
        (["--fail", "alpha/a"], 1),
        (["--unreachable", "alpha"], 1),
        (["--limit", "alpha"], 0),
    ],
)
def test_a_simulation_tells_its_result_and_events(
    run: Run, site: Path, check_schema: CheckSchema, arguments: list[str], code: int
) -> None:
    events = site.parent / "events.jsonl"
    ran = run("-C", site, "simulate", "-o", "json", "--events", events, *arguments)
    assert ran.code == code, ran.err
    data = json.loads(ran.out)
    check_schema("result", data)
    assert data["exit_code"] == code
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        check_schema("events", line)
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert [lines[0]["type"], lines[1]["type"], lines[-1]["type"]] == [
        "version",
        "run.start",
        "run.end",
    ]


def test_a_plan_follows_its_schema(
    run: Run, site: Path, tmp_path: Path, check_schema: CheckSchema
) -> None:
    ran = run("-C", site, "plan", "-o", "json", "--out", tmp_path / "plan.json")
    assert ran.code == 0, ran.err
    check_schema("plan", json.loads(ran.out))
    check_schema("plan", json.loads((tmp_path / "plan.json").read_text(encoding="utf-8")))


def test_the_status_of_a_new_site_follows_its_schema(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    data = json.loads(run("-C", site, "status", "-o", "json").out)
    check_schema("status", data)
    assert {cob["state"] for cob in data["cobs"]} == {"unknown"}


def test_a_reason_follows_its_schema(run: Run, site: Path, check_schema: CheckSchema) -> None:
    ran = run("-C", site, "why", "beta/b", "-o", "json")
    assert ran.code == 0, ran.err
    check_schema("why", json.loads(ran.out))
