"""`simulate --from-journal` goes through the change at hand, and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
APPLY = ("apply", "--yes", "--executor", "simulate")
REHEARSE = ("simulate", "--from-journal")


@pytest.fixture
def changed(run: Run, site: Path) -> Path:
    """Make a site that was applied, with a change of a configuration and without `b`."""
    assert run("-C", site, *APPLY).code == 0
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8").replace("port: 8080", "port: 9090")
    text = text.replace("  b:\n    type: simple\n    on: front\n    requires: [a@back]\n", "")
    file.write_text(text, encoding="utf-8")
    return site


def steps(events: Path) -> list[tuple[str, str, str]]:
    """Return the transitions that began."""
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    starts = (line for line in lines if line["type"] == "transition.start")
    return [(line["cob"], line["from"], line["to"]) for line in starts]


def test_the_rehearsal_is_what_the_apply_does_then(run: Run, changed: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    runs = run("-C", changed, "runs", "-o", "json").out
    ran = run("-C", changed, *REHEARSE, "--events", before)
    assert ran.code == 0, ran.err
    assert run("-C", changed, "runs", "-o", "json").out == runs
    assert run("-C", changed, *APPLY, "--events", after).code == 0
    assert steps(before) == steps(after)
    assert ("beta/b", "up", "down") in steps(before)
    assert run("-C", changed, *REHEARSE, "--events", before).code == 0
    assert steps(before) == []


def test_what_would_fail_is_told_beforehand(run: Run, changed: Path) -> None:
    ran = run("-C", changed, *REHEARSE, "--fail", "beta/b")
    assert ran.code == 1
    assert "beta/b failed in this run" in ran.err
    ran = run("-C", changed, *REHEARSE, "--unreachable", "beta")
    assert ran.code == 1
    assert "host beta cannot be reached" in ran.err
    assert run("-C", changed, *REHEARSE).code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--initial", "up"), "--initial does not go with --from-journal"),
        (("--fail", "beta/c"), "there is no object 'beta/c'"),
        (("--unreachable", "bet"), "there is no host 'bet'"),
    ],
)
def test_wrong_usage_is_refused(
    run: Run, changed: Path, options: tuple[str, ...], said: str
) -> None:
    ran = run("-C", changed, *REHEARSE, *options)
    assert ran.code == 64
    assert said in ran.err


def test_before_the_first_apply_all_is_new(run: Run, site: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    assert run("-C", site, *REHEARSE, "--events", events).code == 0
    assert {(source, dest) for _, source, dest in steps(events)} == {("down", "up")}
    assert not (site / ".cobweb/state.db").exists()
