"""An application from its beginning to its end, as its own program and all commands tell it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import pytest

from cobweb.cli import main
from tests.cli.conftest import Ran, Run
from tests.plugins.applications.conftest import Start
from tests.support.counted_application import CountedApplication
from tests.support.pool_members import until

CheckSchema = Callable[[str, Any], None]
HOSTS = ("n1", "n2", "slow")
PHASES = ("one", "two", "three")

pytestmark = pytest.mark.gate("one application of three phases for all tests of the module")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CountedApplication, Ran]]:
    """Run an application to its end: `two` has a barrier, `three` has none.

    In `two` the slow host waits until the others have begun `three`.
    """
    ring = CountedApplication(tmp_path_factory.mktemp("ended"))
    others = " && ".join(f"[ -e {ring.base}/three.{it} ]" for it in ("n1", "n2"))
    slow = f"case $COBWEB_HOST in slow) until {others}; do sleep 0.1; done;; esac"
    hosts = "echo of {{ hosts }}; [ $COBWEB_HOST = n1 ] || echo not n1"
    ring.write(
        {
            "one": {"run": ring.command("one")},
            "two": {"after": ["one"], "barrier": {}, "run": ring.command("two", slow)},
            "three": {
                "after": ["two"],
                "run": ring.command("three", f"touch {ring.base}/three.$COBWEB_HOST; {hosts}"),
            },
        },
        HOSTS,
    )
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["-C", str(ring.folder), "app", "run", "ring", "--yes", "--reason", "a test"])
    yield ring, Ran(code=code, out=out.getvalue(), err=err.getvalue())
    ring.end()


def shown(run: Run, ended: tuple[CountedApplication, Ran], *words: str) -> Ran:
    """Call a command of `cobweb app` after the end."""
    return run("-C", ended[0].folder, "app", *words)


def test_an_application_runs_to_its_end(ended: tuple[CountedApplication, Ran]) -> None:
    _, ran = ended
    assert ran.code == 0, ran.err
    assert ran.err.splitlines()[-1] == "ring has ended on 3 of 3 nodes"


def test_each_phase_is_started_once_on_each_host(ended: tuple[CountedApplication, Ran]) -> None:
    ring, _ = ended
    assert ring.starts() == {(host, phase): 1 for host in HOSTS for phase in PHASES}


def test_a_phase_begins_after_the_end_of_those_that_it_is_after(
    ended: tuple[CountedApplication, Ran],
) -> None:
    said = ended[0].said()
    for host in HOSTS:
        own = [(phase, what) for it, phase, what in said if it == host]
        assert own == [(phase, what) for phase in PHASES for what in ("begins", "ends")]


def test_nobody_begins_behind_a_barrier_before_all_have_arrived(
    ended: tuple[CountedApplication, Ran],
) -> None:
    said = ended[0].said()
    last = max(said.index((host, "one", "ends")) for host in HOSTS)
    assert all(said.index((host, "two", "begins")) > last for host in HOSTS)


def test_without_a_barrier_a_fast_node_goes_on_while_a_slow_one_is_at_work(
    ended: tuple[CountedApplication, Ran],
) -> None:
    said = ended[0].said()
    for host in ("n1", "n2"):
        assert said.index((host, "three", "begins")) < said.index(("slow", "two", "ends"))


def test_status_tells_together_who_is_equally_far(
    run: Run, ended: tuple[CountedApplication, Ran]
) -> None:
    ran = shown(run, ended, "status", "ring")
    assert ran.code == 0
    head, names, *rows = ran.out.splitlines()
    assert head.startswith("ring is done; instance ")
    assert head.endswith(", a test")
    assert names.split() == ["NODES", "COUNT", "ONE", "TWO", "THREE", "FAILED"]
    assert [it.split() for it in rows] == [["n[1-2],slow", "3", "done", "done", "done"]]


def test_status_without_a_name_lists_all(run: Run, ended: tuple[CountedApplication, Ran]) -> None:
    ran = shown(run, ended, "status")
    assert [it.split() for it in ran.out.splitlines()] == [
        ["APPLICATION", "ON", "IS", "MEMBERS", "PHASES"],
        ["ring", "all", "done", "3", "one,", "two,", "three"],
    ]


@pytest.mark.parametrize("words", [["status"], ["why"], ["status", "--no-ask"]], ids=str)
def test_the_data_are_of_the_schema(
    run: Run, ended: tuple[CountedApplication, Ran], check_schema: CheckSchema, words: list[str]
) -> None:
    ran = shown(run, ended, words[0], "ring", *words[1:], "-o", "json")
    data = json.loads(ran.out)
    check_schema("application", data)
    assert (data["ended"], data["reason"], data["silent"]) == ("done", "a test", {})
    word = "" if "--no-ask" in words else "done"
    phase = {"wanted": "done", "state": "done", "word": word, "starts": 1}
    assert data["members"] == [
        {"host": it, "failed": "", "phases": dict.fromkeys(PHASES, phase)} for it in HOSTS
    ]


def test_the_list_has_data_of_the_schema(
    run: Run, ended: tuple[CountedApplication, Ran], check_schema: CheckSchema
) -> None:
    data = json.loads(shown(run, ended, "status", "-o", "json").out)
    for it in data["applications"]:
        check_schema("application", it)
    assert [(it["application"], it["ended"]) for it in data["applications"]] == [("ring", "done")]


def test_why_tells_how_each_phase_of_a_host_is(
    run: Run, ended: tuple[CountedApplication, Ran]
) -> None:
    ran = shown(run, ended, "why", "ring", "n2")
    assert ran.code == 0
    assert ran.out.splitlines()[1:] == [f"{it}: wanted done, known done; done" for it in PHASES]


def test_logs_tells_equal_ends_together(run: Run, ended: tuple[CountedApplication, Ran]) -> None:
    ran = shown(run, ended, "logs", "ring")
    assert ran.code == 0
    hosts = ",".join(HOSTS)
    assert ran.out.splitlines() == [
        "n2,slow (2 hosts):",
        f"  of {hosts}",
        "  not n1",
        f"n1: of {hosts}",
    ]


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["--lines", "1"], ["n2,slow (2 hosts): not n1", "n1: of n1,n2,slow"]),
        (["--on", "n2", "--lines", "1"], ["n2: not n1"]),
        (["--on", "n2:n1:!n1", "--lines", "1"], ["n2: not n1"]),
        (["--phase", "one"], ["n[1-2],slow (3 hosts): no output"]),
    ],
)
def test_logs_of_hosts_phases_and_lines(
    run: Run, ended: tuple[CountedApplication, Ran], words: list[str], out: list[str]
) -> None:
    ran = shown(run, ended, "logs", "ring", *words)
    assert (ran.code, ran.out.splitlines()) == (0, out)


@pytest.mark.gate("a process of its own, which is interrupted")
def test_logs_follow_until_they_are_interrupted(
    ended: tuple[CountedApplication, Ran], start: Start
) -> None:
    process = start("-C", ended[0].folder, "app", "logs", "ring", "--on", "n2", "--follow")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == [
        "n2: of n1,n2,slow\n",
        "n2: not n1\n",
    ]
    process.send_signal(2)
    assert process.wait(30) == 130


def test_the_end_of_an_application_leaves_nothing_at_work(
    ended: tuple[CountedApplication, Ran],
) -> None:
    until(lambda: not ended[0].supervisors())


def test_the_site_is_as_it_is_wanted(run: Run, ended: tuple[CountedApplication, Ran]) -> None:
    ran = run("-C", ended[0].folder, "plan", "--detailed-exitcode")
    assert ran.code == 0, ran.out + ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "rung", "--yes"], "there is no application `rung`"),
        (["stop", "rung", "--yes"], "there is no application `rung`"),
        (["status", "rung"], "there is no application `rung`"),
        (["why", "rung"], "there is no application `rung`"),
        (["logs", "rung"], "there is no application `rung`"),
        (["why", "ring", "n9"], "n9 is no member of ring"),
        (["logs", "ring", "--phase", "four"], "ring has no phase `four`"),
        (["logs", "ring", "--on", "n9"], "n9"),
        (["run", "ring"], "--yes"),
        (["stop", "ring"], "--yes"),
        (["run", "ring", "--yes", "--wait", "soon"], "soon"),
        (["run", "ring", "--yes", "--wait", "0"], "`0` is not between"),
    ],
    ids=str,
)
def test_what_is_wrong_on_the_command_line_is_said(
    run: Run, ended: tuple[CountedApplication, Ran], words: list[str], said: str
) -> None:
    before = ended[0].starts()
    ran = shown(run, ended, *words)
    assert ran.code == 64, ran.out + ran.err
    assert said in ran.err
    assert ended[0].starts() == before
