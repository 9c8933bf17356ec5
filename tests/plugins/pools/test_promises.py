"""The promises of the decision, in closed worlds: what never happens, and what does in the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb_plugins.pools.decision import (
    Holding,
    Kpi,
    Member,
    MemberState,
    NoteKind,
    Observed,
    Order,
    Phase,
    Pools,
    Seen,
    ServiceState,
    Share,
    Slo,
    SloKind,
    Standing,
    View,
    Window,
    decide,
)
from tests.plugins.pools.world import (
    START_S,
    Answers,
    Round,
    World,
    counted,
    hosts,
    minimum,
    one_need,
    service,
    services,
    spare,
    with_lie,
    within,
    worlds,
)

QUIET_ROUNDS = 12
ROUNDS = 12


def at_rest(world: World, limit: int = 200) -> list[Round]:
    """Run a world until nothing is decided for a long time; return what was."""
    found: list[Round] = []
    quiet = 0
    while quiet < QUIET_ROUNDS:
        assert len(found) < limit, world.rounds[-6:]
        done = world.round(3700.0 if quiet >= 3 else None)
        found.append(done)
        quiet = 0 if done.outcome.writes else quiet + 1
    return found


def weights(world: World) -> set[float | str]:
    """Return what a resource can be worth in a world: no resource moves more often than that."""
    found: set[float | str] = set()
    for it in world.pools.services.values():
        standing = Standing(service=it, entitled=1)
        by_slo = [(slo.urgency, index) for slo in it.slos for index in (1, 2)]
        found |= {world.policy.weight(standing, urgency, index) for urgency, index in by_slo}
        found |= {"min"} if it.min else set()
        found |= {"max"} if it.max is not None else set()
    return found


# In the end.


@given(world=worlds())
def test_with_constant_numbers_every_system_comes_to_rest(world: World) -> None:
    rounds = at_rest(world)
    assert not world.round(86_400.0 * 30).outcome.writes
    assert not [it for it in rounds if it.said(NoteKind.CIRCLE)]
    moves = Counter(id_ for it in rounds for id_ in it.grants())
    # The mean of the loads changes as members come and go: that is no constant number.
    assert world.looks_at_loads() or max(moves.values(), default=0) <= len(weights(world))


@given(world=worlds(ends=True))
def test_a_system_whose_joins_fail_comes_to_rest(world: World) -> None:
    at_rest(world)
    assert not world.round(86_400.0 * 30).outcome.writes


@given(world=worlds(), other=worlds(), start=st.integers(1, 5))
def test_a_system_whose_site_was_edited_and_whose_numbers_have_changed_comes_to_rest(
    world: World, other: World, start: int
) -> None:
    world.run(start)
    edited = {
        name: replace(other.pools.services.get(name, old), direct=old.direct)
        for name, old in world.pools.services.items()
    }
    world.pools = replace(other.pools, services=edited, resources=world.pools.resources)
    world.kpis = {**world.kpis, **other.kpis}
    at_rest(world)
    assert not world.round(86_400.0 * 30).outcome.writes


@given(world=worlds())
def test_at_rest_no_service_has_more_than_its_maximum_of_what_may_move(world: World) -> None:
    at_rest(world)
    for name, it in world.pools.services.items():
        stuck = {id_ for id_ in world.at(name) if not _may_move(world, id_)}
        if it.max is not None and it.registered:
            assert len(world.at(name)) <= max(it.max, len(stuck)), name


@given(world=worlds())
def test_at_rest_a_service_below_its_minimum_could_be_given_nothing(world: World) -> None:
    at_rest(world)
    members, _ = counted(world.holdings)
    free = {id_ for id_ in world.pools.resources if id_ not in world.holdings}
    for name, it in world.pools.services.items():
        if not it.registered or members[name] >= it.min:
            continue
        assert not [id_ for id_ in free if _may_move(world, id_)], name
        for other, giving in world.pools.services.items():
            if other != name and giving.registered and members[other] > giving.min:
                assert not [id_ for id_ in world.at(other) if _may_move(world, id_)], (name, other)


def _may_move(world: World, id_: str) -> bool:
    holding = world.holdings.get(id_)
    return not world.pools.resources[id_].static and not (holding and holding.held_until_s)


def test_an_atomic_need_weighs_each_member_that_it_takes_anew() -> None:
    """Two of B's three members are within its share; it was thought to lose none of those."""
    ids = ["n1", "n2", "n3", "n4", "n5", "n6"]
    slo = Slo(name="a", kind=SloKind.PENDING, urgency=50, quantity=2, kpi="k", atomic=True)
    found = services(
        service("A", slo),
        service("B", minimum(3, urgency=30), share=34),
        service("C", minimum(3, urgency=90)),
    )
    world = World(
        pools=Pools(resources=hosts(*ids), services=found, immunity_s=0, grow_after_s=0),
        policy=Share(),
        holdings=within(**{id_: "B" if id_ < "n4" else "C" for id_ in ids}),
        kpis={"A": (Kpi(name="k", value=9),)},
    )
    assert not [it for it in world.run(9) if it.grants()]


# Never.


@given(world=worlds(ends=True))
def test_no_decision_takes_a_service_out_of_its_bounds(world: World) -> None:
    for done in world.run(2 * ROUNDS):
        members, coming = counted(done.before)
        members_after, coming_after = counted(done.after())
        failed = {it.service for it in done.after().values() if it.phase is Phase.FAILED}
        rejected = {done.before[id_].service for id_ in done.said(NoteKind.REJECTED)}
        for name, it in world.pools.services.items():
            if members_after[name] < members[name] and name not in failed | rejected:
                assert members_after[name] >= it.min, (name, done)
            before, after = members[name] + coming[name], members_after[name] + coming_after[name]
            if it.max is not None and after > before:
                assert after <= it.max, (name, done)


@given(world=worlds(ends=True))
def test_what_must_stay_never_moves(world: World) -> None:
    pools = world.pools
    for done in world.run(2 * ROUNDS):
        for id_ in done.grants():
            before, after = done.before.get(id_), done.after()[id_]
            assert not pools.resources[id_].static
            target = after.to if after.phase is Phase.LEAVING else after.service
            assert target is None or pools.services[target].registered
            if before is None:
                continue
            assert before.phase is Phase.IN
            assert pools.services[before.service].registered
            assert before.held_until_s is None or before.held_until_s <= done.now_s
            rests = before.order is not None and not (
                pools.services[before.service].direct or world.hurry
            )
            is_new = rests and before.since_s > done.now_s - pools.immunity_s
            assert not is_new or id_ in done.said(NoteKind.REJECTED)


@given(world=worlds(ends=True))
def test_there_are_never_more_moves_than_the_budget_has(world: World) -> None:
    budget = world.pools.budget
    for done in world.run(2 * ROUNDS if budget else 0):
        assert budget is not None
        late = [it for it in world.rounds if 0 <= done.now_s - it.now_s < budget.per_s]
        assert sum(len(it.grants()) for it in late) <= budget.moves


@given(world=worlds(ends=True))
def test_what_a_service_has_rejected_never_comes_to_it_again(world: World) -> None:
    rejected: set[tuple[str, str]] = set()
    for done in world.run(2 * ROUNDS):
        for id_, holding in done.outcome.writes.items():
            if holding is not None:
                assert (id_, holding.to) not in rejected
                was = done.before.get(id_)
                is_new = was is None or was.service != holding.service
                assert not is_new or (id_, holding.service) not in rejected
        for id_, text in done.said(NoteKind.REJECTED).items():
            name = done.before[id_].service
            assert text == f"{name} cannot use it: it says no"
            assert done.outcome.writes[id_] is None or done.after()[id_].service != name
            rejected.add((id_, name))


@given(world=worlds(ends=True))
def test_a_failure_stays_with_its_resource(world: World) -> None:
    failed: dict[str, Holding] = {}
    for done in world.run(2 * ROUNDS):
        assert not failed.keys() & done.outcome.writes.keys()
        for id_, holding in done.outcome.writes.items():
            if holding is not None and holding.phase is Phase.FAILED:
                assert holding.reason == "it says no"
                failed[id_] = holding
    assert failed.items() <= world.holdings.items()


@given(world=worlds(), start=st.integers(0, 5), resource=st.booleans())
def test_what_the_site_does_not_know_any_more_is_left_alone(
    world: World, start: int, *, resource: bool
) -> None:
    world.run(start)
    name, gone = min(world.pools.services), min(world.pools.resources)
    kept_services = {it: found for it, found in world.pools.services.items() if it != name}
    kept_resources = {it: found for it, found in world.pools.resources.items() if it != gone}
    pools = replace(
        world.pools,
        services=world.pools.services if resource else kept_services,
        resources=kept_resources if resource else world.pools.resources,
    )
    view = View(pools=pools, holdings=dict(world.holdings), members=dict(world.members))
    outcome = decide(view, world.answers(), world.memory, world.now_s, world.policy)
    if resource:
        assert gone not in outcome.writes
        return
    for id_, holding in outcome.writes.items():
        before = world.holdings.get(id_)
        assert holding is None or name not in {holding.service, holding.to} or before is not None
        if before is not None and before.service == name:
            assert before.phase is Phase.LEAVING


@given(world=worlds(), start=st.integers(0, 3))
def test_the_ambiguous_never_moves(world: World, start: int) -> None:
    world.run(start)
    ids = sorted(world.pools.resources)[:6]
    claiming = {"X": service("X"), "Y": service("Y")}
    world.pools = replace(world.pools, services={**world.pools.services, **claiming})

    def lie(answers: Answers) -> Answers:
        seen = {id_: Seen() for id_ in ids}
        return {
            name: replace(it, members=seen) if name in claiming else it
            for name, it in answers.items()
        }

    world.lie = lie
    for done in world.run(4):
        assert not set(done.grants()) & set(done.said(NoteKind.AMBIGUOUS))
        for id_ in ids:
            assert done.before.get(id_) is not None or done.said(NoteKind.AMBIGUOUS)[id_]


LIES: dict[str, Callable[[Observed], Observed | None]] = {
    "silent": lambda _: None,
    "stale": lambda it: replace(it, begun_s=it.begun_s - 121, arrived_s=it.arrived_s - 121),
    "NaN": lambda it: replace(it, kpis=(*it.kpis, Kpi(name="x", value=float("nan")))),
    "infinite": lambda it: replace(it, kpis=(*it.kpis, Kpi(name="x", value=float("inf")))),
    "negative": lambda it: replace(it, kpis=(*it.kpis, Kpi(name="x", value=-1))),
    "a load of NaN": lambda it: replace(it, members={"x": Seen(load=float("nan"))}),
    "jobs below none": lambda it: replace(it, members={"x": Seen(jobs=-1)}),
    **{
        f"it is {state}": lambda it, state=state: replace(it, state=state)  # type: ignore[misc]
        for state in ServiceState
        if state is not ServiceState.RUNNING
    },
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize("name", ["A", "spare"])
def test_lying_numbers_move_nothing(lie: Callable[[Observed], Observed | None], name: str) -> None:
    world = one_need()
    world.lie = lambda answers: with_lie(answers, name, lie)
    for done in world.run(4, 3700.0):
        assert not done.outcome.writes
        assert name in done.said(NoteKind.UNTRUSTED)
    world.lie = lambda answers: answers
    assert world.round().grants()


@given(world=worlds(), start=st.integers(0, 4), lie=st.sampled_from([*LIES.values()]))
def test_nothing_moves_from_and_to_a_service_that_lies(
    world: World, start: int, lie: Callable[[Observed], Observed | None]
) -> None:
    """Nor is anything free that the service may have."""
    world.run(start)
    name = min(world.pools.services)
    if not world.pools.services[name].registered:
        return
    world.lie = lambda answers: with_lie(answers, name, lie)
    for done in world.run(4):
        assert name in done.said(NoteKind.UNTRUSTED)
        for id_ in done.grants():
            before, after = done.before.get(id_), done.after()[id_]
            assert before is not None
            assert name not in {before.service, after.service, after.to}


@given(world=worlds())
def test_a_service_whose_members_are_gone_at_once_is_not_trusted(world: World) -> None:
    world.run(3)
    name = min(world.pools.services)
    there = [id_ for id_ in world.at(name) if id_ in world.members]
    world.lie = lambda answers: with_lie(answers, name, lambda it: replace(it, members={}))
    done = world.round()
    up = [id_ for id_ in there if done.members[id_].state is MemberState.UP]
    if up and world.pools.services[name].registered:
        assert name in done.said(NoteKind.UNTRUSTED)
        assert not [id_ for id_ in done.grants() if name == done.after()[id_].to]
        assert not set(done.grants()) & set(there)


@pytest.mark.parametrize(("gone", "moves"), [(9, 1), (10, 0)])
def test_a_service_may_lose_nearly_half_of_its_members_at_once(gone: int, moves: int) -> None:
    ids = [f"n{number:02d}" for number in range(20)]
    found = services(service("A", minimum(1)), service("B"))
    world = World(
        pools=Pools(resources=hosts(*ids), services=found),
        holdings=within(**dict.fromkeys(ids, "B")),
    )
    left = dict.fromkeys(ids[gone:], Seen())
    world.lie = lambda answers: with_lie(answers, "B", lambda it: replace(it, members=left))
    assert len(world.round().grants()) == moves


@given(world=worlds())
def test_a_missing_number_moves_nothing(world: World) -> None:
    name = min(world.pools.services)
    world.kpis = {**world.kpis, name: ()}
    looks = any(slo.kpi.startswith("k") for slo in world.pools.services[name].slos)
    for done in world.run(4 if looks and world.pools.services[name].registered else 0):
        assert name in done.said(NoteKind.UNTRUSTED)
        for id_ in done.grants():
            before, after = done.before.get(id_), done.after()[id_]
            assert before is not None
            assert name not in {before.service, after.service, after.to}


# Pure.


def _reversed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _reversed(it) for key, it in reversed(list(value.items()))}
    return value


@given(world=worlds(ends=True))
def test_a_decision_is_a_pure_function(world: World) -> None:
    for _ in range(ROUNDS):
        done = world.round()
        view = View(pools=world.pools, holdings=done.before, members=done.members)
        memory = world.rounds[-2].outcome.memory if len(world.rounds) > 1 else {}
        before = deepcopy((view, done.answers, memory))
        outcome = decide(view, done.answers, memory, done.now_s, world.policy, hurry=world.hurry)
        # What went through JSON in the world is decided alike, and so is the same call again.
        assert outcome == done.outcome
        assert before == (view, done.answers, memory)
        json.dumps(outcome.memory, allow_nan=False)
        turned = View(
            pools=replace(world.pools, resources=_reversed(world.pools.resources)),
            holdings=_reversed(view.holdings),
            members=_reversed(view.members),
        )
        answers = {
            name: replace(it, members=_reversed(it.members))
            for name, it in reversed(list(done.answers.items()))
        }
        other = decide(
            turned, answers, _reversed(memory), done.now_s, world.policy, hurry=world.hurry
        )
        assert other == outcome


@given(world=worlds(), back_s=st.floats(0.5, 1e6))
def test_a_clock_that_goes_back_does_no_harm(world: World, back_s: float) -> None:
    world.run(4)
    view = View(pools=world.pools, holdings=dict(world.holdings), members=dict(world.members))
    answers, now_s = world.answers(), world.now_s
    outcomes = [
        decide(view, answers, world.memory, at_s, world.policy) for at_s in (now_s, now_s - back_s)
    ]
    assert outcomes[0] == outcomes[1]


# What is needed comes.


@given(
    quantity=st.integers(1, 4),
    more=st.integers(0, 3),
    by_kpi=st.booleans(),
    direct=st.booleans(),
    join_rounds=st.integers(0, 3),
)
def test_a_need_is_met_by_what_is_idle(
    quantity: int, more: int, *, by_kpi: bool, direct: bool, join_rounds: int
) -> None:
    """An order, a hand-over, a join: as many rounds, and as many as a KPI must last."""
    kind = SloKind.PENDING if by_kpi else SloKind.MINIMUM
    slo = Slo(name="need", kind=kind, urgency=2, quantity=quantity, kpi="k" if by_kpi else "")
    ids = [f"n{number}" for number in range(quantity + more)]
    world = World(
        pools=Pools(
            resources=hosts(*ids),
            services=services(service("A", slo), replace(spare(), direct=direct)),
            grow_after_s=150.0,
        ),
        holdings=within(**dict.fromkeys(ids, "spare")),
        kpis={"A": (Kpi(name="k", value=9),)},
        join_rounds=join_rounds,
    )
    world.run(1 + (0 if direct else 1) + (3 if by_kpi else 0) + join_rounds)
    world.round()
    assert len([id_ for id_ in world.at("A") if world.members[id_].state is MemberState.UP]) >= (
        quantity
    )
    if not by_kpi:
        assert len(world.at("A")) == quantity


def test_an_objective_counts_within_its_window_only() -> None:
    """At the start it is 13:46:40 on 12 January 1970, a Monday."""
    noon, two = 12 * 3600.0, 14 * 3600.0
    window = Window(days=frozenset({"mon"}), from_s=noon, to_s=two, zone="UTC")
    pools = Pools(
        resources=hosts("n1"),
        services=services(service("A", minimum(1, windows=(window,))), spare()),
    )
    world = World(pools=pools, holdings=within(n1="spare"), step_s=100.0)
    places = [it.after()["n1"].service for it in world.run(20)]
    assert places == ["A"] * places.index("spare") + ["spare"] * places[::-1].index("A")
    assert 8 <= places.index("spare") <= 10  # 14:00 is 800 s after the start


def test_what_is_above_the_maximum_goes_to_the_spare_pool_when_its_work_is_done() -> None:
    found = services(service("B", minimum(2), max=1), spare())
    world = World(
        pools=Pools(resources=hosts("n1", "n2"), services=found),
        holdings=within(n1="B", n2="B"),
        busy=frozenset({"n1", "n2"}),
        drain_rounds=2,
    )
    world.run(3)
    assert [len(world.at(name)) for name in ("B", "spare")] == [1, 0]
    world.round()
    assert [len(world.at(name)) for name in ("B", "spare")] == [1, 1]


@pytest.mark.parametrize(("most", "phase"), [(1, Phase.LEAVING), (2, Phase.IN)])
def test_what_is_taken_back_stays_if_there_is_room_and_is_nobody_s_if_there_is_not(
    most: int, phase: Phase
) -> None:
    order = Order(slo="minimum", weight=50, at_s=START_S)
    leaving_n1 = Holding(service="B", phase=Phase.LEAVING, to="A", order=order, since_s=START_S)
    world = World(
        pools=Pools(
            resources=hosts("n1", "n2", "n3"),
            services=services(service("A", minimum(1)), service("B", max=most)),
        ),
        holdings={"n1": leaving_n1, **within(n2="B", n3="A")},
        busy=frozenset({"n1", "n2", "n3"}),
    )
    world.members["n1"] = Member(state=MemberState.DRAINING, since_s=START_S)
    done = world.round()
    assert done.outcome.writes["n1"] == Holding(
        service="B", phase=phase, since_s=START_S if phase is Phase.LEAVING else done.now_s
    )
    assert done.said(NoteKind.TAKEN_BACK) == {"n1": "A does not want it any more"}
    world.run(3)
    assert ("n1" in world.holdings) is (phase is Phase.IN)
