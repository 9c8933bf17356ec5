"""Moves by hand, on hosts of this machine: seen from outside, and no resource ever has two owners.

The fixture `hands` looks at all owners' files all the time, and fails a test that had two.
"""

from __future__ import annotations

import pytest

from tests.plugins.pools.hands import Hands

pytestmark = pytest.mark.timeout(200)

LIMIT = 'limits: {one: {on: "n*", cob: "pool-*", max: 1}}\n'


@pytest.mark.full("a move without faults; the gate has those with them, which end as this one")
def test_an_idle_host_moves(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.put("batch", "first")
    hands.wait_done("batch", "first")
    ran = hands.pool("move", "n01", "hpc", "--reason", "night")
    assert ran.code == 0, ran.err
    assert "n01 is in hpc" in ran.err
    assert hands.owners("n01") == ["hpc"]
    assert hands.whose("n01") == ("assigned", "hpc", None)
    assert hands.steps() == ["prologue-batch", "epilogue-batch", "prologue-hpc"]
    hands.put("hpc", "second")
    hands.wait_done("hpc", "second")
    assert hands.begun() == ["first batch n01", "second hpc n01"]


@pytest.mark.gate("a service that does not let go: the first of the two faults of a move")
def test_a_host_that_is_not_let_go_stays(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.fails("epilogue-batch", "the disk is full")
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 1
    assert "n01 was not let go by batch: " in ran.err
    assert "the disk is full" in ran.err
    assert hands.owners("n01") == ["batch"]
    assert hands.whose("n01") == ("unassigning", "batch", "hpc")
    assert "prologue-hpc" not in hands.steps()
    hands.mend("epilogue-batch")
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 0, ran.err
    assert hands.owners("n01") == ["hpc"]


@pytest.mark.full("the way back after a fault; the gate has the way on")
def test_a_host_that_is_not_let_go_may_be_given_back(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.fails("epilogue-batch", "the disk is full")
    assert hands.pool("move", "n01", "hpc").code == 1
    ran = hands.pool("move", "n01", "batch")
    assert ran.code == 0, ran.err
    assert hands.whose("n01") == ("assigned", "batch", None)
    assert hands.owners("n01") == ["batch"]
    assert not hands.drains("n01", "batch")
    assert "prologue-hpc" not in hands.steps()
    hands.put("batch", "job")
    hands.wait_done("batch", "job")


@pytest.mark.gate("a service that does not take it: the second of the two faults of a move")
def test_a_host_that_cannot_join_is_an_error_until_it_is_reset(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.fails("prologue-hpc", "no such licence")
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 1
    assert "n01 has failed in hpc: " in ran.err
    assert "no such licence" in ran.err
    assert hands.owners("n01") == []
    found = hands.resource("n01")
    assert found["state"] == "error"
    assert "no such licence" in found["reason"]
    before = hands.revision()
    ran = hands.pool("move", "n01", "batch")
    assert ran.code == 64
    assert "no such licence" in ran.err
    assert "`cobweb pool reset n01`" in ran.err
    assert (hands.owners("n01"), hands.revision()) == ([], before)
    ran = hands.pool("reset", "n01")
    assert ran.code == 0, ran.err
    assert hands.whose("n01") == ("unassigned", None, None)
    hands.mend("prologue-hpc")
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 0, ran.err
    assert hands.owners("n01") == ["hpc"]


@pytest.mark.gate("a busy host, the story of a drain")
def test_a_busy_host_is_not_taken_out(hands: Hands) -> None:
    hands.give(n01="batch", n02="batch")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    (at_work,) = hands.begun()
    busy = at_work.split()[2]
    other = {"n01": "n02", "n02": "n01"}[busy]
    ran = hands.pool("move", busy, "hpc")
    assert ran.code == 2
    assert f"{busy} drains: 1 at work there" in ran.err
    assert hands.owners(busy) == ["batch"]
    assert hands.drains(busy, "batch")
    assert hands.whose(busy) == ("unassigning", "batch", "hpc")
    assert hands.ended() == []
    hands.put("batch", "short")
    hands.wait_done("batch", "short")
    assert hands.begun()[1:] == [f"short batch {other}"]

    moving = hands.start("pool", "move", busy, "hpc", "--drain", "1m", "--yes")
    assert moving.poll() is None
    hands.let_go("long")
    ran = hands.end(moving)
    assert ran.code == 0, ran.err
    assert hands.owners(busy) == ["hpc"]
    assert hands.ended() == ["short", "long"]
    assert len(hands.begun()) == 2


@pytest.mark.full("an order that is taken back; the gate has one that is kept")
def test_a_drain_is_taken_back(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    assert hands.pool("move", "n01", "hpc").code == 2
    assert hands.drains("n01", "batch")
    ran = hands.pool("move", "n01", "batch")
    assert ran.code == 0, ran.err
    assert "n01 is in batch" in ran.err
    assert "hpc" in ran.err, "what was taken back is told"
    assert hands.whose("n01") == ("assigned", "batch", None)
    assert not hands.drains("n01", "batch")
    assert hands.ended() == []
    hands.put("batch", "next")
    hands.let_go("long")
    hands.wait_done("batch", "next")
    assert hands.ended() == ["long", "next"]
    assert hands.steps() == ["prologue-batch"]


@pytest.mark.full("two commands on one host, one of which waits; the gate takes an order back")
def test_a_waiting_move_sees_that_it_was_taken_back(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    waiting = hands.start("pool", "move", "n01", "hpc", "--drain", "10m", "--yes")
    hands.wait_for(lambda: hands.drains("n01", "batch"), "n01 drains")
    ran = hands.pool("move", "n01", "batch", "--wait", "1m")
    assert ran.code == 0, ran.err
    hands.let_go("long")
    ran = hands.end(waiting)
    assert ran.code == 1
    assert "n01" in ran.err
    assert hands.owners("n01") == ["batch"]
    assert hands.whose("n01") == ("assigned", "batch", None)
    assert hands.steps() == ["prologue-batch"]


@pytest.mark.full("a move that waits, beside a controller that sees first that the host is idle")
def test_a_waiting_move_takes_what_was_delivered_meanwhile(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    waiting = hands.start("pool", "move", "n01", "hpc", "--drain", "10m", "--yes")
    hands.wait_for(lambda: hands.drains("n01", "batch"), "n01 drains")
    hands.decide("n01", service="hpc", phase="in", since=1, was=["batch"])
    hands.let_go("long")
    ran = hands.end(waiting)
    assert ran.code == 0, ran.err
    assert hands.whose("n01") == ("assigned", "hpc", None)
    assert hands.owners("n01") == ["hpc"]


@pytest.mark.full("a limit of one, a drain and two other changes")
def test_a_long_drain_holds_nobody_up(hands: Hands) -> None:
    """Not under a limit of one: neither the next move, nor what else is to be done."""
    file = hands.base / "greeting"
    hands.add(LIMIT)
    hands.give(n01="batch", n02="web")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    assert hands.pool("move", "n01", "hpc").code == 2
    ran = hands.pool("move", "n02", "hpc")
    assert ran.code == 0, ran.err
    assert hands.owners("n02") == ["hpc"]
    hands.add(
        f"cobs: {{greeting: {{type: file, on: n01, spec: {{path: {file}, content: hello}}}}}}\n"
    )
    ran = hands.run("apply", "--yes")
    assert ran.code == 0, ran.err
    assert file.read_text(encoding="utf-8") == "hello"
    assert hands.owners("n01") == ["batch"]
    assert hands.whose("n01") == ("unassigning", "batch", "hpc")
    hands.let_go("long")


@pytest.mark.full("a move that waits while others are decided; the gate has one that waits")
def test_a_waiting_move_goes_on_after_other_decisions(hands: Hands) -> None:
    hands.give(n01="batch", n02="web")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    assert hands.pool("move", "n01", "hpc").code == 2
    waiting = hands.start("pool", "move", "n01", "hpc", "--drain", "10m", "--wait", "1m", "--yes")
    for service in ("hpc", "batch"):
        ran = hands.pool("move", "n02", service, "--wait", "1m")
        assert ran.code == 0, ran.err
    assert waiting.poll() is None
    hands.let_go("long")
    ran = hands.end(waiting)
    assert ran.code == 0, ran.err
    assert (hands.owners("n01"), hands.owners("n02")) == (["hpc"], ["batch"])
    assert hands.ended() == ["long"]


@pytest.mark.full("two moves under a limit of one")
def test_under_a_limit_one_move_goes_after_the_other(hands: Hands) -> None:
    hands.add(LIMIT)
    hands.give(n01="batch", n02="batch")
    assert hands.pool("move", "n01", "hpc").code == 0
    ran = hands.pool("move", "n02", "hpc")
    assert ran.code == 0, ran.err
