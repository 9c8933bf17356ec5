"""Controllers that die, freeze, or are two: one leads, nothing is done twice, all is done."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.nursery import NEVER, Nursery
from tests.support.served import Kept, eventually

pytestmark = pytest.mark.gate("controllers in processes of their own, which are killed")

Make = Callable[..., Kept]

SERVER, CONFIG, PLAIN, SWITCH = "n1/server", "n1/config", "n2/plain", "n2/switch-n2"
MOMENTS = 200
"""More than one round has starts of children and writes."""

IDLE_S = 5.0
"""The time of three rounds and more, with one of them each second."""


def is_done(site: Kept, text: str, cob: str = PLAIN) -> Callable[[], bool]:
    return lambda: site.board_of(cob) == text


def is_reached(site: Kept, commit: str) -> Callable[[], bool]:
    """Return whether the goal is reached with this commit admitted."""

    def reached() -> bool:
        data = site.approvals()
        admitted = data["admitted"] or {"commit": None}
        return (data["goal"]["state"], admitted["commit"]) == ("reached", commit)

    return reached


def assert_one_run_at_a_time(site: Kept) -> None:
    """Fail if two runs were at work at the same time, or one did not come to its end."""
    runs = sorted(site.runs(), key=lambda it: it["started"])
    assert all(run["result"] == "ok" for run in runs), runs
    assert all(one["ended"] <= after["started"] for one, after in itertools.pairwise(runs)), runs


@contextmanager
def leading(site: Kept) -> Iterator[Any]:
    """Run a server that leads and has brought the newest commit about."""
    with site.server() as server:
        eventually(site.leader, "somebody leads")
        yield server


# One server


def test_a_server_brings_each_commit_and_decision_about(kept: Kept) -> None:
    with kept.server() as server:
        kept.commit(plain="two")
        eventually(is_done(kept, "two"), "the commit is applied")
        kept.decide("n2", {"text": "on"})
        eventually(is_done(kept, "on", SWITCH), "the decision is applied")
        head = kept.commit(config="two")
        eventually(kept.waiting, "the commit waits")
        assert kept.done_once(SERVER, "one")
        kept.done("approve", "git")
        eventually(is_reached(kept, head), "what is approved is applied")
        server.signal(signal.SIGTERM)
        assert server.ended().code == 0
    assert kept.leader() is None
    assert kept.done_once(SERVER, None)
    assert kept.done_once(CONFIG, "two")


def test_a_server_goes_on_after_what_it_cannot_read(kept: Kept) -> None:
    away = kept.folder.with_name("away")
    with leading(kept) as server:
        said = server.said()
        kept.folder.rename(away)
        eventually(lambda: str(kept.folder) in server.said().removeprefix(said), "it says so")
        away.rename(kept.folder)
        kept.commit(plain="two")
        eventually(is_done(kept, "two"), "the commit is applied")
        assert "Traceback" not in server.said()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_server_that_is_ended_leaves_its_run_at_work(kept: Kept, number: int, code: int) -> None:
    kept.hold(PLAIN)
    with kept.server() as server:
        kept.commit(plain="two")
        kept.await_begin(PLAIN)
        server.signal(number)
        ended = server.ended()
    assert (ended.code, "goes on" in ended.err) == (code, True), ended
    run = kept.runs()[0]
    assert run["goes_on"]
    assert run["id"] in ended.err
    kept.let_go(PLAIN)
    eventually(lambda: not kept.runs()[0]["goes_on"], "the run ends")
    assert kept.runs()[0]["result"] == "ok"
    assert kept.code() == 0
    assert kept.done_once(PLAIN, "two")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_of_a_single_round_interrupts_its_run(make_kept: Make, number: int) -> None:
    site = make_kept(policy="{outages: auto}")
    assert site.code() == 0
    site.hold(SERVER)
    site.commit(config="two")
    with site.child(*site.served, "--once") as round_:
        site.await_begin(SERVER)
        round_.signal(number)
        time.sleep(2.0)  # the run gets the signal from the controller; nothing tells when it has
        site.let_go(SERVER)
        assert round_.ended().code == 130
    assert site.runs()[0]["result"] == "interrupted"
    assert site.board_of(CONFIG) == "one"


# Two


def test_a_second_controller_waits_and_a_single_round_says_who_leads(kept: Kept) -> None:
    with leading(kept):
        leader = kept.leader()
        ran = kept.ran(*kept.served, "--once")
        assert ran.code == 5, ran
        with kept.server() as second:
            eventually(second.said, "it says that it waits")
            kept.commit(plain="two")
            eventually(is_done(kept, "two"), "the commit is applied")
            assert kept.leader() == leader
    assert kept.done_once(PLAIN, "two")


def test_who_leads_and_is_dead_is_replaced_at_once(kept: Kept) -> None:
    with leading(kept) as server:
        server.kill()
    kept.commit(plain="two")
    assert kept.code() == 0
    assert kept.done_once(PLAIN, "two")


def test_after_a_kill_in_a_run_two_controllers_do_the_rest_once(kept: Kept) -> None:
    kept.hold(PLAIN)
    with kept.server() as first:
        kept.commit(plain="two")
        kept.await_begin(PLAIN)
        dead = kept.leader()
        first.kill()
    kept.further = f"  rest: {kept.board('n3', 'one')}\n"
    kept.commit("the rest")
    words = (*kept.served, "--once")
    with kept.child(*words) as one, kept.child(*words) as other:
        eventually(lambda: kept.leader() not in (None, dead), "one of both leads")
        kept.let_go(PLAIN)
        codes = sorted([one.ended().code, other.ended().code])
    assert codes in ([0, 0], [0, 5]), one.said() + other.said()
    assert kept.done_once(PLAIN, "two")
    assert kept.done_once("n3/rest", "one")
    assert_one_run_at_a_time(kept)


def test_two_first_starts_at_once_bring_the_site_about_once(fresh: Kept) -> None:
    words = (*fresh.served, "--once")
    with fresh.child(*words) as one, fresh.child(*words) as other:
        codes = sorted([one.ended().code, other.ended().code])
    assert codes in ([0, 0], [0, 5]), one.said() + other.said()
    assert set(fresh.ends().values()) == {1}
    assert_one_run_at_a_time(fresh)


def test_after_the_death_of_controller_and_run_the_next_round_does_it(kept: Kept) -> None:
    kept.hold(PLAIN)
    with kept.server() as first:
        kept.commit(plain="two")
        kept.await_begin(PLAIN)
        first.kill()
    run = psutil.Process(kept.runs()[0]["pid"])
    run.kill()
    eventually(lambda: not kept.runs()[0]["goes_on"], "the run is dead")
    kept.let_go(PLAIN)
    assert kept.code() == 0
    assert kept.ends()[(PLAIN, "two")] == 1


def test_a_run_whose_controller_was_killed_is_not_begun_again(kept: Kept) -> None:
    """Also where the run ended before the next controller came."""
    kept.hold(PLAIN)
    with kept.server() as first:
        head = kept.commit(plain="two")
        kept.await_begin(PLAIN)
        first.kill()
    kept.let_go(PLAIN)
    eventually(lambda: not kept.runs()[0]["goes_on"], "the run ends")
    data = kept.once()
    assert (data["exit_code"], data["admitted"]["commit"]) == (0, head)
    assert data["goal"]["run"] == kept.runs()[0]["id"]
    assert kept.done_once(PLAIN, "two")
    assert len(kept.runs()) == 2


def test_a_failure_after_the_controller_was_killed_is_one(kept: Kept) -> None:
    kept.hold(PLAIN)
    kept.fail(PLAIN)
    with kept.server() as first:
        kept.commit(plain="two")
        kept.await_begin(PLAIN)
        first.kill()
    kept.let_go(PLAIN)
    eventually(lambda: not kept.runs()[0]["goes_on"], "the run ends")
    data = kept.once()
    goal = data["goal"]
    assert (data["exit_code"], goal["state"], goal["failures"]) == (1, "failed", 1)
    assert goal["again"] is not None


# Death at any point


def changes(site: Kept) -> Iterator[str]:
    """Yield texts, each new; the site then has a commit and a decision with it that wait for it."""
    for number in range(MOMENTS):
        text = f"t{number}"
        site.commit(text, config=text, plain=text)
        site.decide("n2", {"text": text})
        yield text


def assert_all_done(site: Kept, text: str) -> None:
    assert site.code() == 0, text
    assert all(site.done_once(cob, text) for cob in (CONFIG, PLAIN, SWITCH)), (text, site.log())
    assert_one_run_at_a_time(site)


@pytest.mark.full("a round of three processes for each start of a child, twice")
@pytest.mark.timeout(900)
def test_killed_at_any_start_of_a_child_the_next_round_does_the_rest_once(make_kept: Make) -> None:
    site = make_kept(policy="{outages: auto}")
    assert site.code() == 0
    program = ("-m", "tests.support.dying_server")
    moments = 0
    for text in changes(site):
        words = (str(moments), *site.served, "--once")
        with site.child(*words, program=program) as dying:
            code = dying.ended().code
        assert_all_done(site, text)
        assert site.ends()[(SERVER, None)] == moments + 1
        moments += 1
        if code == 0:
            break
        assert code == -signal.SIGKILL, dying.said()
    assert moments > 4, "there are a plan and an apply at least"


@pytest.mark.full("a round of three processes for each write of one")
@pytest.mark.timeout(900)
def test_killed_at_any_write_the_next_round_does_the_rest_once(
    make_kept: Make, tmp_path: Path
) -> None:
    site = make_kept(policy="{outages: auto}")
    assert site.code() == 0
    (tmp_path / "nursery").mkdir()
    nursery = Nursery(tmp_path / "nursery", {"PYTHONPATH": os.environ["PYTHONPATH"]})
    moments = 0
    try:
        for text in changes(site):
            ended = nursery.run(moments, (*site.served, "--once"))
            assert_all_done(site, text)
            moments += 1
            if ended.code == 0:
                break
            assert ended.code == -signal.SIGKILL, ended
    finally:
        nursery.close()
    assert 4 < moments < NEVER, "a round writes before it begins and after it ended"


# Frozen


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.full("a frozen leader is waited for 20 s")),
        pytest.param("postgresql", marks=pytest.mark.full("a frozen leader is waited for 20 s")),
    ]
)
def somewhere(request: pytest.FixtureRequest, make_kept: Make) -> Kept:
    """Return a site that a controller has brought about, on each kind of database."""
    state = ""
    if request.param == "postgresql":
        state = request.getfixturevalue("postgresql_url")()
    site = make_kept(state=state)
    assert site.code() == 0
    return site


def is_replaced(site: Kept, leader: object) -> Callable[[], bool]:
    return lambda: site.leader() not in (None, leader)


def test_a_frozen_leader_that_wakes_up_writes_nothing(somewhere: Kept) -> None:
    """It is frozen while its run is at work, so that it has something to write when it wakes up."""
    site = somewhere
    site.hold(PLAIN)
    with site.server() as first:
        head = site.commit(plain="two")
        site.await_begin(PLAIN)
        frozen = site.leader()
        first.signal(signal.SIGSTOP)
        with site.server() as second:
            eventually(is_replaced(site, frozen), "the other leads")
            site.let_go(PLAIN)
            eventually(is_reached(site, head), "the other has seen the end of the run")
            before = site.approvals(), site.log(), site.runs(), site.documents()
            said = len(first.said())
            first.signal(signal.SIGCONT)
            eventually(lambda: "lead" in first.said()[said:], "it says that it leads no more")
            assert (site.approvals(), site.log(), site.runs(), site.documents()) == before
            site.commit(plain="three")
            eventually(is_done(site, "three"), "the next commit is applied")
            assert first.process.poll() is None, "it waits again"
            second.kill()
            site.commit(plain="four")
            eventually(is_done(site, "four"), "the first one leads again")
    assert all(site.done_once(PLAIN, text) for text in ("two", "three", "four"))
    assert_one_run_at_a_time(site)


def test_a_single_round_that_was_frozen_writes_nothing_and_ends_with_5(somewhere: Kept) -> None:
    site = somewhere
    site.hold(PLAIN)
    head = site.commit(plain="two")
    with site.child(*site.served, "--once") as first:
        site.await_begin(PLAIN)
        frozen = site.leader()
        first.signal(signal.SIGSTOP)
        with site.server():
            eventually(is_replaced(site, frozen), "the other leads")
            site.let_go(PLAIN)
            eventually(is_reached(site, head), "the other has seen the end of the run")
            before = site.log(), site.runs(), site.documents()
            first.signal(signal.SIGCONT)
            assert first.ended().code == 5
            assert (site.log(), site.runs(), site.documents()) == before


@pytest.mark.full("two servers, of which one is killed, on a PostgreSQL server of the test")
@pytest.mark.parametrize("dies_in_a_run", [False, True])
def test_two_controllers_on_postgresql_do_everything_once(
    make_kept: Make, postgresql_url: Callable[[], str], *, dies_in_a_run: bool
) -> None:
    site = make_kept(state=postgresql_url())
    assert site.code() == 0
    with leading(site) as first:
        leader = site.leader()
        with site.server():
            site.commit(plain="two")
            eventually(is_done(site, "two"), "the commit is applied")
            assert site.leader() == leader
            if dies_in_a_run:
                site.hold(PLAIN)
                site.commit(plain="three")
                site.await_begin(PLAIN)
            first.kill()
            site.commit(config="x", plain="four")
            eventually(is_replaced(site, leader), "the other leads")
            site.let_all_go()
            eventually(site.waiting, "what takes something out waits")
            site.done("approve", "git")
            eventually(is_done(site, "four"), "what is approved is applied")
            eventually(lambda: site.approvals()["goal"]["state"] == "reached", "all is done")
    texts = ("two", "three", "four") if dies_in_a_run else ("two", "four")
    assert all(site.done_once(PLAIN, text) for text in texts)
    assert site.done_once(CONFIG, "x")
    assert_one_run_at_a_time(site)


# Idle


def faults_of_children(pid: int) -> int:
    """Return the page faults of all children that a process has waited for: it grows with each."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[8])


def is_quiet(process: psutil.Process) -> bool:
    """Say whether a process has no children for as long as two rounds."""
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        if process.children():
            return False
        time.sleep(0.02)  # it is watched for a time: there is nothing to wait for
    return True


@pytest.mark.full("200 hosts, and as long as several rounds")
@pytest.mark.timeout(300)
def test_an_idle_server_starts_no_process(make_kept: Make) -> None:
    site = make_kept(is_git=False, hosts=[f"n{number}" for number in range(1, 201)])
    site.further = f"  each: {site.board('all', 'one')}\n"
    site.write()
    with site.server() as server:
        eventually(lambda: site.approvals()["goal"]["state"] == "reached", "all is done", 120.0)
        process = psutil.Process(server.pid)
        eventually(lambda: is_quiet(process), "it has looked once more after its run")
        before, until = faults_of_children(server.pid), time.monotonic() + IDLE_S
        while time.monotonic() < until:
            assert process.children() == []
            time.sleep(0.02)  # it is watched for a time: there is nothing to wait for
        assert faults_of_children(server.pid) == before
        site.write(plain="two")
        eventually(is_done(site, "two"), "it is not asleep")
