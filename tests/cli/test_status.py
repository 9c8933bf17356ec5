"""`cobweb status` and `cobweb why` tell what the journal knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli._session import Session
from cobweb.model import CobId
from cobweb.store import (
    GrantWritten,
    HostLost,
    RunInfo,
    StateWritten,
    TransitionBegan,
    this_process,
)

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
A, B, CFG, GONE = (CobId(each) for each in ("alpha/a", "beta/b", "alpha/cfg", "alpha/gone"))


@pytest.fixture
def known(site: Path) -> Path:
    """Make a site whose last run was killed: one object failed, one was in transition."""
    info = RunInfo(id="r1", command="apply", started=1e9, user="ann", host="h", pid=1)
    with Session(site) as session:
        store = session.store(create=True)
        store.begin_run(info)
        store.write(
            [
                StateWritten(cob=CFG, state="up", reason="check", time=1e9),
                StateWritten(cob=GONE, state="up", reason="check", time=1e9),
                StateWritten(cob=A, state="down", reason="transition", time=1e9, failed=True),
                StateWritten(cob=B, state="down", reason="check", time=1e9),
                TransitionBegan(cob=B, source="down", dest="up", time=1e9),
                GrantWritten(cob=A, holder=B, state="up"),
                HostLost(host="beta", time=1e9),
            ]
        )
    return site


def test_states_notes_and_the_last_run_are_told(run: Run, known: Path) -> None:
    ran = run("-C", known, "status")
    lines = {line.split()[0]: " ".join(line.split()) for line in ran.out.splitlines()}
    assert ran.code == 0
    assert lines["alpha/a"].startswith("alpha/a simple down up ")
    assert lines["alpha/a"].endswith(" failed")
    assert "in transition down -> up, unreachable" in " ".join(ran.out.split())
    assert lines["alpha/gone"].startswith("alpha/gone - up - ")
    assert "last run: r1 (apply) by ann: was killed" in ran.err
    assert max(len(line) for line in ran.out.splitlines()) <= 80


def test_the_same_as_data(run: Run, known: Path, check_schema: CheckSchema) -> None:
    data = json.loads(run("-C", known, "status", "-o", "json").out)
    check_schema("status", data)
    assert {cob["id"]: cob["state"] for cob in data["cobs"]}["alpha/cfg"] == "up"
    assert data["locks"] == [{"cob": "alpha/a", "holder": "beta/b", "state": "up"}]
    assert data["run"]["id"] == "r1"


def test_one_object_is_told_with_its_locks(run: Run, known: Path) -> None:
    ran = run("-C", known, "status", "alpha/a")
    assert "alpha/a is locked up for beta/b" in ran.out
    assert "alpha/cfg" not in ran.out


def test_a_limit_selects_hosts(run: Run, known: Path) -> None:
    data = json.loads(run("-C", known, "status", "--limit", "beta", "-o", "json").out)
    assert [cob["id"] for cob in data["cobs"]] == ["beta/b"]


@pytest.mark.parametrize("command", ["status", "why"])
def test_an_unknown_object_is_wrong_usage(run: Run, known: Path, command: str) -> None:
    ran = run("-C", known, command, "alpha/none")
    assert ran.code == 64
    assert "alpha/none" in ran.err


def test_who_holds_the_site_is_told(run: Run, known: Path) -> None:
    with Session(known) as session:
        lock = session.store(create=True).site_lock(clock=lambda: 1e9)
        with lock.acquire(this_process(run="r2", reason="apply", since=1e9)):
            assert "run r2" in run("-C", known, "status").err


def test_why_of_a_settled_object_says_so(run: Run, known: Path, check_schema: CheckSchema) -> None:
    assert "alpha/cfg is up, as wanted" in run("-C", known, "why", "alpha/cfg").out
    data = json.loads(run("-C", known, "why", "alpha/cfg", "-o", "json").out)
    check_schema("why", data)
    assert data["source"] == "settled"


def test_why_of_a_waiting_object_says_on_what(
    run: Run, known: Path, check_schema: CheckSchema
) -> None:
    ran = run("-C", known, "why", "alpha/a")
    assert ran.code == 0
    assert ran.out.startswith("alpha/a is down and should be up\n")
    data = json.loads(run("-C", known, "why", "alpha/a", "-o", "json").out)
    check_schema("why", data)
    assert data["chain"][0]["cob"] == "alpha/a"


def test_a_state_database_that_is_none_is_one_message(run: Run, known: Path) -> None:
    for path in (known / ".cobweb").iterdir():
        path.write_bytes(b"this is no database, but long enough to look at" * 100)
    for arguments in (["status"], ["why", "alpha/a"], ["graph", "-o", "json"], ["lock", "show"]):
        ran = run("-C", known, *arguments)
        assert ran.code == 1
        assert "state.db" in ran.err
        assert "Traceback" not in ran.err
        assert ran.err.count("\n") == 1
