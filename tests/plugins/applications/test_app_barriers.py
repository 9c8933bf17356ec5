"""Barriers do not wait for ever: who has not arrived in time has failed, or all of it is ended."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.counted_application import CountedApplication
from tests.support.operator import Run
from tests.support.pool_members import until

CheckSchema = Callable[[str, Any], None]
Opened = tuple[CountedApplication, Run]

HOSTS = tuple(f"n{it}" for it in range(1, 7))
STOPPED = ("n5", "n6")
GOING = HOSTS[:4]
WAIT_S = 20
"""Longer than it takes to start so few."""

LONG = "10m"
"""A wait that no test sees the end of."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[CountedApplication]:
    ring = CountedApplication(tmp_path)
    yield ring
    ring.end()


def send(ring: CountedApplication, number: int, hosts: Iterable[str], phase: str) -> None:
    """Send a signal to the program of a phase itself, where it still is."""
    for host in hosts:
        for it in ring.begun(host, phase):
            with suppress(ProcessLookupError):
                os.kill(it.pid, number)


def await_begun(ring: CountedApplication, hosts: Iterable[str], phase: str) -> None:
    ring.await_said(*((it, phase, "begins") for it in hosts))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Run an application of two barriers; the programs of two hosts stand still before the first.

    They go on when the barrier has opened without them, and would be at work for ever.
    """
    ring = CountedApplication(tmp_path_factory.mktemp("opened"))
    work = f"{ring.waits()}; {ring.waits('never', 'n[56]')}"
    barrier = {"wait": f"{WAIT_S}s"}
    phases = {
        "one": {"run": ring.command("one", work), "stop_timeout": "100s"},
        "two": {"after": ["one"], "barrier": barrier, "run": ring.command("two")},
        "three": {"after": ["two"], "barrier": barrier, "run": ring.command("three")},
    }
    ring.write(phases, HOSTS, members={"at_least": len(GOING)})
    with ring.start() as started:
        await_begun(ring, HOSTS, "one")
        send(ring, signal.SIGSTOP, STOPPED, "one")
        ring.let_go()
        started.await_error_line(f"n[5-6] have failed in two: not arrived within {WAIT_S}s")
        send(ring, signal.SIGCONT, STOPPED, "one")
        run = started.end()
    yield ring, run
    ring.end()


WHY = "an application of two barriers, one of which waits, for all tests that look at it"


@pytest.mark.gate(WHY)
def test_a_barrier_opens_without_those_that_stand_still(opened: Opened) -> None:
    ring, run = opened
    assert run.code == 1, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 4 of 6 nodes; failed: n[5-6]"
    phases = {host: ["one", "two", "three"] if host in GOING else ["one"] for host in HOSTS}
    assert ring.starts() == {(host, it): 1 for host in HOSTS for it in phases[host]}


@pytest.mark.gate(WHY)
def test_it_opens_after_those_that_go_on_have_arrived(opened: Opened) -> None:
    said = opened[0].said()
    for before, phase in (("one", "two"), ("two", "three")):
        last = max(said.index((host, before, "ends")) for host in GOING)
        assert all(said.index((host, phase, "begins")) > last for host in GOING)


@pytest.mark.gate(WHY)
def test_nothing_is_left_at_work_of_those_that_have_failed(opened: Opened) -> None:
    ring, _ = opened
    assert ring.at_work() == []
    assert [it for it in STOPPED if (it, "one", "ends") in ring.said()] == []


@pytest.mark.gate(WHY)
def test_status_names_those_that_have_not_arrived(
    opened: Opened, check_schema: CheckSchema
) -> None:
    data = opened[0].status()
    check_schema("application", data)
    assert (data["ended"], data["attempt"], data["left"]) == ("failed", 1, {})
    why = f"two: not arrived within {WAIT_S}s"
    assert {it["host"]: it["failed"] for it in data["members"]} == {
        host: why if host in STOPPED else "" for host in HOSTS
    }
    assert {it["host"]: starts_of(it) for it in data["members"]} == {
        host: [1, 0, 0] if host in STOPPED else [1, 1, 1] for host in HOSTS
    }


def starts_of(member: Mapping[str, Any]) -> list[int]:
    return [it["starts"] for it in member["phases"].values()]


# --- barriers that too few reach


ABORTS = {
    "all hang": ("sleep 1000", "3s", "0 of 4, of 4 that must; lacking: n[1-4]"),
    "all fail": ("exit 3", LONG, "0 of 4, of 4 that must; lacking: n[1-4]"),
    "one arrives": (
        "[ $COBWEB_HOST = n1 ] || exit 3",
        LONG,
        "1 of 4, of 4 that must; lacking: n[2-4]",
    ),
}
"""What hosts do before a barrier, how long it waits, and by whom it was reached."""


@pytest.mark.gate("an application that is aborted, three times")
@pytest.mark.parametrize("how", ABORTS)
def test_a_barrier_that_too_few_reach_ends_all(
    ring: CountedApplication, check_schema: CheckSchema, how: str
) -> None:
    """Also what is beside it on those that have arrived."""
    work, wait, reached = ABORTS[how]
    ring.write(
        {
            "one": {"run": ring.command("one", work)},
            "beside": {"run": ring.command("beside", ring.waits("never", "n1"))},
            "two": {"after": ["one"], "barrier": {"wait": wait}, "run": ring.command("two")},
        },
        HOSTS[:4],
    )
    run = ring.cobweb()
    assert run.code == 1, run.err
    assert f"ring is aborted: the barrier of two was reached by {reached}" in run.err.splitlines()
    assert run.err.splitlines()[-1].startswith("ring was aborted")
    assert ring.at_work() == []
    assert ring.starts() == {(it, phase): 1 for it in HOSTS[:4] for phase in ("one", "beside")}
    assert ("n1", "beside", "ends") not in ring.said()
    data = ring.status()
    check_schema("application", data)
    assert data["ended"] == "aborted"


@pytest.mark.full("an application is run to its end, four times")
@pytest.mark.parametrize(
    ("barrier", "recover"),
    [
        ({"wait": LONG, "else": "continue"}, None),
        ({"else": "continue"}, {"do": "continue", "else": "abort"}),
        ({"wait": LONG}, {"do": "continue", "else": "continue"}),
        ({}, {"do": "continue", "else": "continue"}),
    ],
    ids=str,
)
def test_with_continue_a_barrier_opens_for_those_that_have_arrived(
    ring: CountedApplication, barrier: Mapping[str, Any], recover: Mapping[str, Any] | None
) -> None:
    """What the barrier says comes before what `recover` says."""
    ring.write(
        {
            "one": {"run": ring.command("one", "case $COBWEB_HOST in n[34]) exit 3;; esac")},
            "two": {"after": ["one"], "barrier": barrier, "run": ring.command("two")},
        },
        HOSTS[:4],
        **({"recover": recover} if recover else {}),
    )
    run = ring.cobweb()
    assert run.code == 1, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 2 of 4 nodes; failed: n[3-4]"
    assert {it for it, phase in ring.starts() if phase == "two"} == {"n1", "n2"}
    assert set(ring.starts().values()) == {1}


@pytest.mark.full("an application is run to its end")
@pytest.mark.parametrize("kind", ["barrier", "recover"])
def test_abort_of_the_barrier_comes_before_that_of_recover(
    ring: CountedApplication, kind: str
) -> None:
    barrier, other = ("abort", "continue") if kind == "barrier" else (None, "abort")
    ring.write(
        {
            "one": {"run": ring.command("one", "[ $COBWEB_HOST = n1 ] || exit 3")},
            "two": {
                "after": ["one"],
                "barrier": {"else": barrier} if barrier else {},
                "run": ring.command("two"),
            },
        },
        recover={"do": "continue", "else": other},
    )
    run = ring.cobweb()
    assert run.code == 1, run.err
    said = "ring is aborted: the barrier of two was reached by 1 of 2, of 2 that must; lacking: n2"
    assert said in run.err.splitlines()
    assert ring.starts() == {("n1", "one"): 1, ("n2", "one"): 1}


@pytest.mark.full("an application is run to its end")
def test_with_continue_and_nobody_there_nothing_begins(ring: CountedApplication) -> None:
    barrier = {"wait": LONG, "else": "continue"}
    ring.write(
        {
            "one": {"run": ring.command("one", "exit 3")},
            "two": {"after": ["one"], "barrier": barrier, "run": ring.command("two")},
        }
    )
    run = ring.cobweb()
    assert run.code == 1, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 0 of 2 nodes; failed: n[1-2]"
    assert ring.starts() == {("n1", "one"): 1, ("n2", "one"): 1}


# --- who looks after it goes and comes back


def waits_for(ring: CountedApplication) -> list[str]:
    """Return what `app why` says of the barrier."""
    ran = ring.cobweb("app", "why", "ring")
    assert ran.code == 0, ran.err
    return [it for it in ran.out.splitlines() if it.startswith("two waits for one on ")]


@pytest.mark.full("a barrier waits for its whole time, and who looks after it is killed meanwhile")
def test_a_killed_controller_changes_nothing_about_when_a_barrier_opens(
    ring: CountedApplication,
) -> None:
    """The next one comes when half of the time is over, and has to wait for the rest."""
    barrier = {"wait": f"{WAIT_S}s", "else": "continue"}
    work = ring.waits("never", "n2")
    ring.write(
        {
            "one": {"run": ring.command("one", work), "stop_timeout": "1s"},
            "two": {"after": ["one"], "barrier": barrier, "run": ring.command("two", ring.waits())},
        }
    )
    with ring.start() as first:
        first.await_error_line("ring begins on 2 nodes")
        began = ring.cobweb("app", "status", "ring", "--no-ask", "-o", "json").data()["since"]
        ring.await_said(("n1", "one", "ends"), ("n2", "one", "begins"))
        before = waits_for(ring)
        first.process.kill()
    assert before
    assert re.search(r"\d\d:\d\d", before[0])
    until(lambda: time.time() > began + WAIT_S / 2)
    again = time.time()
    with ring.start() as second:
        second.await_error_line("ring goes on")
        assert waits_for(ring) == before
        second.await_error_line(f"n2 has failed in two: not arrived within {WAIT_S}s")
        await_begun(ring, ["n1"], "two")
        opened = ring.cobweb("app", "status", "ring", "--no-ask", "-o", "json").data()["since"]
        ring.let_go()
        run = second.end()
    assert again < opened < again + WAIT_S
    assert run.code == 1, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 1 of 2 nodes; failed: n2"
    assert ring.starts() == {("n1", "one"): 1, ("n2", "one"): 1, ("n1", "two"): 1}
    assert ring.at_work() == []


@pytest.mark.full("two hundred hosts, and two barriers each of which waits for its whole time")
@pytest.mark.timeout(900)
def test_two_barriers_of_two_hundred_hosts_open_without_three_that_stand_still(
    ring: CountedApplication,
) -> None:
    """Two before the first barrier, one before the second; what they are at is killed at last."""
    hosts = [f"n{it}" for it in range(1, 201)]
    work = f"{ring.waits(host='n50|n150', name='never')}; {ring.waits()}"
    then = f"{ring.waits('on')}; {ring.waits('never', 'n100')}"
    phases = {
        "one": {"run": ring.command("one", work)},
        "two": {"after": ["one"], "barrier": {"wait": "3m"}, "run": ring.command("two", then)},
        "three": {"after": ["two"], "barrier": {"wait": "2m"}, "run": ring.command("three")},
    }
    ring.write(phases, hosts, members={"at_least": "95%"})
    with ring.start() as started:
        await_begun(ring, hosts, "one")
        send(ring, signal.SIGSTOP, ["n50", "n150"], "one")
        ring.let_go()
        started.await_error_line("n[50,150] have failed in two: not arrived within 3m")
        through = [it for it in hosts if it not in ("n50", "n150")]
        await_begun(ring, through, "two")
        send(ring, signal.SIGSTOP, ["n100"], "two")
        ring.let_go("on")
        started.await_error_line("n100 has failed in three: not arrived within 2m")
        run = started.end()
    assert run.code == 1, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 197 of 200 nodes; failed: n[50,100,150]"
    assert ring.at_work() == []
    three = [it for it in through if it != "n100"]
    assert ring.starts() == {
        **{(it, "one"): 1 for it in hosts},
        **{(it, "two"): 1 for it in through},
        **{(it, "three"): 1 for it in three},
    }
