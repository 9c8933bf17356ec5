"""`cobweb gc` deletes old history, says what of it, and whoever asks for that later is told."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.operations import Orders, Retention
from cobweb.store import RunInfo

pytestmark = [
    pytest.mark.full(
        "what a collection keeps, by commands; operations/test_collection.py is in the gate"
    )
]

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
SIMULATED = ("--executor", "simulate")
APPLY = ("apply", "--yes", *SIMULATED)
LEAST_KEPT = Retention(generations=1, runs=1)
LEAST = ("gc", "--keep-generations", "1", "--keep-runs", "1")


def edit(site: Path, port: int) -> None:
    """Give the site another content."""
    file = site / "site.yml"
    head, _, rest = file.read_text(encoding="utf-8").partition("port: ")
    file.write_text(f"{head}port: {port}{rest[4:]}", encoding="utf-8")


@pytest.fixture
def grown(run: Run, site: Path) -> Path:
    """Make a site with four generations, and a run for each."""
    for port in range(8081, 8085):
        edit(site, port)
        assert run("-C", site, *APPLY).code == 0
    return site


def data_of(ran: Any) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def runs_of(run: Run, site: Path) -> list[str]:
    """Return the ids of the runs, the newest first."""
    return [it["id"] for it in data_of(run("-C", site, "runs", "-o", "json"))["runs"]]


def generations_of(run: Run, site: Path) -> list[int]:
    data = data_of(run("-C", site, "generations", "-o", "json"))
    return [it["id"] for it in data["generations"]]


@pytest.mark.gate("the command once")
def test_old_history_goes_and_is_told(run: Run, grown: Path) -> None:
    runs = runs_of(run, grown)
    ran = run("-C", grown, "gc")
    assert (ran.code, ran.out, ran.err) == (0, "", "0 generations and 0 runs deleted\n")
    ran = run("-C", grown, "gc", "--keep-generations", "1", "--keep-runs", "2")
    *generations, last = ran.out.splitlines()
    assert [line.partition(" of 20")[0] for line in generations] == [
        "deleted: generation 2",
        "deleted: generation 1",
    ]
    assert last == f"deleted: 2 runs, {runs[3]} to {runs[2]}"
    assert ran.err == "2 generations and 2 runs deleted\n"
    assert (generations_of(run, grown), runs_of(run, grown)) == ([4, 3], runs[:2])
    ran = run("-C", grown, *LEAST)
    assert (ran.out, ran.err) == (
        f"deleted: 1 run, {runs[1]}\n",
        "0 generations and 1 run deleted\n",
    )


def test_what_went_is_there_as_data(run: Run, grown: Path, check_schema: CheckSchema) -> None:
    runs = runs_of(run, grown)
    dry = data_of(run("-C", grown, *LEAST, "--dry-run", "-o", "json"))
    check_schema("gc", dry)
    wanted = {"format": 1, "generations": [2, 1], "runs": runs[1:]}
    assert dry == wanted | {"dry_run": True}
    assert runs_of(run, grown) == runs
    told = data_of(run("-C", grown, *LEAST, "-o", "json"))
    check_schema("gc", told)
    assert told == wanted | {"dry_run": False}
    assert runs_of(run, grown) == runs[:1]


@pytest.mark.gate("the command once")
def test_looking_at_what_would_go_takes_no_lock_and_changes_nothing(run: Run, grown: Path) -> None:
    assert run("-C", grown, "lock", "hold", "--for", "10m").code == 0
    ran = run("-C", grown, *LEAST, "--dry-run")
    assert ran.code == 0
    assert ran.out.startswith("to be deleted: generation 2 of 20")
    assert ran.err == "2 generations and 3 runs to be deleted\n"
    assert run("-C", grown, *LEAST).code == 5
    assert (len(runs_of(run, grown)), generations_of(run, grown)) == (4, [4, 3, 2, 1])


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["gc", "dry-run"])
def test_where_there_is_no_history_no_database_is_made(
    run: Run, site: Path, more: tuple[str, ...]
) -> None:
    ran = run("-C", site, "gc", *more)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("0 generations and 0 runs ")
    assert not (site / ".cobweb").exists()


def test_what_is_younger_than_told_is_kept(run: Run, grown: Path) -> None:
    runs = runs_of(run, grown)
    assert run("-C", grown, *LEAST, "--older", "1h").err == "0 generations and 0 runs deleted\n"
    with closing(sqlite3.connect(grown / ".cobweb/state.db")) as database, database:
        database.execute("UPDATE cobweb_runs SET started = started - 7200 WHERE number < 3")
        database.execute("UPDATE cobweb_generations SET time = time - 7200 WHERE id < 2")
    assert run("-C", grown, *LEAST, "--older", "2d").err == "0 generations and 0 runs deleted\n"
    told = data_of(run("-C", grown, *LEAST, "--older", "1h", "-o", "json"))
    assert (told["runs"], told["generations"]) == (runs[2:], [1])
    assert run("-C", grown, *LEAST, "--older", "tomorrow").code == 64


def test_whoever_asks_for_what_went_is_told(run: Run, grown: Path) -> None:
    _, newest, *_, oldest = runs_of(run, grown)
    assert run("-C", grown, *LEAST).code == 0
    message = f"there is no run {oldest!r}: `cobweb gc` has deleted runs up to {newest[:15]}"
    hint = "(`cobweb runs` lists those that are left)"
    for command in (("report", oldest), ("why", "beta/b", "--run", oldest)):
        ran = run("-C", grown, *command)
        assert (ran.code, ran.err) == (64, f"cobweb: {message} {hint}\n")
    assert run("-C", grown, "runs").err == "1 run; earlier ones were deleted by `cobweb gc`\n"
    later = run("-C", grown, "report", "99991231-000000-abcd").err
    assert "there is no run '99991231-000000-abcd'" in later
    assert "cobweb gc" not in later
    gone = "generation 1 was deleted by `cobweb gc`"
    for words in ("rollback 1 --yes", "plan --generation 1", "diff 1"):
        ran = run("-C", grown, *words.split())
        assert ran.code == 64
        assert gone in ran.err
    assert "there is no generation 9" in run("-C", grown, "rollback", "9", "--yes").err


def test_a_run_without_an_end_stays(run: Run, grown: Path) -> None:
    command = "apply --executor simulate"
    info = RunInfo(id="0-killed", command=command, started=1.0, user="u", host="h", pid=1)
    with Site(grown) as site:
        site.store(create=True).begin_run(info)
    assert run("-C", grown, *APPLY).code == 0
    last, killed, *rest = runs_of(run, grown)
    assert data_of(run("-C", grown, *LEAST, "-o", "json"))["runs"] == rest
    assert (killed, runs_of(run, grown)) == ("0-killed", [last, killed])


def test_what_the_last_apply_left_waiting_is_known_however_often_drift_was_sought(
    run: Run, site: Path
) -> None:
    assert run("-C", site, *APPLY, "--limit", "alpha").code == 0
    for _ in range(3):
        assert run("-C", site, "drift", *SIMULATED).code == 0
    before = run("-C", site, "why", "beta/b", "-o", "json")
    apply = runs_of(run, site)[-1]
    assert len(data_of(run("-C", site, *LEAST, "-o", "json"))["runs"]) == 2
    assert runs_of(run, site)[-1] == apply
    assert run("-C", site, "why", "beta/b", "-o", "json") == before


def test_how_drift_was_noticed_first_stays_until_it_is_repaired(run: Run, grown: Path) -> None:
    changed = Orders(executor="simulate", options={"initial": {"beta/b": "outdated"}})
    with Site(grown) as site:
        (first,) = site.drift(orders=changed).drifted
        assert (first.cob, first.was, first.state) == ("beta/b", "up", "outdated")
        site.drift("alpha", Orders(executor="simulate"))
        look = runs_of(run, grown)[1]
        assert look not in {it.info.id for it in site.gc(LEAST_KEPT).runs}
        (again,) = site.drift(orders=changed).drifted
        assert (again.was_since, again.since) == (first.was_since, first.since)
        for _ in range(2):
            site.apply(orders=Orders(executor="simulate"))
        site.gc(LEAST_KEPT)
    assert len(runs_of(run, grown)) == 1


def test_a_rollback_can_be_taken_back_after_it(run: Run, grown: Path) -> None:
    assert run("-C", grown, "rollback", "2", "--yes", *SIMULATED).code == 0
    with closing(sqlite3.connect(grown / ".cobweb/state.db")) as database, database:
        database.execute("UPDATE cobweb_generations SET reached = NULL WHERE id = 4")
    assert run("-C", grown, *LEAST).code == 0
    assert generations_of(run, grown) == [5, 4, 3, 2]
    assert "generation 5 is generation 2 again" in run("-C", grown, "plan").err
    edit(grown, 8082)
    for _ in range(2):
        assert run("-C", grown, *APPLY).code == 0
    assert run("-C", grown, *LEAST).code == 0
    assert (len(runs_of(run, grown)), generations_of(run, grown)) == (2, [5, 4, 3, 2])
    back = run("-C", grown, "rollback", "4", "--yes", *SIMULATED)
    assert "going back to generation 4: this takes the rollback back\n" in back.err


def test_a_file_with_much_that_went_gets_smaller(run: Run, grown: Path) -> None:
    file = grown / ".cobweb/state.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.executemany(
            "INSERT INTO cobweb_events (run, seq, type, data) VALUES (1, ?, 'x', ?)",
            [(seq, json.dumps({"text": "x" * 100})) for seq in range(1_000, 11_000)],
        )
    full = file.stat().st_size
    assert run("-C", grown, "gc", "--keep-runs", "3").code == 0
    assert file.stat().st_size < full / 2
