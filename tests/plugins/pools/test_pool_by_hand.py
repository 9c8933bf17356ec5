"""`cobweb pool` beside `move`: add, remove, adopt, lost, reset, stop, start, history, why."""

from __future__ import annotations

import json

import pytest

from tests.plugins.pools.hands import Hands

pytestmark = [
    pytest.mark.full("real hosts, one command after the other; the gate has moves and refusals"),
    pytest.mark.timeout(300),
]


def test_added_and_removed(hands: Hands) -> None:
    """Also a licence, which is no host."""
    for id_, service in (("n01", "batch"), ("matlab1", "design")):
        ran = hands.pool("add", id_, service)
        assert ran.code == 0, ran.err
        assert f"{id_} is in {service}" in ran.err
        assert hands.whose(id_) == ("assigned", service, None)
        assert hands.owners(id_) == [service]
        assert hands.pool("add", id_, service).code == 0, "it may be said again"
        ran = hands.pool("remove", id_)
        assert ran.code == 0, ran.err
        assert f"{id_} is nobody's" in ran.err
        assert hands.whose(id_) == ("unassigned", None, None)
        assert hands.owners(id_) == []


def test_a_licence_in_use_is_not_taken(hands: Hands) -> None:
    hands.give(matlab1="design")
    use = hands.base / "design" / "uses" / "matlab1" / "session"
    use.touch()
    ran = hands.pool("move", "matlab1", "research")
    assert ran.code == 2
    assert hands.owners("matlab1") == ["design"]
    assert hands.drains("matlab1", "design")
    use.unlink()
    ran = hands.pool("move", "matlab1", "research")
    assert ran.code == 0, ran.err
    assert hands.owners("matlab1") == ["research"]


def test_a_busy_host_is_not_removed(hands: Hands) -> None:
    hands.give(n01="batch")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    ran = hands.pool("remove", "n01")
    assert ran.code == 2
    assert "`cobweb pool remove n01`" in ran.err
    assert hands.owners("n01") == ["batch"]
    hands.let_go("long")
    ran = hands.pool("remove", "n01", "--drain", "1m")
    assert ran.code == 0, ran.err
    assert (hands.owners("n01"), hands.ended()) == ([], ["long"])


def test_what_a_service_has_is_adopted(hands: Hands) -> None:
    """What it has is kept as it is: no script runs again, and its job goes on."""
    hands.give(n01="batch")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    for path in (hands.site / ".cobweb").rglob("*"):
        if path.is_file():
            path.unlink()
    assert hands.whose("n01") == ("unassigned", None, None)
    assert hands.resource("n01", asks=True)["claimed"] == ["batch"]
    ran = hands.pool("adopt", "batch")
    assert ran.code == 0, ran.err
    assert "adopted by batch: n01" in ran.err
    assert hands.whose("n01") == ("assigned", "batch", None)
    assert (hands.owners("n01"), hands.steps()) == (["batch"], ["prologue-batch"])
    ran = hands.pool("adopt", "batch")
    assert ran.code == 0
    assert "batch has nothing that it could adopt" in ran.err
    hands.let_go("long")
    hands.wait_done("batch", "long")
    assert len(hands.begun()) == 1


def test_a_member_that_its_service_has_lost_is_told(hands: Hands) -> None:
    hands.give(n01="batch")
    assert "does not have it" not in hands.resource("n01", asks=True)["reason"]
    (hands.base / "batch" / "members" / "n01").unlink()
    assert "batch says that it does not have it" in hands.resource("n01", asks=True)["reason"]
    assert "`cobweb drift`" in hands.run("pool", "why", "n01").out


def test_what_two_services_claim_is_nobodys_until_it_is_said(hands: Hands) -> None:
    """It is taken out of the other one before the one that has it may give it work."""
    hands.by_hand = True
    for service in ("batch", "hpc"):
        hands.claim(service, "n01")
    found = hands.resource("n01", asks=True)
    assert found["ambiguous"]
    assert found["claimed"] == ["batch", "hpc"]
    shown = hands.run("pool", "status")
    assert "ambiguous" in shown.out
    before = hands.revision()
    for words in (("move", "n01", "web"), ("move", "n01", "batch"), ("reset", "n01")):
        ran = hands.pool(*words)
        assert ran.code == 64, words
        assert "--to" in ran.err, words
    ran = hands.pool("adopt", "batch")
    assert ran.code == 1
    assert "`cobweb pool reset n01 --to batch`" in ran.err
    assert (hands.owners("n01"), hands.revision()) == (["batch", "hpc"], before)

    hands.hold("epilogue-hpc")
    resetting = hands.start("pool", "reset", "n01", "--to", "batch", "--yes")
    hands.wait_told("epilogue-hpc")
    assert "prologue-batch" not in hands.steps(), "it is in hpc still"
    hands.let_go("epilogue-hpc")
    ran = hands.end(resetting)
    assert ran.code == 0, ran.err
    assert hands.owners("n01") == ["batch"]
    assert hands.steps() == ["epilogue-hpc", "prologue-batch"]
    assert hands.whose("n01") == ("assigned", "batch", None)


def test_a_dead_host_is_given_up_and_comes_back(hands: Hands) -> None:
    """Nothing of it is asked or waited for; nobody else gets it before it is reset."""
    hands.give(n01="batch", n02="batch")
    hands.edit("{head: {}, ", "{head: {}, n01: {ansible_connection: ssh, ansible_port: 1}, ")
    hands.edit('"n[01:04]": {}', '"n[02:04]": {}')
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 1
    assert hands.owners("n01") == ["batch"]
    ran = hands.pool("lost", "n01", "--reason", "it burnt")
    assert ran.code == 0, ran.err
    found = hands.resource("n01")
    assert (found["state"], found["reason"]) == ("error", "it burnt")
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 64
    assert "was given up: it burnt" in ran.err
    ran = hands.pool("move", "n02", "hpc")
    assert ran.code == 0, ran.err
    assert hands.run("apply", "--yes").code == 0, "nobody waits for it"

    hands.edit("n01: {ansible_connection: ssh, ansible_port: 1}", "n01: {}")
    ran = hands.pool("reset", "n01")
    assert ran.code == 0, ran.err
    assert hands.whose("n01") == ("unassigned", None, None)
    assert hands.owners("n01") == [], "what it had left is cleared away"
    ran = hands.pool("move", "n01", "hpc")
    assert ran.code == 0, ran.err
    assert hands.owners("n01") == ["hpc"]


def test_a_service_stops_and_frees_what_it_has(hands: Hands) -> None:
    """What is at work there stays until it is idle: 2, and the same command again goes on."""
    hands.give(n01="batch", n02="batch")
    hands.hold("long")
    hands.put("batch", "long")
    hands.wait_told("long")
    busy = hands.begun()[0].split()[2]
    idle = {"n01": "n02", "n02": "n01"}[busy]
    ran = hands.pool("stop", "batch", "--free-resources")
    assert ran.code == 2, ran.err
    assert hands.owners(idle) == []
    assert hands.whose(idle) == ("assigned", "spare", None)
    assert hands.owners(busy) == ["batch"]
    assert hands.whose(busy) == ("unassigning", "batch", "spare")
    services = json.loads(hands.run("pool", "services", "--no-ask", "-o", "json").out)["services"]
    assert [it["state"] for it in services if it["name"] == "batch"] == ["stopped"]
    assert hands.pool("move", idle, "batch").code == 64
    hands.let_go("long")
    ran = hands.pool("stop", "batch", "--free-resources", "--drain", "1m")
    assert ran.code == 0, ran.err
    assert (hands.owners(busy), hands.ended()) == ([], ["long"])
    ran = hands.pool("start", "batch")
    assert ran.code == 0, ran.err
    assert "batch takes part again" in ran.err
    assert "batch was not stopped" in hands.pool("start", "batch").err
    ran = hands.pool("move", busy, "batch")
    assert ran.code == 0, ran.err
    assert hands.owners(busy) == ["batch"]


def test_history_and_why_say_who_decided_what(hands: Hands) -> None:
    hands.give(n01="batch")
    assert hands.pool("move", "n01", "hpc", "--reason", "night").code == 0
    history = hands.run("pool", "history", "n01")
    assert history.code == 0, history.err
    assert [line for line in history.out.splitlines() if "night" in line]
    assert "to begin with" in history.out
    data = json.loads(hands.run("pool", "history", "n01", "-o", "json").out)
    assert data["format"] == 1
    why = hands.run("pool", "why", "n01")
    assert why.code == 0, why.err
    assert "night" in why.out
    assert "object n01/pool-hpc-n01: up" in why.out
    assert "n01/pool-batch-n01" not in why.out  # it was let go
    why = hands.run("pool", "why", "hpc")
    assert "members: n01" in why.out
    assert hands.run("pool", "why", "nx").code == 64
