"""`cobweb forget` gives up what is gone from the site, and nothing else."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.model import CobId
from cobweb.store import Entry, GrantWritten, HostSwitched, StateWritten

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
OLD, OTHER, GONE = CobId("alpha/old"), CobId("alpha/other"), CobId("gone/a")


@pytest.fixture
def known(site: Path) -> Path:
    """Make a site whose database knows objects that are gone, and a host that is."""
    cobs = ("alpha/a", "alpha/cfg", "beta/b", OLD, OTHER, GONE, "gone/b")
    entries: list[Entry] = [
        StateWritten(cob=CobId(cob), state="up", reason="check", time=1.0) for cob in cobs
    ]
    entries += [HostSwitched(host=host, generation=1) for host in ("alpha", "beta", "gone")]
    entries += [
        GrantWritten(cob=OLD, holder=CobId("beta/b"), state="up"),
        GrantWritten(cob=CobId("beta/b"), holder=OTHER, state="up"),
        GrantWritten(cob=CobId("alpha/a"), holder=CobId("beta/b"), state="up"),
    ]
    with Site(site) as session:
        session.store(create=True).write(entries)
    return site


def left(site: Path) -> tuple[list[str], list[str], int]:
    """Return the objects and hosts that the database knows, and how many locks."""
    with Site(site) as session:
        store = session.store()
        return list(store.states()), list(store.host_generations()), len(store.locks())


EVERYTHING = (
    ["alpha/a", "alpha/cfg", OLD, OTHER, "beta/b", GONE, "gone/b"],
    ["alpha", "beta", "gone"],
    3,
)


def test_forgotten_objects_go_with_their_locks(
    run: Run, known: Path, check_schema: CheckSchema
) -> None:
    ran = run("-C", known, "forget", OTHER, OLD, OLD, "--yes")
    assert (ran.code, ran.out) == (0, f"forgotten: {OLD}\nforgotten: {OTHER}\n")
    assert ran.err == "2 objects forgotten, 2 locks ended\n"
    cobs, hosts, locks = left(known)
    assert cobs == ["alpha/a", "alpha/cfg", "beta/b", GONE, "gone/b"]
    assert (hosts, locks) == (["alpha", "beta", "gone"], 1)
    told = run("-C", known, "forget", GONE, "--yes", "-o", "json")
    check_schema("forget", json.loads(told.out))


def test_a_host_is_forgotten_with_its_last_object(run: Run, known: Path) -> None:
    data = json.loads(run("-C", known, "forget", GONE, "--yes", "-o", "json").out)
    assert (data["forgotten"], data["hosts"]) == ([{"cob": GONE, "state": "up"}], [])
    data = json.loads(run("-C", known, "forget", "gone/b", "--yes", "-o", "json").out)
    assert data["hosts"] == ["gone"]
    assert left(known)[1] == ["alpha", "beta"]


def test_all_objects_of_a_host_are_forgotten_at_once(run: Run, known: Path) -> None:
    ran = run("-C", known, "forget", "--host", "gone", OLD, "--yes")
    told, mark, way = ran.err.splitlines()
    assert told == "3 objects and 1 host forgotten, 1 lock ended"
    assert mark == "note: if a host lives on, the mark of this site stays on it: gone"
    with Site(known) as session:
        file = f"/var/lib/cobweb/marks/{session.store(create=True).site_id()}.gone"
    assert way == f"another site takes it over with `apply --adopt`; or, there: rm {file}"
    assert left(known)[0] == ["alpha/a", "alpha/cfg", OTHER, "beta/b"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["alpha/a"], "the object alpha/a is still in the site (remove it there first"),
        ([OLD, "beta/b"], "the object beta/b is still in the site"),
        (["alpha/odl"], "knows no object 'alpha/odl' (did you mean alpha/old"),
        (["--host", "gonne"], "knows no host 'gonne' (did you mean gone?)"),
        (["zzz/qqq"], "knows no object 'zzz/qqq' (see `cobweb status`)"),
        ([], "nothing to forget is named"),
    ],
)
def test_what_cannot_be_forgotten_is_refused_and_nothing_is(
    run: Run, known: Path, arguments: list[str], told: str
) -> None:
    ran = run("-C", known, "forget", "--yes", *arguments)
    assert (ran.code, ran.out) == (64, "")
    assert told in ran.err
    assert left(known) == EVERYTHING


def test_without_a_terminal_it_takes_a_yes(run: Run, known: Path) -> None:
    ran = run("-C", known, "forget", OLD)
    assert ran.code == 64
    assert "add --yes" in ran.err
    assert left(known) == EVERYTHING


@pytest.mark.parametrize(("typed", "is_done"), [("n\n", False), ("\n", False), ("y\n", True)])
def test_on_a_terminal_a_question_names_what_stays_as_it_is(
    run: Run, known: Path, monkeypatch: pytest.MonkeyPatch, typed: str, *, is_done: bool
) -> None:
    keyboard = io.StringIO(typed)
    monkeypatch.setattr(keyboard, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", keyboard)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ran = run("-C", known, "forget", OLD)
    assert ran.code == 0
    assert f"{OLD} is up, and stays so\nForget 1 object? [y/N]" in ran.err
    assert ("nothing was changed" in ran.err) is not is_done
    assert (OLD in left(known)[0]) is not is_done


def test_a_long_question_is_cut(run: Run, known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        StateWritten(cob=CobId(f"gone/x{number}"), state="up", reason="check", time=1.0)
        for number in range(30)
    ]
    with Site(known) as session:
        session.store(create=True).write(entries)
    keyboard = io.StringIO("n\n")
    monkeypatch.setattr(keyboard, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", keyboard)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ran = run("-C", known, "forget", "--host", "gone")
    assert "... and 12 more\nForget 32 objects and 1 host?" in ran.err


def test_nothing_is_forgotten_while_a_run_has_the_site(run: Run, known: Path) -> None:
    run("-C", known, "lock", "hold", "--for", "10m")
    assert run("-C", known, "forget", OLD, "--yes").code == 5
    assert left(known) == EVERYTHING


def test_where_nothing_is_known_no_database_is_made(run: Run, site: Path) -> None:
    assert run("-C", site, "forget", OLD, "--yes").code == 64
    assert not (site / ".cobweb").exists()


def test_a_broken_site_does_not_say_what_is_still_in_it(run: Run, known: Path) -> None:
    text = (known / "site.yml").read_text(encoding="utf-8")
    (known / "site.yml").write_text(text + "nonsense: 1\n", encoding="utf-8")
    assert run("-C", known, "forget", OLD, "--yes").code == 3
    (known / "site.yml").write_text(text, encoding="utf-8")
    assert left(known) == EVERYTHING


LIMITED = """\
cobweb: 1
name: three
inventory: {all: {hosts: {'web[1:3]': {version: 1}}}}
imports: [simple.yml]
cobs:
  app: {type: simple, on: all, spec: {text: "{{ version }}"}}
limits: {rolling: {on: all, cob: app, max: 1}}
"""


def test_a_host_of_the_site_is_given_up_until_it_is_taken_back(
    run: Run, make_site: Callable[[str], Path], tmp_path: Path, check_schema: CheckSchema
) -> None:
    three = make_site(LIMITED)
    go = ("-C", three, "apply", "--yes", "--executor", "simulate", "--events", tmp_path / "e")
    assert run(*go).code == 0
    ran = run("-C", three, "forget", "--host", "web2", "--yes", "-o", "json")
    assert ran.code == 0, ran.err
    data = json.loads(ran.out)
    check_schema("forget", data)
    assert (data["given_up"], data["forgotten"], data["hosts"]) == (["web2"], [], [])
    assert (
        "given up: web2 (`cobweb forget --host HOST --undo` takes" in run("-C", three, "plan").err
    )
    (three / "site.yml").write_text(LIMITED.replace("version: 1", "version: 2"), encoding="utf-8")
    plan = json.loads(run("-C", three, "plan", "-o", "json").out)
    check_schema("plan", plan)
    assert plan["given_up"] == ["web2"]
    assert [change["cob"] for change in plan["changes"]] == ["web1/app", "web3/app"]
    ran = run(*go)
    assert ran.code == 0, ran.err
    assert "web2" not in (tmp_path / "e").read_text(encoding="utf-8")
    assert run("-C", three, "plan", "--detailed-exitcode").code == 0
    assert run("-C", three, "forget", "--host", "web2", "--undo", "--yes").code == 0
    plan = json.loads(run("-C", three, "plan", "-o", "json").out)
    assert (plan["given_up"], plan["checks"]) == ([], ["web2/app"])
    ran = run(*go)
    assert ran.code == 0, ran.err
    assert '"cob":"web2/app"' in (tmp_path / "e").read_text(encoding="utf-8")
    assert "nothing to change" in run("-C", three, "plan").err


def test_only_what_is_given_up_can_be_taken_back(run: Run, site: Path) -> None:
    ran = run("-C", site, "forget", "--host", "alpha", "--undo", "--yes")
    assert ran.code == 64
    assert "knows no host that is given up 'alpha'" in ran.err
    ran = run("-C", site, "forget", "alpha/a", "--undo", "--yes")
    assert (ran.code, "--undo takes hosts back" in ran.err) == (64, True)


def test_status_and_why_say_that_a_host_is_given_up(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0
    assert run("-C", site, "forget", "--host", "alpha", "--yes").code == 0
    said = "host alpha is given up (`cobweb forget --host alpha --undo` takes it back)"
    status = run("-C", site, "status")
    assert said in status.err
    assert [line.split()[-1] for line in status.out.splitlines() if "alpha/" in line] == ["up"] * 2
    data = json.loads(run("-C", site, "status", "-o", "json").out)
    check_schema("status", data)
    assert data["given_up"] == ["alpha"]
    first, second = run("-C", site, "why", "alpha/a").out.splitlines()
    assert (first, second) == ("alpha/a is up, as wanted: it waits for nothing", said)
    down = StateWritten(cob=CobId("beta/b"), state="down", reason="check", time=1.0)
    with Site(site) as session:
        session.store(create=True).write([down, replace(down, cob=CobId("alpha/a"))])
    for cob in ("alpha/a", "beta/b"):
        ran = run("-C", site, "why", cob)
        assert ran.out.splitlines()[-1] == f"  alpha/a: {said}"
    check_schema("why", json.loads(run("-C", site, "why", "beta/b", "-o", "json").out))
    assert run("-C", site, "forget", "--host", "alpha", "--undo", "--yes").code == 0
    assert "given up" not in run("-C", site, "status").err
