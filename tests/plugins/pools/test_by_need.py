"""Pools that decide by need, from outside: by `cobweb serve`, and by rounds by hand.

The fixture `needs` looks at all owners' files all the time, and fails a test that had two.
"""

from __future__ import annotations

import json
import math
import shutil
from typing import Any

import pytest

from tests.plugins.pools.needs import SPARE, Bounds, Needs, minimum, pending

pytestmark = [
    pytest.mark.full("rounds on real hosts, each a process; the gate has the four stories of them"),
    pytest.mark.timeout(400),
]

LIES: dict[str, dict[str, Any]] = {
    "negative": {"kpis": [{"name": "pending", "value": -1}]},
    "no number": {"kpis": [{"name": "pending", "value": math.nan}]},
    "infinite": {"kpis": [{"name": "pending", "value": math.inf}]},
    "a word": {"kpis": [{"name": "pending", "value": "none"}]},
    "missing": {"kpis": []},
    "no numbers at all": {"kpis": None},
    "not running": {"state": "starting"},
    "unknown": {"state": "unknown"},
    "gone": {"members": {}},
    "negative jobs": {"members": {"n01": {"idle": True, "jobs": -1}}},
}
"""What a service may say that is not so, by what is wrong."""

TRUTH: dict[str, Any] = {
    "state": "running",
    "kpis": [{"name": "pending", "value": 0}],
    "members": {"n01": {"idle": True, "jobs": 0, "load": 0.0}},
}


def writes_of(needs: Needs, *words: str) -> Any:
    """Return what a round would write, which is not written."""
    ran = needs.run("pool", "balance", "--dry-run", "-o", "json", *words)
    found = json.loads(ran.out)["writes"]
    assert ran.code == (2 if found else 0), ran
    return found


# What is found


@pytest.mark.gate("a site with members that no decision knows: nothing may be done to them")
def test_what_services_have_is_found_and_nothing_is_done_to_it(needs: Needs) -> None:
    needs.give(n01="batch")
    needs.load("batch", "long")
    needs.wait_told("long")
    needs.forget()
    before = needs.all_files("batch")
    needs.once()
    assert needs.whose("n01") == ("unassigned", None, None), "the first round only admits"
    needs.once()
    assert needs.whose("n01") == ("assigned", "batch", None)
    assert needs.history()[0]["author"] == "pools"
    assert needs.all_files("batch") == before
    assert needs.steps() == ["prologue-batch"]
    assert needs.ended() == []
    needs.finish("long")
    needs.assert_each_once("long")


def test_nothing_is_found_before_all_services_have_answered(needs: Needs) -> None:
    """Neither is what is nobody's given away."""
    needs.slos["batch"] = [minimum(2)]
    needs.write()
    needs.give(n01="batch")
    needs.forget()
    (needs.base / "hpc").write_text("no folder", encoding="utf-8")
    needs.once()
    needs.once()
    assert needs.history() == []
    assert needs.balance("--now", code=0)["writes"] == {}
    assert "hpc" in needs.why("n01")
    assert needs.at("batch") == ["n01"]
    (needs.base / "hpc").unlink()
    needs.settle("--now")
    assert needs.whose("n01") == ("assigned", "batch", None)
    assert needs.at("batch") == ["n01", "n02"]
    assert needs.steps() == ["prologue-batch", "prologue-batch"]


def test_what_two_services_have_is_not_moved(needs: Needs) -> None:
    needs.by_hand = True
    needs.resources = {"n01": {}}
    needs.slos = {"batch": [minimum(1, 20)], "hpc": [minimum(1, 50)]}
    needs.write()
    files = [needs.claim("batch", "n01"), needs.claim("hpc", "n01")]
    needs.admit()
    for _ in range(2):
        assert needs.balance("--now")["writes"] == {}
    assert needs.history() == []
    assert all(it.exists() for it in files)
    assert "ambiguous" in needs.why("n01")
    assert needs.steps() == []


@pytest.mark.parametrize("state", ["draining", "silent"])
def test_who_drains_or_is_silent_is_left_alone(needs: Needs, state: str) -> None:
    """It is nobody's by decision, and no other service gets it."""
    needs.used = ("liar", "batch")
    needs.resources = {"n01": {}}
    needs.slos["batch"] = [minimum(1)]
    needs.write()
    seen = {"idle": False, "jobs": 1, "load": 1.0, "state": state}
    needs.answers(**TRUTH | {"members": {"n01": seen}})
    needs.admit()
    assert needs.balance("--now")["writes"] == {}
    assert needs.history() == []
    assert needs.owners("n01") == []
    assert "liar" in needs.why("n01")
    assert needs.pool("adopt", "liar").code == 0
    state_now, service, _ = needs.whose("n01")
    assert (state_now, service) == ("assigned", "liar")


# Moves


@pytest.mark.gate("jobs in one queue, then in the other one: the story of pools by need")
def test_machines_follow_the_load(needs: Needs) -> None:
    needs.slos = {"batch": [pending()], "hpc": [pending()]}
    needs.write()
    first, second = [[f"{it}{n}" for n in range(4)] for it in ("a", "b")]
    needs.load("batch", *first)
    needs.settle("--now")
    assert needs.at("batch") == ["n01", "n02", "n03"]
    needs.wait_for(lambda: len(needs.begun()) == 3, "three jobs are at work")
    begun = [line.split()[0] for line in needs.begun()]
    needs.finish(*begun, *(set(first) - set(begun)))
    needs.load("hpc", *second)
    needs.settle("--now")
    assert (needs.at("batch"), needs.at("hpc")) == ([], ["n01", "n02", "n03"])
    needs.wait_for(lambda: len(needs.begun()) == 7, "three of hpc's jobs are at work")
    begun = [line.split()[0] for line in needs.begun()[4:]]
    needs.finish(*begun, *(set(second) - set(begun)))
    needs.assert_each_once(*first, *second)


def test_machines_follow_the_load_under_a_controller(needs: Needs) -> None:
    needs.slos = {"batch": [pending()], "hpc": [pending()], "spare": [SPARE]}
    needs.used = ("batch", "hpc", "spare")
    needs.settings |= {"shrink_after": "2s"}
    needs.write()
    first, second = [[f"{it}{n}" for n in range(4)] for it in ("a", "b")]
    with needs.server():
        needs.load("batch", *first)
        needs.wait_for(lambda: len(needs.at("batch")) == 3, "batch has all")
        needs.wait_for(lambda: len(needs.begun()) == 3, "three jobs are at work")
        begun = [line.split()[0] for line in needs.begun()]
        needs.finish(*begun, *(set(first) - set(begun)))
        needs.load("hpc", *second)
        needs.wait_for(lambda: len(needs.at("hpc")) == 3, "hpc has all")
        needs.wait_for(lambda: len(needs.begun()) == 7, "three of hpc's jobs are at work")
        begun = [line.split()[0] for line in needs.begun()[4:]]
        needs.finish(*begun, *(set(second) - set(begun)))
        needs.wait_for(lambda: not needs.at("hpc"), "the spare pool has all")
    needs.assert_each_once(*first, *second)


def test_a_move_needs_nobody_by_default(needs: Needs) -> None:
    """What decisions let go is no outage that somebody has to agree to."""
    needs.policy = {}
    needs.resources = {"n01": {}}
    needs.slos["batch"] = [minimum(1, 20)]
    needs.write()
    with needs.server():
        needs.wait_for(lambda: needs.owners("n01") == ["batch"], "batch has it")
        needs.slos["hpc"] = [minimum(1, 50)]
        needs.write()
        needs.wait_for(lambda: needs.owners("n01") == ["hpc"], "hpc has it")


@pytest.mark.gate("a job on a host that leaves: it is not cut, and the host waits for its end")
def test_a_busy_host_leaves_when_its_job_has_ended(needs: Needs) -> None:
    needs.resources = {"n01": {}}
    needs.write()
    needs.give(n01="batch")
    needs.load("batch", "long", "next")
    needs.wait_told("long")
    needs.slos["hpc"] = [minimum(1)]
    needs.write()
    assert "n01" in writes_of(needs)
    assert not needs.drains("n01", "batch"), "a dry run has written nothing"
    needs.balance(code=2)
    assert needs.drains("n01", "batch")
    assert needs.whose("n01") == ("unassigning", "batch", "hpc")
    for command in ("needs", "orders"):
        assert "hpc" in needs.run("pool", command).out
        assert "hpc" in json.dumps(needs.data("pool", command))
    assert "n01" in json.dumps(needs.data("pool", "orders"))
    needs.balance(code=2)
    assert (needs.owners("n01"), needs.ended()) == (["batch"], [])
    assert "drain" in needs.why("n01") or "leaves" in needs.why("n01")
    needs.finish("long")
    needs.settle()
    assert needs.owners("n01") == ["hpc"]
    assert needs.steps() == ["prologue-batch", "epilogue-batch", "prologue-hpc"]
    needs.assert_each_once("long")
    assert (needs.base / "batch" / "queue" / "next").exists()


@pytest.mark.gate("a host that a service cannot get: the need is served by another one")
def test_a_failed_join_stays_with_its_host(needs: Needs) -> None:
    needs.slos["hpc"] = [minimum(1)]
    needs.write()
    (bad,) = writes_of(needs)
    needs.fails(f"prologue-hpc-{bad}", "no such licence")
    needs.balance(code=1)
    needs.settle()
    found = needs.resource(bad)
    assert found["state"] == "error"
    assert "no such licence" in found["reason"]
    assert "no such licence" in needs.why(bad)
    (good,) = needs.at("hpc")
    assert good != bad
    needs.mend(f"prologue-hpc-{bad}")
    needs.settle()
    assert needs.at("hpc") == [good]
    assert needs.resource(bad)["state"] == "error", "until it is reset"
    assert needs.pool("reset", bad).code == 0
    assert needs.whose(bad) == ("unassigned", None, None)


def test_an_epilogue_that_fails_keeps_its_host(needs: Needs) -> None:
    """Nobody else gets it before it has been let go."""
    needs.resources = {"n01": {}}
    needs.write()
    needs.give(n01="batch")
    needs.slos["hpc"] = [minimum(1)]
    needs.write()
    needs.fails("epilogue-batch", "the disk is full")
    codes = [needs.run("pool", "balance", "--yes").code for _ in range(3)]
    assert 1 in codes, codes
    assert needs.owners("n01") == ["batch"]
    assert "prologue-hpc" not in needs.steps()
    assert "the disk is full" in needs.why("n01")


def test_licences_follow_the_need_but_for_those_in_use(needs: Needs) -> None:
    needs.used = ("design", "research")
    needs.resources = {"matlab[1:2]": {"type": "licence"}}
    needs.write()
    needs.give(matlab1="design", matlab2="design")
    uses = [needs.base / "design" / "uses" / it / "session" for it in ("matlab1", "matlab2")]
    uses[0].touch()
    needs.slos["research"] = [minimum(1)]
    needs.write()
    needs.settle()
    assert needs.at("research") == ["matlab2"]
    needs.slos["research"] = [minimum(2)]
    needs.write()
    needs.balance(code=2)
    assert needs.at("design") == ["matlab1"]
    uses[0].unlink()
    needs.settle()
    assert needs.at("research") == ["matlab1", "matlab2"]


# What moves nothing


def test_lying_numbers_move_nothing(needs: Needs) -> None:
    """Neither away from who says them, nor to it, and `why` names the service."""
    needs.used = ("liar", "batch")
    needs.resources = {"n01": {}, "n02": {}}
    needs.slos["liar"] = [pending(20)]
    needs.write()
    needs.answers(**TRUTH)
    needs.give_unseen(n01="liar")
    needs.slos["batch"] = [minimum(2)]
    needs.resources["n02"] = {"static": True}
    needs.write()
    for name, lie in LIES.items():
        needs.answers(**TRUTH | lie)
        found = needs.balance("--now")
        assert found["writes"] == {}, name
        assert any(it["subject"] == "liar" for it in found["notes"]), (name, found["notes"])
        assert "liar" in needs.why("n01"), name
    needs.answers(**TRUTH)
    needs.balance("--now", code=2)
    assert needs.whose("n01") == ("unassigning", "liar", "batch")


def test_a_service_whose_folder_is_gone_loses_nothing(needs: Needs) -> None:
    needs.give(n01="batch", n02="batch")
    needs.resources["n03"] = {"static": True}
    needs.slos["hpc"] = [minimum(2)]
    needs.write()
    (needs.base / "batch").rename(needs.base / "away")
    assert needs.balance("--now")["writes"] == {}
    assert needs.at("hpc") == []
    assert "batch" in needs.why("n01")
    assert "2 of its 2 members are gone" in needs.why("batch")
    shutil.rmtree(needs.base / "batch", ignore_errors=True)
    (needs.base / "away").rename(needs.base / "batch")
    needs.settle("--now")
    assert needs.at("hpc") == ["n01", "n02"]


def test_what_was_moved_by_hand_is_an_error(needs: Needs) -> None:
    needs.by_hand = True
    needs.give(n01="batch", n02="batch", n03="batch")
    (needs.base / "batch" / "members" / "n01").unlink()
    shutil.rmtree(needs.base / "batch" / "running" / "n01")
    needs.claim("hpc", "n01")
    needs.balance("--now", code=1)
    found = needs.resource("n01")
    assert found["state"] == "error"
    assert "moved by hand" in found["reason"]
    assert "moved by hand" in needs.why("n01")
    assert "n01" not in needs.balance("--now")["writes"]
    assert needs.whose("n02") == needs.whose("n03") == ("assigned", "batch", None)


def test_what_waits_is_told_and_waited_for(needs: Needs) -> None:
    needs.slos["hpc"] = [{**minimum(1), "for": "2h"}]
    needs.write()
    needs.balance()
    found = needs.balance()
    assert found["writes"] == {}
    (note,) = [it for it in found["notes"] if it["subject"] == "hpc"]
    assert "2h" in note["text"] or "7200 s" in note["text"], note
    assert needs.at("hpc") == []
    assert next(iter(writes_of(needs, "--now").values()))["service"] == "hpc"
    assert needs.at("hpc") == []
    needs.settle("--now")
    assert len(needs.at("hpc")) == 1


def test_a_stopped_service_gets_nothing(needs: Needs) -> None:
    """One that has no members yet may be stopped as well."""
    needs.slos["hpc"] = [minimum(1)]
    needs.write()
    assert needs.pool("stop", "hpc").code == 0
    assert needs.balance("--now")["writes"] == {}
    needs.once()
    needs.once()
    assert needs.at("hpc") == []
    assert needs.pool("start", "hpc").code == 0
    needs.settle("--now")
    assert len(needs.at("hpc")) == 1


# People beside it


def test_what_a_person_holds_is_not_taken(needs: Needs) -> None:
    needs.resources = {"n01": {}}
    needs.slos["batch"] = [minimum(1)]
    needs.write()
    needs.settle()
    assert needs.owners("n01") == ["batch"]
    assert needs.pool("move", "n01", "hpc", "--for", "2h").code == 0
    for _ in range(2):
        assert needs.balance("--now")["writes"] == {}
    needs.admit()
    assert needs.owners("n01") == ["hpc"]
    assert "held" in needs.why("n01")
    assert needs.pool("release", "n01").code == 0
    needs.settle("--now")
    assert needs.owners("n01") == ["batch"]


def test_a_person_moves_while_a_controller_decides(needs: Needs) -> None:
    """Whoever comes first: one owner, and in the end what the person has said."""
    needs.slos["batch"] = [minimum(3)]
    needs.write()
    with needs.server():
        needs.wait_for(lambda: len(needs.at("batch")) == 3, "batch has all")
        ran = needs.pool("move", "n02", "hpc", "--for", "1h", "--drain", "1m", "--wait", "1m")
        assert ran.code == 0, ran
        needs.wait_turns(2)
        assert needs.owners("n02") == ["hpc"]
    assert needs.whose("n02") == ("assigned", "hpc", None)


def test_a_person_agrees_first_where_the_policy_says_so(needs: Needs) -> None:
    needs.slos["hpc"] = [minimum(1)]
    needs.policy = {"apply": {"pools": "approve"}}
    needs.write()
    needs.once()
    needs.once(code=2)
    assert needs.at("hpc") == []
    (waits,) = [it for it in needs.data("approvals")["approvals"] if it["state"] == "waiting"]
    assert waits["source"] == "pools"
    assert needs.run("approve", waits["id"], "--reason", "yes").code == 0
    needs.once()
    assert len(needs.at("hpc")) == 1


# Promises


def test_bounds_are_kept_at_every_moment(needs: Needs) -> None:
    needs.used = ("batch", "hpc", "web")
    needs.resources = {"n[01:04]": {}}
    needs.write()
    needs.give(n01="batch", n02="batch", n03="batch", n04="batch")
    needs.resources["n04"] = {"static": True}
    needs.more = {"batch": {"min": 2}, "hpc": {"max": 1}}
    needs.slos = {"hpc": [minimum(3, 90)], "web": [minimum(3, 50)]}
    needs.write()
    bounds = {"batch": (2, 4), "hpc": (0, 1), "web": (0, 2)}
    with Bounds(needs.base, bounds) as watched:
        needs.settle()
        assert len(needs.at("hpc")) == 1
        assert len(needs.at("batch")) == 2
        needs.slos = {"web": [minimum(3, 90)], "hpc": [minimum(3, 50)]}
        needs.write()
        needs.settle()
        assert len(needs.at("web")) == 2 - len(needs.at("hpc"))
    assert watched.looks > 0
    assert watched.broken == set()
    assert "n04" in needs.at("batch")
    assert "n04" not in {it["key"] for it in needs.history()[:-4]}


def test_with_constant_load_it_comes_to_rest(needs: Needs) -> None:
    needs.used = ("batch", "hpc", "web", "spare")
    needs.resources = {"n[01:04]": {}}
    needs.slos = {
        "batch": [pending(50, 1)],
        "hpc": [pending(50, 1)],
        "web": [minimum(1, 80)],
        "spare": [SPARE],
    }
    needs.write()
    jobs = [f"{it}{n}" for it in ("batch", "hpc") for n in range(6)]
    for name in jobs:
        needs.load(name[:-1], name)
    with needs.server():
        needs.wait_for(lambda: len(needs.begun()) >= 3, "three hosts are at work")
        needs.wait_turns(2)
        before = needs.history()
        needs.wait_turns(4)
        assert needs.history() == before
    assert len(needs.at("web")) == 1
    assert len(needs.at("batch")) + len(needs.at("hpc")) == 3


def test_the_budget_of_moves_is_kept(needs: Needs) -> None:
    needs.slos = {"batch": [minimum(1, 20)], "hpc": [minimum(2, 50)]}
    needs.settings["budget"] = {"moves": 1, "per": "2h"}
    needs.write()
    needs.settle()
    assert len(needs.at("hpc")) + len(needs.at("batch")) == 1
    assert needs.balance()["writes"] == {}
    assert "budget" in needs.why("hpc")


# A controller that dies


def test_a_controller_is_killed_within_a_run(needs: Needs) -> None:
    needs.resources = {"n01": {}}
    needs.slos["hpc"] = [minimum(1)]
    needs.write()
    needs.hold("prologue-hpc")
    with needs.server() as server:
        needs.wait_told("prologue-hpc")
        server.kill()
        server.wait()
    with needs.server():
        needs.let_go("prologue-hpc")
        needs.load("hpc", "job")
        needs.wait_told("job")
        needs.wait_turns(2)
        needs.finish("job")
    assert needs.whose("n01") == ("assigned", "hpc", None)
    assert needs.steps() == ["prologue-hpc"]
    needs.assert_each_once("job")


def test_a_controller_is_killed_while_a_host_drains(needs: Needs) -> None:
    needs.resources = {"n01": {}}
    needs.write()
    needs.give(n01="batch")
    needs.load("batch", "long")
    needs.wait_told("long")
    needs.slos["hpc"] = [minimum(1)]
    needs.write()
    with needs.server() as server:
        needs.wait_for(lambda: needs.drains("n01", "batch"), "n01 drains")
        server.kill()
        server.wait()
    with needs.server():
        needs.wait_turns(1)
        assert (needs.owners("n01"), needs.ended()) == (["batch"], [])
        needs.finish("long")
        needs.wait_for(lambda: needs.owners("n01") == ["hpc"], "hpc has it")
    needs.assert_each_once("long")
    assert needs.steps() == ["prologue-batch", "epilogue-batch", "prologue-hpc"]
