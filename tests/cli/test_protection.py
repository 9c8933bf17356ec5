"""What is protected is removed by no run as long as the generation of its host says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_stale_plans import APPLY, edit

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
B = "  b:\n    type: simple\n    on: front\n    requires: [a@back]\n"
GUARD = "    protect: true\n"
SAID = (
    "protected, so not removed: beta/b by generation 1 "
    "(apply it without `protect: true` first, while it is in the site; then take it out)"
)


@pytest.fixture
def guarded(run: Run, site: Path) -> Path:
    """Return the site after its first apply, which protects `b`."""
    edit(site, B, B + GUARD)
    assert run("-C", site, *APPLY).code == 0
    return site


def journal(run: Run, site: Path) -> tuple[str, ...]:
    """Return all that a run would leave behind."""
    words = (("generations",), ("runs",), ("status",))
    return tuple(run("-C", site, *each, "-o", "json").out for each in words)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (B + GUARD, ""),
        ("    on: front\n", "    on: back\n"),
        ("cobs:\n", "present: false\ncobs:\n"),
        ("  b:\n", "  c:\n"),
    ],
    ids=["gone", "moved", "all", "renamed"],
)
def test_a_removal_is_refused_and_leaves_no_trace(
    run: Run, guarded: Path, check_schema: CheckSchema, old: str, new: str
) -> None:
    edit(guarded, old, new)
    before = journal(run, guarded)
    ran = run("-C", guarded, *APPLY)
    assert (ran.code, ran.err) == (1, f"cobweb: {SAID}\n")
    assert journal(run, guarded) == before
    plan = run("-C", guarded, "plan", "--detailed-exitcode")
    assert plan.code == 1
    assert "- beta/b (removed: up -> down, then forgotten)\n" in plan.out
    assert plan.err.endswith(f"an apply of this is refused: {SAID}\n")
    data = json.loads(run("-C", guarded, "plan", "-o", "json").out)
    check_schema("plan", data)
    assert [(it["kind"], it["cobs"]) for it in data["refusals"]] == [("protected", ["beta/b"])]


@pytest.mark.parametrize("way", ["    protect: false\n", ""])
def test_it_goes_once_it_was_applied_without(run: Run, guarded: Path, way: str) -> None:
    edit(guarded, GUARD, way)
    assert run("-C", guarded, "plan", "--detailed-exitcode").code == 0
    assert run("-C", guarded, *APPLY).code == 0
    edit(guarded, B + way, "")
    assert run("-C", guarded, *APPLY).code == 0
    assert "beta/b" not in run("-C", guarded, "status").out


def test_what_becomes_something_else_is_removed_first(run: Run, guarded: Path) -> None:
    text = (guarded / "site.yml").read_text(encoding="utf-8")
    kind = text[text.index("  simple:\n") : text.index("cobs:\n")]
    edit(guarded, "cobs:\n", kind.replace("simple:", "other:") + "cobs:\n")
    edit(guarded, B, B.replace("simple", "other"))
    ran = run("-C", guarded, *APPLY)
    assert (ran.code, SAID in ran.err) == (1, True)


def test_a_change_of_its_content_is_none_of_its_business(run: Run, guarded: Path) -> None:
    edit(guarded, GUARD, GUARD + "    spec: {x: 1}\n")
    assert run("-C", guarded, *APPLY).code == 0


def test_a_rollback_does_not_remove_it_either(run: Run, site: Path) -> None:
    text = (site / "site.yml").read_text(encoding="utf-8")
    edit(site, B, "")
    assert run("-C", site, *APPLY).code == 0
    (site / "site.yml").write_text(text.replace(B, B + GUARD), encoding="utf-8")
    assert run("-C", site, *APPLY).code == 0
    ran = run("-C", site, "rollback", "--yes", "--executor", "simulate")
    assert ran.code == 1
    assert "protected, so not removed: beta/b by generation 2" in ran.err
    assert run("-C", site, "plan", "--generation", "1").code == 1


def test_a_limit_leaves_what_is_elsewhere_alone(run: Run, guarded: Path) -> None:
    edit(guarded, B + GUARD, "")
    assert run("-C", guarded, *APPLY, "--limit", "alpha").code == 0
    assert run("-C", guarded, *APPLY, "--limit", "beta").code == 1


def test_it_can_be_given_up_as_it_is(run: Run, guarded: Path) -> None:
    edit(guarded, B + GUARD, "")
    assert run("-C", guarded, "forget", "beta/b", "--yes").code == 0
    assert run("-C", guarded, *APPLY).code == 0


def test_on_a_terminal_nobody_is_asked(
    run: Run, guarded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    edit(guarded, B + GUARD, "")
    ran = run("-C", guarded, "apply", "--executor", "simulate", "--no-color")
    assert ran.code == 1
    assert "[y/N]" not in ran.err
    assert SAID in ran.err


def test_a_difference_in_it_is_told(run: Run, guarded: Path) -> None:
    edit(guarded, GUARD, "")
    assert "-(protect): true" in run("-C", guarded, "diff").out


def test_of_many_some_are_named(run: Run, site: Path) -> None:
    edit(
        site,
        "cobs:\n",
        "cobs:\n"
        + "".join(f"  x{n}: {{type: simple, on: back, protect: true}}\n" for n in range(7)),
    )
    assert run("-C", site, *APPLY).code == 0
    edit(site, "cobs:\n", "present: false\ncobs:\n")
    ran = run("-C", site, "plan")
    assert "alpha/x4 by generation 1 and 2 more (apply" in ran.err
