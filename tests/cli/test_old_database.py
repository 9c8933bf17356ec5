"""A state database that Cobweb 0.1 made is read by every command, and upgraded by an apply."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

SCRIPT = Path(__file__).parents[1] / "store" / "format1" / "sqlite.sql"
SITE = """\
cobweb: 1
name: old
inventory: {all: {hosts: {h1: {}, h2: {}}}}
types:
  simple:
    states: [outdated, down, up]
    preferred: up
    remove: down
    spec: {type: object}
    check: {tasks: t.yml}
    transitions:
      down -> up: {tasks: t.yml}
      up -> down: {tasks: t.yml}
      outdated -> up: {tasks: t.yml}
cobs:
  a: {type: simple, on: all, spec: {port: 1}}
  b: {type: simple, on: h2, requires: [a], spec: {port: 2}}
"""
RUN = "20261121-143205-43a6"


@pytest.fixture
def old(make_site: Callable[[str], Path]) -> Path:
    """Make the site that the old database is of."""
    folder = make_site(SITE)
    (folder / "t.yml").write_text("[]\n", encoding="utf-8")
    (folder / ".cobweb").mkdir()
    with closing(sqlite3.connect(folder / ".cobweb/state.db")) as database:
        database.executescript(SCRIPT.read_text(encoding="utf-8"))
    return folder


def form(site: Path) -> str:
    with closing(sqlite3.connect(site / ".cobweb/state.db")) as database:
        return str(database.execute("SELECT value FROM cobweb_meta").fetchone()[0])


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["status"], "h2/b"),
        (["why", "h2/b"], "h2/b is up, as wanted"),
        (["why", "h2/b", "--run", RUN], "h2/b was up"),
        (["runs"], RUN),
        (["report"], f"run {RUN}: ok"),
        (["generations"], "second ü"),
        (["diff", "1", "2"], "~ h2/b\n    -port: 1\n    +port: 2\n"),
        (["diff", "2"], ""),
        (["plan"], ""),
        (["lock", "show"], "the site is not locked"),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, list) else None,
)
def test_commands_that_only_read_leave_it_as_it_is(
    run: Run, old: Path, command: list[str], told: str
) -> None:
    before = (old / ".cobweb/state.db").read_bytes()
    ran = run("-C", old, *command)
    assert ran.code == 0, ran.err
    assert told in ran.out
    assert (old / ".cobweb/state.db").read_bytes() == before


def test_a_plan_made_before_the_upgrade_is_carried_out_after_it(
    run: Run, old: Path, tmp_path: Path
) -> None:
    text = (old / "site.yml").read_text(encoding="utf-8")
    (old / "site.yml").write_text(text.replace("port: 2", "port: 3"), encoding="utf-8")
    plan = tmp_path / "my.plan"
    assert run("-C", old, "plan", "--out", plan).code == 0
    assert form(old) == "1"
    ran = run("-C", old, "apply", plan, "--executor", "simulate")
    assert ran.code == 0, ran.err
    assert form(old) == "5"
    data = json.loads(run("-C", old, "generations", "-o", "json").out)
    assert [it["reached"] is not None for it in data["generations"]] == [True, True, False]
    assert data["hosts"] == {"h1": 3, "h2": 3}


def test_what_is_removed_after_the_upgrade_is_removed_as_the_old_generation_says(
    run: Run, old: Path
) -> None:
    text = (old / "site.yml").read_text(encoding="utf-8")
    (old / "site.yml").write_text(text.partition("  b:")[0], encoding="utf-8")
    ran = run("-C", old, "apply", "--yes", "--executor", "simulate", "--events", "-")
    assert ran.code == 0, ran.err
    events = [json.loads(line) for line in ran.out.splitlines()]
    moved = [(it["cob"], it["to"]) for it in events if it["type"] == "transition.start"]
    assert moved == [("h2/b", "down")]
    assert [
        cob["id"] for cob in json.loads(run("-C", old, "status", "-o", "json").out)["cobs"]
    ] == [
        "h1/a",
        "h2/a",
    ]


def test_old_generations_can_be_deleted(run: Run, old: Path) -> None:
    ran = run("-C", old, "gc", "--keep-generations", "1")
    assert (ran.code, ran.err) == (0, "1 generation and 0 runs deleted\n")
    assert form(old) == "5"
