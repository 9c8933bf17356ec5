"""Moves that are killed, or meet each other: the same command goes on, and nobody has two owners.

The fixture `hands` looks at all owners' files all the time, and fails a test that had two.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.pools.hands import MARK, Hands
from tests.support.nursery import NEVER, Nursery

pytestmark = [
    pytest.mark.full("real moves that are killed or meet; the gate has one that is killed twice"),
    pytest.mark.timeout(400),
]

STRIDE = 5
"""Each so many of the moments at which a move could be killed it is."""


def decided(hands: Hands, id_: str) -> tuple[str | None, str | None]:
    """Return service and phase of a resource as they are decided."""
    ran = hands.run("decisions", "pools", id_, "-o", "json")
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["sections"]["pools"]["decisions"]
    body = found["body"]
    return body["service"], body["phase"]


def go_on(hands: Hands, id_: str, service: str) -> None:
    """Give the same command again, which ends well."""
    ran = hands.pool("move", id_, service, "--drain", "1m")
    assert ran.code == 0, ran.err
    assert hands.owners(id_) == [service]
    assert hands.whose(id_) == ("assigned", service, None)


def wait_empty(hands: Hands, service: str) -> None:
    """Wait until no job of a service waits."""
    queue = hands.base / service / "queue"
    hands.wait_for(lambda: not any(queue.iterdir()), f"{service} has nothing left")


@pytest.mark.gate("the story of a move that dies while its host leaves, and again while it joins")
def test_a_move_is_killed_while_it_leaves_and_while_it_joins(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.hold("epilogue-batch")
    hands.hold("prologue-hpc")
    moving = hands.start("pool", "move", "n01", "hpc", "--yes")
    hands.wait_told("epilogue-batch")
    hands.kill(moving)
    assert decided(hands, "n01") == ("hpc", "in")
    assert hands.owners("n01") == ["batch"]
    hands.put("batch", "left-behind")

    hands.no_hold("epilogue-batch")
    moving = hands.start("pool", "move", "n01", "hpc", "--yes")
    hands.wait_told("prologue-hpc")
    hands.kill(moving)
    assert hands.owners("n01") == ["hpc"]
    hands.put("hpc", "job")

    hands.no_hold("prologue-hpc")
    go_on(hands, "n01", "hpc")
    hands.wait_done("hpc", "job")
    assert hands.begun() == ["job hpc n01"]


def test_a_move_is_killed_while_it_drains(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    hands.put("batch", "next")
    moving = hands.start("pool", "move", "n01", "hpc", "--drain", "10m", "--yes")
    hands.wait_for(lambda: hands.drains("n01", "batch"), "n01 drains")
    hands.kill(moving)
    assert decided(hands, "n01") == ("batch", "leaving")
    assert hands.owners("n01") == ["batch"]
    hands.let_go("long")
    go_on(hands, "n01", "hpc")
    assert (hands.begun(), hands.ended()) == (["long batch n01"], ["long"])
    go_on(hands, "n01", "batch")
    hands.wait_done("batch", "next")
    assert hands.ended() == ["long", "next"]


@pytest.fixture
def nursery(hands: Hands, tmp_path: Path) -> Iterator[Nursery]:
    """Return where commands are begun that die."""
    folder = tmp_path / "nursery"
    folder.mkdir()
    made = Nursery(folder, {MARK: str(hands.base)})
    yield made
    made.close()


def test_a_move_is_killed_at_its_writes(hands: Hands, nursery: Nursery) -> None:
    """Also between a decision and what is done for it: the same command goes on from there.

    The host goes back and forth, and each time it leaves jobs behind that it finds when it is back.
    """
    hands.give(n01="batch")
    phases = set()
    services = ["batch", "hpc"]
    put = []
    for number, moment in enumerate(range(0, NEVER, STRIDE)):
        source, target = services[number % 2], services[(number + 1) % 2]
        for name in (f"{number}a", f"{number}b"):
            hands.put(source, name)
            put.append(name)
        words = ("-C", str(hands.site), "pool", "move", "n01", target, "--drain", "1m", "--yes")
        ran = nursery.run(moment, words)
        if ran.code == 0:
            break
        assert ran.code == -signal.SIGKILL, (moment, ran.err)
        phases.add((decided(hands, "n01")[1], decided(hands, "n01")[0] == source))
        assert len(hands.owners("n01")) <= 1
        go_on(hands, "n01", target)
    for service in services:
        go_on(hands, "n01", service)
        wait_empty(hands, service)
    hands.wait_for(lambda: len(hands.ended()) >= len(put), "all jobs end")
    assert sorted(hands.ended()) == sorted(put)
    assert len(hands.begun()) == len(put)
    assert phases == {("in", True), ("leaving", True), ("in", False)}


def test_two_commands_want_the_same_host(hands: Hands) -> None:
    hands.give(n01="batch")
    services = ("hpc", "web")
    both = [
        hands.start("pool", "move", "n01", it, "--wait", "1m", "--drain", "1m", "--yes")
        for it in services
    ]
    ends = [hands.end(it) for it in both]
    assert 0 in [it.code for it in ends], ends
    (owner,) = hands.owners("n01")
    assert hands.whose("n01") == ("assigned", owner, None)
    for service, ran in zip(services, ends, strict=True):
        if ran.code:
            assert ran.code in (1, 5), ran
            assert "n01" in ran.err
            assert owner != service
    other = next(it for it in services if it != owner)
    go_on(hands, "n01", other)


def test_the_same_command_twice_at_once(hands: Hands) -> None:
    hands.give(n01="batch")
    words = ("pool", "move", "n01", "hpc", "--wait", "1m", "--drain", "1m", "--yes")
    both = [hands.start(*words), hands.start(*words)]
    ends = [hands.end(it) for it in both]
    assert 0 in [it.code for it in ends], ends
    assert hands.owners("n01") == ["hpc"]
    assert hands.steps() == ["prologue-batch", "epilogue-batch", "prologue-hpc"]
    go_on(hands, "n01", "hpc")


def test_two_commands_move_two_hosts(hands: Hands) -> None:
    """Neither is refused because the other one has decided something meanwhile."""
    hands.give(n01="batch", n02="batch")
    both = [
        hands.start("pool", "move", it, "hpc", "--wait", "1m", "--drain", "1m", "--yes")
        for it in ("n01", "n02")
    ]
    ends = [hands.end(it) for it in both]
    assert [it.code for it in ends] == [0, 0], ends
    assert hands.owners("n01") == hands.owners("n02") == ["hpc"]
    assert hands.whose("n01") == hands.whose("n02") == ("assigned", "hpc", None)


def test_bounds_hold_for_two_commands_at_once(hands: Hands) -> None:
    """What both would take together is not taken: one of them sees the other's decision."""
    hands.edit(
        "batch: {adapter: processes, on: head,", "batch: {adapter: processes, on: head, min: 1,"
    )
    hands.give(n01="batch", n02="batch")
    both = [
        hands.start("pool", "move", it, "hpc", "--wait", "1m", "--drain", "1m", "--yes")
        for it in ("n01", "n02")
    ]
    ends = [hands.end(it) for it in both]
    assert sorted(it.code for it in ends) == [0, 64], ends
    assert sorted([*hands.owners("n01"), *hands.owners("n02")]) == ["batch", "hpc"]


def test_a_service_goes_before_it_has_let_go(hands: Hands) -> None:
    """Who takes a service out of the site that has a host still does not give it two owners."""
    hands.give(n01="batch")
    hands.fails("epilogue-batch", "the disk is full")
    assert hands.pool("move", "n01", "hpc").code == 1
    file = hands.site / "site.yml"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(it for it in lines if not it.startswith("    batch:")), "utf-8")
    ran = hands.run("apply", "--yes")
    assert ran.code == 1
    assert "n01/pool-hpc-n01 waits for n01/pool-batch-n01 to be down" in ran.err
    assert hands.owners("n01") == ["batch"]
    hands.mend("epilogue-batch")
    ran = hands.run("apply", "--yes")
    assert ran.code == 0, ran.err
    assert hands.owners("n01") == ["hpc"]


@pytest.mark.gate(
    "a host in two services, seen by a stranger: the folder of one was changed meanwhile"
)
def test_a_host_leaves_by_the_settings_that_it_joined_by(hands: Hands) -> None:
    """It is looked for where it is, and its job is found there."""
    assert hands.pool("add", "n01", "batch").code == 0
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    hands.edit("/batch, prologue", "/batch-2, prologue")
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 1
    assert "jobs at work" in ran.err
    assert hands.owners("n01") == ["batch"]
    hands.let_go("long")
    hands.wait_done("batch", "long")
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 0, ran.err
    assert hands.owners("n01") == ["hpc"]
    assert hands.ended() == ["long"]


@pytest.mark.full("a resource that the journal has where no decision says")
def test_nothing_moves_that_the_journal_has_elsewhere(hands: Hands) -> None:
    assert hands.pool("add", "matlab1", "design").code == 0
    assert hands.run("decide", "pools", "matlab1", "null", "--reason", "gone").code == 0
    ran = hands.pool("add", "matlab1", "research")
    assert ran.code == 64
    assert "head/pool-design-matlab1 is up" in ran.err
    assert "`cobweb apply` takes it away" in ran.err
    assert hands.run("apply", "--yes").code == 0
    assert hands.pool("add", "matlab1", "research").code == 0
    assert hands.owners("matlab1") == ["research"]
