"""Members of an application that fail: who, in what, and why; and how the others go on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli import main
from tests.cli.conftest import Ran, Run
from tests.plugins.applications.conftest import Start
from tests.support.counted_application import CountedApplication
from tests.support.pool_members import marked

Failed = tuple[CountedApplication, Ran]
CheckSchema = Callable[[str, Any], None]
REASONS = {
    "exits": "one: ended with exit status 3",
    "ill": "one: is not healthy: ended with exit status 1: no pulse",
    "killed": "one: ended by SIGKILL",
    "late": "one: did not end within 9 s",
    "nothing": "one: start the phase: cannot be started:",
}
"""Why each host of `failed` fails; of some that is how the reason begins."""
HOSTS = sorted([*REASONS, "well"])

pytestmark = pytest.mark.gate("one application, whose members fail, for all tests of the module")


def run_to_the_end(ring: CountedApplication) -> Ran:
    """Call `cobweb app run` for an application."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["-C", str(ring.folder), "app", "run", "ring", "--yes"])
    return Ran(code=code, out=out.getvalue(), err=err.getvalue())


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failed]:
    """Run an application that fails on each host in another way, and on one does not."""
    ring = CountedApplication(tmp_path_factory.mktemp("failed"))
    work = {
        "exits": "exit 3",
        "ill": ring.waits("never"),
        "killed": "kill -9 $$",
        "late": ring.waits("never"),
    }
    shell = ["/bin/sh", "-c"]
    hosts: dict[str, Mapping[str, Any]] = {
        host: {"program": "/bin/sh", "work": ring.command("one", work.get(host, ":"))}
        for host in HOSTS
    }
    hosts["nothing"] = {"program": "/no/such/program", "work": ":"}
    ring.write(
        {
            "one": {
                "run": ["{{ program }}", *shell[1:], "{{ work }}"],
                "timeout": "9s",
                "health": "[ $COBWEB_HOST != ill ] || { echo no pulse; exit 1; }",
                "every": "0.5s",
            },
            "two": {"after": ["one"], "run": ring.command("two")},
            "three": {"after": ["two"], "barrier": {}, "run": ring.command("three")},
        },
        hosts,
    )
    yield ring, run_to_the_end(ring)
    ring.end()


def test_run_names_each_with_the_reason(failed: Failed) -> None:
    _, ran = failed
    assert ran.code == 1, ran.err
    told = dict(
        it.split(" has failed in ") for it in ran.err.splitlines() if " has failed in " in it
    )
    assert sorted(told) == sorted(REASONS)
    wrong = {host: why for host, why in told.items() if not why.startswith(REASONS[host])}
    assert wrong == {}
    assert "/no/such/program" in told["nothing"]


def test_the_end_names_all_that_have_failed(failed: Failed) -> None:
    last = failed[1].err.splitlines()[-1]
    said, _, names = last.partition("; failed: ")
    assert said == "ring was aborted"
    assert sorted(names.split(",")) == sorted(REASONS)


def test_the_barrier_that_too_few_reach_names_who_lacks(failed: Failed) -> None:
    (told,) = [it for it in failed[1].err.splitlines() if it.startswith("ring is aborted: ")]
    said, _, names = told.partition("; lacking: ")
    assert said.endswith("the barrier of three was reached by 1 of 6, of 6 that must")
    assert sorted(names.split(",")) == sorted(REASONS)


def test_the_others_go_on_without_a_barrier(failed: Failed) -> None:
    assert ("well", "two", "ends") in failed[0].said()


def test_who_has_failed_goes_on_with_nothing(failed: Failed) -> None:
    begun = {host for host, phase in failed[0].starts() if phase != "one"}
    assert begun == {"well"}


def test_nothing_begins_behind_a_barrier_that_too_few_reach(failed: Failed) -> None:
    assert {phase for _, phase in failed[0].starts()} == {"one", "two"}


def test_nothing_is_started_twice(failed: Failed) -> None:
    assert set(failed[0].starts().values()) == {1}


@pytest.mark.parametrize("host", sorted(REASONS))
def test_why_of_a_host_has_the_reason(run: Run, failed: Failed, host: str) -> None:
    ran = run("-C", failed[0].folder, "app", "why", "ring", host)
    assert ran.code == 0
    assert f"{host} has failed in {REASONS[host]}" in ran.out
    (one,) = [it for it in ran.out.splitlines() if it.startswith("one: wanted")]
    assert one.startswith("one: wanted down, known down; ")
    assert "the node says nothing" not in one


def test_why_names_all_with_their_reasons(run: Run, failed: Failed) -> None:
    out = run("-C", failed[0].folder, "app", "why", "ring").out
    assert [it for it in REASONS if f"{it} has failed in {REASONS[it]}" not in out] == []


def test_status_has_the_reasons(run: Run, failed: Failed, check_schema: CheckSchema) -> None:
    ran = run("-C", failed[0].folder, "app", "status", "ring", "-o", "json")
    data = json.loads(ran.out)
    check_schema("application", data)
    assert data["ended"] == "aborted"
    why = {it["host"]: it["failed"] for it in data["members"]}
    assert why.pop("well") == ""
    assert [it for it in REASONS if not why[it].startswith(REASONS[it])] == []


def test_status_shows_the_reasons_to_people(run: Run, failed: Failed) -> None:
    rows = run("-C", failed[0].folder, "app", "status", "ring").out.splitlines()
    for host, why in REASONS.items():
        (row,) = [it for it in rows if it.startswith(f"{host} ")]
        assert row.split()[2] == "failed"
        assert why.startswith(row.partition("one: ")[1] + row.partition("one: ")[2])


def test_nothing_is_left_of_who_has_failed(run: Run, failed: Failed) -> None:
    data = json.loads(run("-C", failed[0].folder, "status", "-o", "json").out)
    states = {it["id"]: it["state"] for it in data["cobs"]}
    assert {it: states[f"{it}/app-ring-one"] for it in REASONS} == dict.fromkeys(REASONS, "down")
    assert states["well/app-ring-two"] == "done"


@pytest.mark.full("it runs an application to its end")
def test_who_has_failed_is_not_waited_for_at_a_barrier_that_enough_reach(tmp_path: Path) -> None:
    ring = CountedApplication(tmp_path)
    fails = "[ $COBWEB_HOST != n2 ] || exit 3"
    ring.write(
        {
            "one": {"run": ring.command("one", fails)},
            "two": {"after": ["one"], "barrier": {}, "run": ring.command("two")},
        },
        members={"at_least": "50%"},
    )
    ran = run_to_the_end(ring)
    assert (ran.code, ran.err.splitlines()[-1]) == (
        1,
        "ring has ended on 1 of 2 nodes; failed: n2",
    )
    assert ring.starts() == {("n1", "one"): 1, ("n2", "one"): 1, ("n1", "two"): 1}


@pytest.mark.full("it waits for a member that has lost its supervisor")
def test_a_member_that_has_lost_its_supervisor_is_named(
    tmp_path: Path, run: Run, start: Start
) -> None:
    ring = CountedApplication(tmp_path)
    ring.write({"one": {"run": ring.command("one", ring.waits())}})
    process = start("-C", ring.folder, "app", "run", "ring", "--yes")
    ring.await_said(("n1", "one", "begins"), ("n2", "one", "begins"))
    for pid in ring.supervisors("n1"):
        os.kill(pid, signal.SIGKILL)
    assert process.stderr is not None
    assert any(it == "n1 has failed in one: its supervisor is gone\n" for it in process.stderr)
    ring.let_go()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert err.splitlines()[-1] == "ring has ended on 1 of 2 nodes; failed: n1"
    assert set(ring.starts().values()) == {1}
    ran = run("-C", ring.folder, "app", "stop", "ring", "--yes")
    assert ran.code == 0, ran.err
    assert marked(ring.state_dir) == []


@pytest.mark.gate("it asks for an application at work")
def test_a_supervisor_that_begins_meanwhile_is_not_taken_for_lost(
    tmp_path: Path, run: Run, start: Start
) -> None:
    """A node that is slow between the looks at its lock and its status says nothing wrong."""
    ring = CountedApplication(tmp_path)
    ring.write({"one": {"run": ring.command("one", ring.waits())}}, ["n1"])
    start("-C", ring.folder, "app", "run", "ring", "--yes")
    ring.await_said(("n1", "one", "begins"))
    status = ring.state_dir / "applications/ring/n1/one/status.json"
    begun = 'sed -i "s/.healthy.: true/ &/" ' + str(status)  # as if it were written just now
    for text, word in ((f"{begun}; true", "at work"), ("true", "its supervisor is gone")):
        flock = tmp_path / "bin" / "flock"
        flock.parent.mkdir(exist_ok=True)
        flock.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        flock.chmod(0o755)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{flock.parent}:{os.environ['PATH']}")
            ran = run("-C", ring.folder, "app", "status", "ring", "-o", "json")
        assert json.loads(ran.out)["members"][0]["phases"]["one"]["word"] == word
    ring.end()
