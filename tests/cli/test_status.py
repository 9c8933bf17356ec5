"""`cobweb status` and `cobweb why` tell what the journal knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.model import CobId
from cobweb.store import (
    Entry,
    GrantWritten,
    HostLost,
    ResultsWritten,
    RunInfo,
    StateWritten,
    TransitionBegan,
    TransitionFinished,
    TransitionResult,
    this_process,
)

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
A, B, CFG, GONE = (CobId(each) for each in ("alpha/a", "beta/b", "alpha/cfg", "alpha/gone"))


@pytest.fixture
def known(site: Path) -> Path:
    """Make a site whose last run was killed: one object failed, one was in transition."""
    info = RunInfo(id="r1", command="apply", started=1e9, user="ann", host="h", pid=1)
    with Site(site) as session:
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
    assert (
        "last run: r1 (apply) by ann: no end (it was killed, or its state database was away)"
        in ran.err
    )
    assert max(len(line) for line in ran.out.splitlines()) <= 80


def test_what_an_interrupt_stopped_has_not_failed(
    run: Run, known: Path, check_schema: CheckSchema
) -> None:
    ended = TransitionFinished(
        cob=B,
        source="down",
        dest="up",
        state="unknown",
        result=TransitionResult.FAILED,
        time=1e9,
        stopped=True,
    )
    with Site(known) as session:
        session.store(create=True).write([ended])
    lines = run("-C", known, "status").out.splitlines()
    assert "stopped" in next(line for line in lines if line.startswith("beta/b"))
    check_schema("status", json.loads(run("-C", known, "status", "-o", "json").out))
    assert "? beta/b (in doubt: stopped)" in run("-C", known, "plan").out
    assert "beta/b is not known (stopped) and" in run("-C", known, "why", "beta/b").out


def test_no_id_is_broken_in_the_middle(run: Run, known: Path, monkeypatch: Any) -> None:
    name = "configuration-of-all-of-it-here"
    file = known / "site.yml"
    file.write_text(file.read_text().replace("  cfg:", f"  {name}:"))
    with Site(known) as session:
        cob = CobId(f"alpha/{name}")
        wrote = StateWritten(cob=cob, state="up", reason="check", time=1e9, failed=True)
        session.store(create=True).write([wrote])
    monkeypatch.setenv("COLUMNS", "80")
    assert f"alpha/{name} " in run("-C", known, "status").out


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


def test_the_results_of_a_host_and_the_attempt_under_way_are_told(
    run: Run, known: Path, check_schema: CheckSchema
) -> None:
    again = TransitionBegan(
        cob=B, source="down", dest="up", time=1e9, attempt=2, executor="ansible"
    )
    results = [ResultsWritten(host=host, results={"ip": host * 30}) for host in ("alpha", "beta")]
    with Site(known) as session:
        session.store(create=True).write([again, *results])
    ran = run("-C", known, "status", "beta/b")
    assert "in transition down -> up (attempt 2)" in " ".join(ran.out.split())
    assert "beta  ip" in ran.out
    assert "alpha  ip" not in ran.out
    assert max(len(line) for line in ran.out.splitlines()) <= 80
    data = json.loads(run("-C", known, "status", "beta/b", "-o", "json").out)
    check_schema("status", data)
    assert data["results"] == {"beta": {"ip": "beta" * 30}}
    assert (data["cobs"][0]["attempt"], data["cobs"][0]["executor"]) == (2, "ansible")
    whole = json.loads(run("-C", known, "status", "-o", "json").out)
    assert whole["results"].keys() == {"alpha", "beta"}
    assert {cob["attempt"] for cob in whole["cobs"]} == {2, None}


def test_a_limit_selects_hosts(run: Run, known: Path) -> None:
    data = json.loads(run("-C", known, "status", "--limit", "beta", "-o", "json").out)
    assert [cob["id"] for cob in data["cobs"]] == ["beta/b"]


@pytest.fixture
def without_b(run: Run, site: Path) -> Path:
    """Make a site that was applied to simulated hosts, and then lost the one object of `beta`."""
    assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.partition("  b:\n")[0], encoding="utf-8")
    return site


def test_an_object_that_is_gone_is_told_as_to_be_removed(
    run: Run, without_b: Path, check_schema: CheckSchema
) -> None:
    told = run("-C", without_b, "status")
    assert "to be removed" in next(line for line in told.out.splitlines() if "beta/b" in line)
    assert "2 of 2 objects as wanted, 1 to be removed" in told.err
    why = run("-C", without_b, "why", "beta/b")
    assert why.out.startswith(
        "beta/b is up and is to be removed\n  beta/b waits for the next apply"
    )
    data = json.loads(run("-C", without_b, "why", "beta/b", "-o", "json").out)
    check_schema("why", data)
    assert (data["removed"], data["preferred"], data["source"]) == (True, "down", "journal")


def test_what_was_changed_in_the_site_since_is_not_as_wanted(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    apply = ("-C", site, "apply", "--yes", "--executor", "simulate")

    def told() -> tuple[str, str, dict[str, bool]]:
        ran = run("-C", site, "status")
        data = json.loads(run("-C", site, "status", "-o", "json").out)
        check_schema("status", data)
        return ran.out, ran.err, {cob["id"]: cob["changed"] for cob in data["cobs"]}

    out, _, changed = told()  # nothing is known yet
    assert "to be changed" not in out
    assert not any(changed.values())
    assert run(*apply).code == 0
    assert "3 of 3 objects as wanted\n" in told()[1]
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("port: 8080", "port: 9090"), encoding="utf-8")
    out, err, changed = told()
    assert changed == {"alpha/a": False, "alpha/cfg": True, "beta/b": False}
    noted = {line.split()[0] for line in out.splitlines() if "to be changed" in line}
    assert noted == {"alpha/cfg"}
    assert "2 of 3 objects as wanted, 1 to be changed\n" in err
    assert run(*apply).code == 0
    assert "3 of 3 objects as wanted\n" in told()[1]


def test_when_it_is_removed_it_is_forgotten_and_the_run_still_knows(
    run: Run, without_b: Path
) -> None:
    assert run("-C", without_b, "apply", "--yes", "--executor", "simulate").code == 0
    assert "beta/b" not in run("-C", without_b, "status").out
    assert run("-C", without_b, "why", "beta/b").code == 64
    newest = json.loads(run("-C", without_b, "runs", "-o", "json").out)["runs"][0]["id"]
    data = json.loads(run("-C", without_b, "why", "beta/b", "--run", newest, "-o", "json").out)
    assert (data["state"], data["preferred"], data["removed"]) == ("down", "down", True)


def test_what_no_generation_knows_cannot_be_removed_and_says_so(run: Run, known: Path) -> None:
    told = " ".join(run("-C", known, "why", "alpha/gone").out.split())
    assert told.startswith("alpha/gone is up and is to be removed alpha/gone has no way to removal")
    assert "cobweb forget" in told


def test_hosts_that_have_an_earlier_generation_are_named(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    apply = ("-C", site, "apply", "--yes", "--executor", "simulate")
    assert run(*apply).code == 0
    told = run("-C", site, "status")
    assert "not yet switched" not in told.err
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}    spec: {{n: 2}}\n", encoding="utf-8")
    assert run(*apply, "--limit", "beta").code == 0
    assert "not yet switched to generation 2: alpha (1)\n" in run("-C", site, "status").err
    data = json.loads(run("-C", site, "status", "-o", "json").out)
    check_schema("status", data)
    assert data["generation"] == {"current": 2, "behind": {"alpha": 1}}
    limited = json.loads(run("-C", site, "status", "--limit", "beta", "-o", "json").out)
    assert limited["generation"]["behind"] == {}


@pytest.mark.parametrize("command", ["status", "why"])
def test_an_unknown_object_is_wrong_usage(run: Run, known: Path, command: str) -> None:
    ran = run("-C", known, command, "alpha/none")
    assert ran.code == 64
    assert "alpha/none" in ran.err


def test_who_holds_the_site_is_told(run: Run, known: Path) -> None:
    with Site(known) as session:
        lock = session.store(create=True).site_lock(clock=lambda: 1e9)
        with lock.acquire(this_process(run="r2", reason="apply", since=1e9)):
            assert "run r2" in run("-C", known, "status").err
        gone = replace(this_process(run="r3", reason="apply", since=1e9), boot_id="before")
        lock.acquire(gone)
    doubt = run("-C", known, "lock", "show").out.splitlines()[1]
    assert "the next run takes the lock over" in doubt
    assert run("-C", known, "status").err.endswith(f"{doubt}\n")


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


def test_what_drifted_under_a_limit_waits_for_the_next_apply_or_for_who_is_out(
    run: Run, make_site: Callable[[str], Path], site_text: str
) -> None:
    text, _, _ = site_text.partition("cobs:\n")
    cobs = "cobs:\n  cfg: {type: simple, on: all, stops: [b]}\n  b: {type: simple, on: all}\n"
    site = make_site(f"{text}{cobs}limits: {{rolling: {{on: all, cob: b, max: 1}}}}\n")
    assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0

    def why(*entries: Entry) -> tuple[str, ...]:
        with Site(site) as session:
            session.store(create=True).write(entries)
        return tuple(run("-C", site, "why", "beta/cfg").out.splitlines()[1:])

    cfg, other = CobId("beta/cfg"), CobId("alpha/b")
    drifted = StateWritten(cob=cfg, state="outdated", reason="drift", time=1e9)
    assert why(drifted) == ("  beta/cfg waits for the next apply",)
    assert why(replace(drifted, cob=other, state="down")) == (
        "  beta/cfg waits for room in a limit (rolling), taken by alpha/b",
        "  alpha/b waits for the next apply",
    )
    began = TransitionBegan(cob=cfg, source="outdated", dest="up", time=1e9)
    stopped = "which checks it (stopped in outdated -> up)"
    assert why(began) == (f"  beta/cfg waits for the next apply, {stopped}",)


def test_a_state_database_that_is_none_is_one_message(run: Run, known: Path) -> None:
    for path in (known / ".cobweb").iterdir():
        path.write_bytes(b"this is no database, but long enough to look at" * 100)
    for arguments in (["status"], ["why", "alpha/a"], ["graph", "-o", "json"], ["lock", "show"]):
        ran = run("-C", known, *arguments)
        assert ran.code == 1
        assert "state.db" in ran.err
        assert "Traceback" not in ran.err
        assert ran.err.count("\n") == 1


def test_an_object_is_as_wanted_where_it_wants_to_be(
    run: Run, known: Path, check_schema: CheckSchema
) -> None:
    """The state that `want` names stands where that of the type would: in all that tells it."""
    text = (known / "site.yml").read_text(encoding="utf-8")
    wanted = text.replace("    on: front\n", "    on: front\n    want: down\n")
    (known / "site.yml").write_text(wanted, encoding="utf-8")
    for command in ("status", "graph", "show"):
        data = json.loads(run("-C", known, command, "-o", "json").out)
        check_schema(command, data)
        cobs = data["cobs"] if "cobs" in data else [it for h in data["hosts"] for it in h["cobs"]]
        preferred = {cob["id"]: cob["preferred"] for cob in cobs}
        assert (preferred["beta/b"], preferred["alpha/a"]) == ("down", "up")
    reason = json.loads(run("-C", known, "why", "beta/b", "-o", "json").out)
    assert reason["preferred"] == "down"
