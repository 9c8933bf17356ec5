"""`cobweb generations` lists what was desired; one that is damaged is replaced, or deleted."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]


@pytest.fixture
def edit(site: Path) -> Callable[[str, str], None]:
    """Replace a text of site.yml."""

    def call(old: str, new: str) -> None:
        file = site / "site.yml"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    return call


@pytest.fixture
def grown(run: Run, site: Path, edit: Callable[[str, str], None]) -> Path:
    """Make a site with three generations, the last one for one host only."""
    apply = ("-C", site, "apply", "--yes", "--executor", "simulate")
    assert run(*apply, "-m", "the first").code == 0
    edit("port: 8080", "port: 8081")
    assert run(*apply).code == 0
    edit("  b:\n    type: simple\n", "  b:\n    type: simple\n    spec: {port: 1}\n")
    assert run(*apply, "--limit", "alpha").code == 0
    return site


def data_of(ran: Any) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_generations_are_listed_the_newest_first(
    run: Run, grown: Path, check_schema: CheckSchema
) -> None:
    data = data_of(run("-C", grown, "generations", "-o", "json"))
    check_schema("generations", data)
    assert [it["id"] for it in data["generations"]] == [3, 2, 1]
    assert [it["parent"] for it in data["generations"]] == [2, 1, 0]
    assert [it["reached"] is not None for it in data["generations"]] == [False, True, True]
    assert [it["message"] for it in data["generations"]] == ["", "", "the first"]
    assert (data["current"], data["hosts"]) == (3, {"alpha": 3, "beta": 2})
    assert len(data_of(run("-C", grown, "generations", "-n1", "-o", "json"))["generations"]) == 1


def test_the_list_is_for_people_as_well(run: Run, grown: Path) -> None:
    ran = run("-C", grown, "generations")
    head, *rows = (line.split() for line in ran.out.splitlines())
    assert head == ["GEN", "MADE", "WHO", "REACHED", "HOSTS", "COMMIT", "MESSAGE"]
    assert [row[0] for row in rows] == ["3", "2", "1"]
    assert [row.count("*") for row in rows] == [1, 0, 0]
    assert rows[2][-2:] == ["the", "first"]
    assert max(map(len, ran.out.splitlines())) <= 80
    assert ran.err == "3 generations, * is the current one\n1 host is in an earlier one\n"


def test_a_part_of_the_list_says_of_how_many_it_is(
    run: Run, grown: Path, check_schema: CheckSchema
) -> None:
    end = ", * is the current one\n1 host is in an earlier one\n"
    told = {n: run("-C", grown, "generations", f"-n{n}").err for n in (1, 2, 3, 4)}
    assert told == {
        1: f"the last 1 of 3 generations; -n shows more{end}",
        2: f"the last 2 of 3 generations; -n shows more{end}",
        3: f"3 generations{end}",
        4: f"3 generations{end}",
    }
    data = data_of(run("-C", grown, "generations", "-n1", "-o", "json"))
    check_schema("generations", data)
    assert (data["stored"], len(data["generations"])) == (3, 1)


def test_a_generation_names_the_commit_and_that_there_were_changes(run: Run, site: Path) -> None:
    author = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "all")):
        subprocess.run(["git", *author, *arguments], cwd=site, check=True)
    (site / "new.yml").touch()
    assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0
    (told,) = data_of(run("-C", site, "generations", "-o", "json"))["generations"]
    assert told["commit"].endswith("+changes")
    assert f" {told['commit'][:7]}+" in run("-C", site, "generations").out


def test_a_site_without_generations_says_so_and_makes_no_database(run: Run, site: Path) -> None:
    ran = run("-C", site, "generations")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("no generation yet in the state database")
    assert not (site / ".cobweb").exists()


def test_history_is_told_of_a_site_that_is_broken_by_now(run: Run, grown: Path) -> None:
    with (grown / "site.yml").open("a") as file:
        file.write("nonsense: 1\n")
    assert run("-C", grown, "generations").err.startswith("3 generations")
    assert run("-C", grown, "gc").code == 0


def test_a_message_cannot_write_escape_sequences(run: Run, site: Path) -> None:
    arguments = ("--yes", "--executor", "simulate", "-m", "\x1b[2Jevil\nline")
    assert run("-C", site, "apply", *arguments).code == 0
    told = run("-C", site, "generations").out
    assert "\x1b" not in told
    assert "evil" in told


def test_a_damaged_generation_is_replaced_by_the_next_apply_and_can_be_deleted(
    run: Run, grown: Path
) -> None:
    with closing(sqlite3.connect(grown / ".cobweb/state.db")) as database, database:
        database.execute("UPDATE cobweb_generations SET content = x'00' WHERE id = 3")
    assert run("-C", grown, "generations").err.startswith("3 generations")
    assert run("-C", grown, "status").code == 0
    ran = run("-C", grown, "apply", "--yes", "--executor", "simulate")
    assert ran.code == 0, ran.err
    assert data_of(run("-C", grown, "gc", "-o", "json"))["generations"] == [3]
    data = data_of(run("-C", grown, "generations", "-o", "json"))
    assert [it["id"] for it in data["generations"]] == [4, 2, 1]
    assert data["hosts"] == {"alpha": 4, "beta": 4}


def test_a_removal_that_needs_a_damaged_generation_changes_nothing(
    run: Run, grown: Path, edit: Callable[[str, str], None]
) -> None:
    with closing(sqlite3.connect(grown / ".cobweb/state.db")) as database, database:
        database.execute("UPDATE cobweb_generations SET content = x'00' WHERE id = 2")
    edit("  b:\n    type: simple\n    spec: {port: 1}\n    on: front\n    requires: [a@back]\n", "")
    states = data_of(run("-C", grown, "status", "-o", "json"))["cobs"]
    ran = run("-C", grown, "apply", "--yes", "--executor", "simulate")
    assert ran.code == 1
    assert "generation 2 in the state database" in ran.err
    assert "is damaged" in ran.err
    assert data_of(run("-C", grown, "status", "-o", "json"))["cobs"] == states
    assert run("-C", grown, "gc").out.startswith("deleted: generation 2 of")
    ran = run("-C", grown, "apply", "--yes", "--executor", "simulate")
    assert ran.code == 0, ran.err
    assert [cob["id"] for cob in data_of(run("-C", grown, "status", "-o", "json"))["cobs"]] == [
        "alpha/a",
        "alpha/cfg",
    ]
