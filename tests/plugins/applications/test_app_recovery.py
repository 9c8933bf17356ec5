"""What is done when a phase ends badly: starts are counted by the program that is started."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.counted_application import CountedApplication
from tests.support.operator import Run
from tests.support.pool_members import until

CheckSchema = Callable[[str, Any], None]
Ended = tuple[CountedApplication, Run]

REASONS = {
    "exits": "ended with exit status 3",
    "ill": "is not healthy: ended with exit status 1: no pulse",
    "killed": "ended by SIGKILL",
    "late": "did not end within 4 s",
    "lost": "its supervisor is gone",
    "nothing": "start the phase",
}
"""Why each host fails; of the last, which has no program, that is how the reason begins."""

HELPED = ("exits", "ill", "killed", "late", "lost")
"""Those that do well when they are started the second time."""

EVER, WELL = "ever", "well"
"""Hosts that never do well (with another exit status than all others), and that always do."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[CountedApplication]:
    ring = CountedApplication(tmp_path)
    yield ring
    ring.end()


def write(
    ring: CountedApplication, hosts: Sequence[str], recover: Mapping[str, Any], **two: Any
) -> None:
    """Write an application whose hosts fail, each as its name says, when they first begin.

    They do so in `one`, only `late` in `short`, which has a timeout. The host `well` is let go in
    `beside`; `two` is what else is said of the last phase.
    """
    first = f"mkdir {ring.base}/first.$COBWEB_HOST 2>/dev/null"
    ill, this = f"{ring.base}/ill.$COBWEB_HOST", "$COBWEB_INSTANCE.$COBWEB_START"
    works = {
        "exits": f"! {first} || exit 3",
        "ill": f"! {first} || {{ echo {this} >{ill}; sleep 1000; }}",
        "killed": f"! {first} || kill -9 $$",
        "lost": f"! {first} || sleep 1000",
        EVER: "exit 5",
    }
    variables = {
        host: {
            "program": "/no/such/program" if host == "nothing" else "/bin/sh",
            "work": ring.command("one", works.get(host, ":")),
        }
        for host in hosts
    }
    one = {
        "run": ["{{ program }}", "-c", "{{ work }}"],
        "health": f'[ "$(cat {ill} 2>/dev/null)" != {this} ] || {{ echo no pulse; exit 1; }}',
        "every": "0.5s",
        "stop_timeout": "2s",
    }
    late = f"[ $COBWEB_HOST != late ] || ! {first} || sleep 1000"
    beside = {"run": ring.command("beside", ring.waits("go", WELL))}
    phases = {
        "one": one,
        **(
            {"short": {"run": ring.command("short", late), "timeout": "4s"}}
            if "late" in hosts
            else {}
        ),
        **({"beside": beside} if WELL in hosts else {}),
    }
    last = {"after": list(phases), "run": ring.command("two"), **two}
    ring.write({**phases, "two": last}, variables, recover=recover)


def run_to_the_end(ring: CountedApplication, lost: Sequence[str] = ()) -> Run:
    """Run it to its end, with hosts that lose their supervisor."""
    with ring.start() as started:
        lose(ring, lost)
        return started.end()


def lose(ring: CountedApplication, hosts: Sequence[str]) -> None:
    """Kill the supervisors of hosts once `one` is at work there."""
    for host in hosts:
        ring.await_supervised(host, "one")
        for pid in ring.supervisors(host):
            os.kill(pid, signal.SIGKILL)


def lines(run: Run, words: str) -> list[str]:
    """Return the lines with these words, in their order."""
    return [it for it in run.err.splitlines() if words in it]


def counts(status: Mapping[str, Any], phase: str) -> dict[str, int]:
    """Return the starts of a phase that `app status` knows, by host."""
    return {it["host"]: it["phases"][phase]["starts"] for it in status["members"]}


def numbers(ring: CountedApplication, host: str, phase: str = "") -> list[int]:
    """Return the numbers that the starts of a phase were given, in their order.

    By default it is the one that the host fails in.
    """
    return [it.start for it in ring.begun(host, phase or phase_of(host))]


def phase_of(host: str) -> str:
    """Return the phase that a host fails in."""
    return "short" if host == "late" else "one"


# --- restart


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """Run an application that fails in all ways; most of its hosts do well when started again."""
    ring = CountedApplication(tmp_path_factory.mktemp("restarted"))
    write(ring, [*REASONS, EVER], {"do": "restart", "times": 2})
    yield ring, run_to_the_end(ring, ["lost"])
    ring.end()


WHY = "one application that is restarted in all ways, for all tests that look at it"


@pytest.mark.gate(WHY)
def test_restart_is_told_with_reason_and_number(restarted: Ended) -> None:
    _, run = restarted
    told = lines(run, " started again in ")
    for host, why in REASONS.items():
        times, phase = 2 if host == "nothing" else 1, phase_of(host)
        mine = [it for it in told if it.startswith(f"{host} ")]
        heads = [f"{host} is started again in {phase}, {it} of 2: {why}" for it in (1, 2)[:times]]
        assert len(mine) == times, run.err
        assert [it for it, head in zip(mine, heads, strict=True) if not it.startswith(head)] == []
    assert [it for it in told if it.startswith(EVER)] == [
        f"{EVER} is started again in one, {it} of 2: ended with exit status 5" for it in (1, 2)
    ]


@pytest.mark.gate(WHY)
def test_who_is_not_helped_fails_after_so_many_times(restarted: Ended) -> None:
    """The others go on: that is what `else` says by default."""
    _, run = restarted
    failed = lines(run, " has failed in ")
    assert len(failed) == 2, run.err
    assert f"{EVER} has failed in one: ended with exit status 5" in failed
    assert any(it.startswith(f"nothing has failed in one: {REASONS['nothing']}") for it in failed)
    assert run.code == 1
    said, _, names = run.err.splitlines()[-1].partition("; failed: ")
    assert said == "ring has ended on 5 of 7 nodes"
    assert sorted(names.split(",")) == [EVER, "nothing"]


@pytest.mark.gate(WHY)
def test_the_program_counts_one_start_for_each_time(restarted: Ended) -> None:
    ring, _ = restarted
    wanted = {**{it: [1, 2] for it in HELPED}, EVER: [1, 2, 3], "nothing": []}
    assert {host: numbers(ring, host) for host in wanted} == wanted
    assert {host: numbers(ring, host, "two") for host in wanted} == {
        host: [1] if host in HELPED else [] for host in wanted
    }
    assert len(ring.instances()) == 1
    assert ring.at_work() == []


@pytest.mark.gate(WHY)
def test_status_counts_the_starts_that_were_decided(
    restarted: Ended, check_schema: CheckSchema
) -> None:
    data = restarted[0].status()
    check_schema("application", data)
    assert (data["ended"], data["attempt"], data["left"]) == ("failed", 1, {})
    wanted = {**dict.fromkeys(HELPED, 2), EVER: 3, "nothing": 3}
    assert counts(data, "one") == {**wanted, "late": 1}
    assert counts(data, "short") == {**dict.fromkeys(wanted, 1), "late": 2}
    assert counts(data, "two") == {**dict.fromkeys(HELPED, 1), EVER: 0, "nothing": 0}
    failed = {it["host"]: it["failed"] for it in data["members"] if it["failed"]}
    assert sorted(failed) == [EVER, "nothing"]
    assert failed[EVER] == "one: ended with exit status 5"


@pytest.mark.gate("an application that is restarted on one of two hosts")
def test_restarts_that_help_are_no_failure(ring: CountedApplication) -> None:
    """Nobody passes a barrier meanwhile."""
    write(ring, [WELL, "exits"], {"do": "restart"}, barrier={})
    ring.let_go()
    run = run_to_the_end(ring)
    assert run.code == 0, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 2 of 2 nodes"
    again = "exits is started again in one, 1 of 3: ended with exit status 3"
    assert lines(run, "started again") == [again]
    once = {(it, phase): 1 for it in (WELL, "exits") for phase in ("one", "beside", "two")}
    assert ring.starts() == {**once, ("exits", "one"): 2}
    said = ring.said()
    arrived = said.index(("exits", "one", "ends"))
    assert [it for it in said[:arrived] if it[1] == "two"] == []


@pytest.mark.full("an application is run to its end")
def test_restarts_that_never_help_are_followed_by_else(
    ring: CountedApplication, check_schema: CheckSchema
) -> None:
    write(ring, [WELL, EVER], {"do": "restart", "times": 1, "else": "abort"})
    run = run_to_the_end(ring)
    assert run.code == 1, run.err
    why = "ended with exit status 5"
    assert lines(run, "started again") == [f"{EVER} is started again in one, 1 of 1: {why}"]
    assert f"ring is aborted: {EVER} has failed in one: {why}" in run.err.splitlines()
    assert run.err.splitlines()[-1] == f"ring was aborted; failed: {EVER}"
    assert numbers(ring, EVER) == [1, 2]
    assert_aborted(ring, check_schema)


@pytest.mark.full("an application is run to its end")
@pytest.mark.parametrize("kind", ["exit", "health", "lost"])
def test_what_is_not_in_on_is_not_restarted(ring: CountedApplication, kind: str) -> None:
    """It fails at once, as `else` says; with the others all is as they want it."""
    kinds = {"exit": "exits", "health": "ill", "lost": "lost"}
    hosts = sorted(kinds.values())
    write(ring, hosts, {"on": [kind], "do": "restart"})
    run = run_to_the_end(ring, ["lost"])
    assert run.code == 1, run.err
    assert {host: numbers(ring, host) for host in hosts} == {
        host: [1, 2] if host == kinds[kind] else [1] for host in hosts
    }
    failed = [it for it in hosts if it != kinds[kind]]
    assert sorted(lines(run, " has failed in ")) == [
        f"{it} has failed in one: {REASONS[it]}" for it in failed
    ]
    assert ring.at_work() == []


# --- abort and continue


def assert_aborted(ring: CountedApplication, check_schema: CheckSchema) -> None:
    """Assert that it was aborted while the host `well` was at work, and nothing is left."""
    assert ring.at_work() == []
    assert max(ring.starts()[WELL, it] for it in ("one", "beside")) == 1
    assert (WELL, "beside", "ends") not in ring.said()
    assert "two" not in {phase for _, phase in ring.starts()}
    data = ring.status()
    check_schema("application", data)
    assert data["ended"] == "aborted"


@pytest.mark.gate("an application that is aborted, in one way for the gate")
@pytest.mark.parametrize(
    "host",
    [
        pytest.param(it, marks=[] if it == "exits" else pytest.mark.full("all other ways"))
        for it in REASONS
    ],
)
def test_abort_ends_the_others_at_once(
    ring: CountedApplication, check_schema: CheckSchema, host: str
) -> None:
    write(ring, [WELL, host], {"do": "abort"})
    run = run_to_the_end(ring, ["lost"] if host == "lost" else [])
    assert run.code == 1, run.err
    (said,) = lines(run, "ring is aborted: ")
    assert said.startswith(
        f"ring is aborted: {host} has failed in {phase_of(host)}: {REASONS[host]}"
    )
    assert run.err.splitlines()[-1] == f"ring was aborted; failed: {host}"
    assert numbers(ring, host) == ([] if host == "nothing" else [1])
    assert_aborted(ring, check_schema)


@pytest.mark.full("an application is run to its end")
@pytest.mark.parametrize("recover", [{"do": "continue"}, None], ids=str)
def test_continue_ends_what_a_failed_member_has_at_work_at_once(
    ring: CountedApplication, recover: Mapping[str, Any] | None
) -> None:
    """The other one goes on only after that."""
    ended = ring.base / "ended"
    trap = f"trap 'touch {ended}; exit 0' TERM; {ring.waits('never', 'n2')}"
    work = f"[ $COBWEB_HOST = n1 ] || exit 3; until [ -e {ended} ]; do sleep 0.1; done"
    phases = {
        "beside": {"run": ring.command("beside", trap)},
        "one": {"run": ring.command("one", work), "timeout": "60s"},
        "two": {"after": ["one"], "run": ring.command("two")},
    }
    ring.write(phases, **({"recover": recover} if recover else {}))
    run = run_to_the_end(ring)
    assert run.code == 1, run.err
    assert lines(run, " has failed in ") == ["n2 has failed in one: ended with exit status 3"]
    assert run.err.splitlines()[-1] == "ring has ended on 1 of 2 nodes; failed: n2"
    assert ring.starts() == {
        ("n1", "beside"): 1,
        ("n2", "beside"): 1,
        ("n1", "one"): 1,
        ("n2", "one"): 1,
        ("n1", "two"): 1,
    }
    assert ring.at_work() == []


# --- restart-all


@pytest.mark.gate("an application that begins again, in one way for the gate")
@pytest.mark.parametrize(
    "host",
    [
        pytest.param(it, marks=[] if it == "exits" else pytest.mark.full("all other ways"))
        for it in HELPED
    ],
)
def test_restart_all_begins_again_as_a_new_instance(
    ring: CountedApplication, check_schema: CheckSchema, host: str
) -> None:
    """The other one is ended, and let go in the second one."""
    write(ring, [WELL, host], {"do": "restart-all"})
    with ring.start() as started:
        lose(ring, ["lost"] if host == "lost" else [])
        started.await_error_line(
            f"ring begins again, 1 of 3: {host} has failed in {phase_of(host)}: {REASONS[host]}"
        )
        until(lambda: len(ring.begun(WELL, "beside")) == 2)
        ring.let_go()
        run = started.end()
    assert run.code == 0, run.err
    assert run.err.splitlines()[-1] == "ring has ended on 2 of 2 nodes"
    assert numbers(ring, host) == numbers(ring, WELL, "beside") == [1, 1]
    assert [numbers(ring, it, "two") for it in (WELL, host)] == [[1], [1]]
    assert len(ring.instances()) == 2
    assert ring.said().count((WELL, "beside", "ends")) == 1
    assert ring.at_work() == []
    data = ring.status()
    check_schema("application", data)
    assert (data["ended"], data["attempt"]) == ("done", 2)
    assert counts(data, phase_of(host)) == {WELL: 1, host: 1}
    assert data["instance"] == ring.begun(WELL, "two")[0].instance


@pytest.mark.full("an application is run three times")
@pytest.mark.parametrize("host", [EVER, "nothing"])
@pytest.mark.parametrize("last", ["continue", "abort"])
def test_restart_all_that_never_helps_is_followed_by_else(
    ring: CountedApplication, check_schema: CheckSchema, host: str, last: str
) -> None:
    why = REASONS.get(host, "ended with exit status 5")
    write(ring, [WELL, host], {"do": "restart-all", "times": 2, "else": last})
    with ring.start() as started:
        for it in (1, 2):
            head = f"ring begins again, {it} of 2: {host} has failed in one: {why}"
            started.await_error_line(head)
        started.await_error_line(f"{host} has failed in one: {why}")
        ring.let_go()
        run = started.end()
    assert run.code == 1, run.err
    assert len(lines(run, "begins again")) == 2
    end = "ring has ended on 1 of 2 nodes" if last == "continue" else "ring was aborted"
    assert run.err.splitlines()[-1] == f"{end}; failed: {host}"
    assert numbers(ring, host) == ([] if host == "nothing" else [1, 1, 1])
    assert ring.at_work() == []
    data = ring.status()
    check_schema("application", data)
    wanted = "failed" if last == "continue" else "aborted"
    assert (data["ended"], data["attempt"]) == (wanted, 3)


# --- who looks after it is killed


FAILS = "sleep 0.5; [ $COBWEB_START -ge {{ needs }} ] || exit 3"
"""Work of a phase that does well with the start that its host needs."""


def write_needs(ring: CountedApplication, needs: Mapping[str, int]) -> None:
    """Write an application of two phases, in each of which hosts do well with these starts."""
    ring.write(
        {
            "one": {"run": ring.command("one", FAILS)},
            "two": {"after": ["one"], "barrier": {}, "run": ring.command("two", FAILS)},
        },
        {host: {"needs": start} for host, start in needs.items()},
        recover={"do": "restart", "times": max(needs.values())},
    )


def check_needs(ring: CountedApplication, needs: Mapping[str, int]) -> None:
    """Check that each host was started as often as it needs, and that this is known."""
    data = ring.status()
    assert (data["ended"], len(ring.instances())) == ("done", 1)
    for phase in ("one", "two"):
        assert {host: numbers(ring, host, phase) for host in needs} == {
            host: list(range(1, start + 1)) for host, start in needs.items()
        }
        assert counts(data, phase) == needs
    assert ring.at_work() == []


def run_with_kills(ring: CountedApplication, kills: int, seed: int) -> None:
    """Kill `app run` at so many random moments, then leave one alone; it ends well."""
    chance = random.Random(seed)
    moments = [chance.uniform(0.3, 6.0) for _ in range(kills)]
    code, said = -signal.SIGKILL, ""
    while code == -signal.SIGKILL:  # after another end, the next one would start it anew
        moment_s = moments.pop() if moments else None
        code, said = ring.run_or_kill(moment_s, whole=chance.random() < 0.5)
    assert code == 0, said


@pytest.mark.gate("six kills, and what follows")
@pytest.mark.parametrize("seed", [5])
def test_each_restart_that_is_decided_is_one_start(ring: CountedApplication, seed: int) -> None:
    needs = {"n1": 1, "n2": 2, "n3": 3, "n4": 3}
    write_needs(ring, needs)
    run_with_kills(ring, 6, seed)
    check_needs(ring, needs)


@pytest.mark.full("twenty kills, and what follows")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2])
def test_each_of_many_restarts_is_one_start(ring: CountedApplication, seed: int) -> None:
    needs = {f"n{it}": 1 + it % 5 for it in range(12)}
    write_needs(ring, needs)
    run_with_kills(ring, 20, seed)
    check_needs(ring, needs)


@pytest.mark.full("two that look after it at once")
def test_two_controllers_restart_it_once(ring: CountedApplication) -> None:
    needs = {"n1": 2, "n2": 3}
    write_needs(ring, needs)
    with ring.start() as one, ring.start() as other:
        runs = [one.end(), other.end()]
    assert 0 in {it.code for it in runs}, runs
    assert "Traceback" not in str(runs)
    check_needs(ring, needs)


@pytest.mark.full("ten kills, and what follows")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [7])
def test_each_instance_that_begins_again_is_started_once(
    ring: CountedApplication, seed: int
) -> None:
    """One host fails in the first two instances, while the others wait for it."""
    well, tries = f"{ring.base}/well", f"{ring.base}/try"
    fails = f"mkdir {tries}1 2>/dev/null || mkdir {tries}2 2>/dev/null || touch {well}"
    waits = f"until [ -e {well} ]; do sleep 0.1; done"
    work = f"case $COBWEB_HOST in n2) sleep 1; {fails}; [ -e {well} ] || exit 3;; esac; {waits}"
    phases = {
        "one": {"run": ring.command("one", work), "stop_timeout": "2s"},
        "two": {"after": ["one"], "barrier": {}, "run": ring.command("two")},
    }
    ring.write(phases, ["n1", "n2", "n3"], recover={"do": "restart-all", "times": 3})
    run_with_kills(ring, 10, seed)
    data = ring.status()
    assert (data["ended"], data["attempt"]) == ("done", 3)
    instances = [it.instance for it in ring.begun("n2", "one")]
    assert len(instances) == len(set(instances)) == 3
    assert data["instance"] == instances[-1]
    assert max(ring.starts().values()) <= 3
    begun = [it[:3] for it in ring.begun()]
    assert len(begun) == len(set(begun))
    assert ring.at_work() == []
