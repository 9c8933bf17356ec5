"""What becomes of failures, silence, slow drains and of resources that others claim, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cobweb_plugins.pools.decision import (
    Holding,
    Kpi,
    MemberState,
    NoteKind,
    Phase,
    Pools,
    Seen,
    Slo,
    SloKind,
)
from tests.plugins.pools.world import (
    START_S,
    Answers,
    World,
    hosts,
    minimum,
    one_need,
    service,
    services,
    spare,
    with_lie,
    within,
)


def test_a_failed_join_has_its_reason_and_the_need_takes_another() -> None:
    world = one_need(ends={("n1", "A"): MemberState.FAILED})
    world.run(4)
    assert world.holdings["n1"] == Holding(
        service="A", phase=Phase.FAILED, since_s=START_S + 120, reason="it says no"
    )
    assert world.rounds[1].said(NoteKind.FAILED) == {"n1": "it says no"}
    assert world.at("A") == {"n2"}
    assert not [it for it in world.run(30, 3700.0) if it.outcome.writes]


def test_a_rejected_resource_is_blacklisted_with_its_reason_and_nobody_s() -> None:
    pools = Pools(resources=hosts("n1", "n2"), services=services(service("A", minimum(1))))
    world = one_need(pools=pools, holdings={}, ends={("n1", "A"): MemberState.REJECTED})
    world.run(2)
    assert world.rounds[1].outcome.writes["n1"] is None
    assert world.rounds[1].said(NoteKind.REJECTED) == {"n1": "A cannot use it: it says no"}
    assert world.memory["blacklist"] == {"A": {"n1": "it says no"}}
    world.run(30, 3700.0)
    assert (world.at("A"), sorted(world.holdings)) == ({"n2"}, ["n2"])


def test_a_spare_pool_takes_what_another_service_has_rejected() -> None:
    found = services(service("A", minimum(2)), spare())
    pools = Pools(resources=hosts("n1", "n2"), services=found)
    world = one_need(pools=pools, ends={("n1", "A"): MemberState.REJECTED})
    world.run(30, 3700.0)
    assert (world.at("A"), world.at("spare")) == ({"n2"}, {"n1"})


def leaving(**words: Any) -> World:
    """Return a world where n1, which has much to do, leaves B for A."""
    found = services(
        service("A", minimum(1, urgency=90)), service("B", minimum(1, urgency=50), priority=1)
    )
    pools = Pools(resources=hosts("n1"), services=found)
    fields = {"pools": pools, "busy": frozenset({"n1"}), "drain_rounds": 10_000, **words}
    world = World(holdings=within(n1="B"), **fields)
    world.round()
    assert world.holdings["n1"].phase is Phase.LEAVING
    return world


def _without_n1(answers: Answers) -> Answers:
    return {
        name: replace(it, members={id_: seen for id_, seen in it.members.items() if id_ != "n1"})
        for name, it in answers.items()
    }


def test_what_leaves_and_is_silent_for_too_long_has_failed() -> None:
    world = leaving()
    world.lie = _without_n1
    world.run(60)  # 3600 s since its order
    assert world.holdings["n1"].phase is Phase.LEAVING
    world.round()
    failed = world.holdings["n1"]
    assert (failed.service, failed.phase, failed.to, failed.order) == (
        "B",
        Phase.FAILED,
        None,
        None,
    )
    assert failed.reason == "nothing was heard of it for 3600 s while it left B"


def test_a_long_drain_that_is_heard_of_does_not_fail() -> None:
    world = leaving()
    world.run(200)
    assert world.holdings["n1"].phase is Phase.LEAVING


def test_silence_counts_from_when_it_was_last_heard_of() -> None:
    world = leaving()
    world.run(100)
    world.lie = lambda answers: {name: it for name, it in answers.items() if name != "B"}
    assert [it.after()["n1"].phase for it in world.run(61)] == [Phase.LEAVING] * 60 + [Phase.FAILED]


def test_an_order_that_is_old_lets_the_need_ask_again_and_the_slower_drain_is_taken_back() -> None:
    found = services(service("A", minimum(1, urgency=90)), service("B", minimum(2, urgency=50)))
    world = World(
        pools=Pools(resources=hosts("n1", "n2"), services=found),
        holdings=within(n1="B", n2="B"),
        busy=frozenset({"n1", "n2"}),
        drain_rounds=10_000,
    )
    first = world.round()
    assert len(first.grants()) == 1
    (slow,) = first.grants()
    quick = "n2" if slow == "n1" else "n1"
    assert not [it for it in world.run(9) if it.outcome.writes]  # 540 s
    asked = [it for it in world.run(3) if it.outcome.writes]
    assert [it.grants() for it in asked] == [[quick]]
    world.busy = frozenset({slow})
    done = world.round()
    assert world.holdings[quick].service == "A"
    assert world.holdings[quick].phase is Phase.IN
    assert world.holdings[slow] == Holding(service="B", since_s=done.now_s)
    assert set(done.said(NoteKind.TAKEN_BACK)) == {slow}
    assert done.grants() == []  # it is no move
    assert not [it for it in world.run(30, 3700.0) if it.outcome.writes]


def test_an_order_for_a_service_that_takes_part_no_more_is_void() -> None:
    world = leaving()
    other = replace(world.pools.services["A"], registered=False)
    world.pools = replace(world.pools, services={**world.pools.services, "A": other})
    done = world.round()
    assert done.after() == {"n1": Holding(service="B", since_s=done.now_s)}
    assert set(done.said(NoteKind.TAKEN_BACK)) == {"n1"}


def test_a_need_whose_number_falls_after_each_grant_does_not_back_off() -> None:
    """One that does not fall is thought to be in vain after two grants, and this has five."""
    ids = [f"n{number}" for number in range(5)]
    slo = Slo(name="queue", kind=SloKind.PENDING, urgency=9, kpi="k")
    world = World(
        pools=Pools(
            resources=hosts(*ids), services=services(service("A", slo), spare()), grow_after_s=0
        ),
        holdings=within(**dict.fromkeys(ids, "spare")),
    )
    for waiting in range(20, 8, -1):
        world.kpis = {"A": (Kpi(name="k", value=waiting),)}
        world.round()
    assert world.at("A") == set(ids)


def test_a_busy_member_is_not_handed_over_before_it_was_seen_idle_while_it_drained() -> None:
    world = leaving(drain_rounds=3)
    assert [it.after()["n1"].service for it in world.run(5)] == ["B", "B", "B", "A", "A"]


def test_an_answer_begun_before_the_drain_does_not_tell_that_a_member_is_idle() -> None:
    world = leaving(busy=frozenset())
    since_s = world.members["n1"].since_s
    early = {
        name: replace(it, begun_s=since_s, arrived_s=since_s + 1)
        for name, it in world.answers().items()
    }
    world.lie = lambda _: early
    assert not world.round().outcome.writes
    world.lie = lambda answers: answers
    assert world.round().after()["n1"].service == "A"


# Who owns what.


def two_services(**places: str) -> World:
    pools = Pools(
        resources=hosts("n1"), services=services(service("A"), service("B"), spare()), immunity_s=0
    )
    return World(pools=pools, holdings=within(**places))


def _claim(*names: str) -> Callable[[Answers], Answers]:
    def lie(answers: Answers) -> Answers:
        return {
            name: replace(it, members={"n1": Seen()} if name in names else {})
            for name, it in answers.items()
        }

    return lie


def test_what_one_service_claims_and_nobody_has_is_its() -> None:
    world = two_services()
    world.lie = _claim("B")
    assert world.round().after() == {"n1": Holding(service="B", since_s=START_S + 60)}


def test_what_nobody_claims_goes_to_the_first_spare_pool() -> None:
    assert two_services().round().after()["n1"].service == "spare"


def test_what_two_claim_is_nobody_s_and_ambiguous_however_long_it_lasts() -> None:
    world = two_services()
    world.lie = _claim("A", "B")
    for done in world.run(5, 3700.0):
        assert done.after() == {}
        assert done.said(NoteKind.AMBIGUOUS) == {"n1": "claimed by A, B"}


def test_nothing_is_found_before_each_service_has_answered() -> None:
    world = two_services()
    world.lie = lambda answers: with_lie(_claim("B")(answers), "A", lambda _: None)
    assert not world.round().outcome.writes
    world.lie = lambda answers: with_lie(_claim()(answers), "A", lambda _: None)
    assert not world.round().outcome.writes


def test_what_its_owner_and_another_claim_is_ambiguous_and_does_not_move() -> None:
    world = two_services(n1="A")
    world.lie = _claim("A", "B")
    for done in world.run(5, 3700.0):
        assert not done.outcome.writes
        assert done.said(NoteKind.AMBIGUOUS) == {"n1": "claimed by A, B"}


def test_what_its_owner_does_not_report_and_another_does_was_moved_by_hand() -> None:
    found = services(service("A"), service("B"))
    ids = ["n1", "n2", "n3"]
    world = World(
        pools=Pools(resources=hosts(*ids), services=found),
        holdings=within(**dict.fromkeys(ids, "A")),
    )

    def lie(answers: Answers) -> Answers:
        kept = {"n2": Seen(), "n3": Seen()}
        moved = {"n1": Seen()}
        return {
            "A": replace(answers["A"], members=kept),
            "B": replace(answers["B"], members=moved),
        }

    world.lie = lie
    failed = world.round().after()["n1"]
    assert (failed.phase, failed.reason) == (Phase.FAILED, "moved by hand: B has it")


def test_what_nobody_reports_any_more_is_drift_and_not_moved() -> None:
    ids = ["n1", "n2", "n3"]
    world = World(
        pools=Pools(resources=hosts(*ids), services=services(service("A"))),
        holdings=within(**dict.fromkeys(ids, "A")),
    )
    world.lie = _without_n1
    assert not [it for it in world.run(5, 3700.0) if it.outcome.writes]
