"""What a round does with what is on its way, with waiting times, and with what makes it swing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from cobweb_plugins.pools.decision import (
    ROUNDS_OF_A_CIRCLE,
    AdapterFacts,
    Holding,
    Kpi,
    Member,
    MemberState,
    NoteKind,
    Observed,
    Outcome,
    Phase,
    Priority,
    Seen,
    ServiceState,
    Standing,
    View,
    decide,
    pools_of,
    usages,
)

ADAPTERS = {
    "any": AdapterFacts(holds=frozenset({"host"})),
    "spare": AdapterFacts(holds=frozenset({"host"}), direct=True),
}
SPARE = {"adapter": "spare", "slos": [{"kind": "permanent", "urgency": 1}]}
AT_ONCE = {"immunity": "0s", "grow_after": "0s", "shrink_after": "0s"}
EVERY_S = 30.0


class World:
    """Pools whose resources do at once what is decided; KPIs are what a test says."""

    def __init__(self, section: Mapping[str, Any], owners: Mapping[str, str]) -> None:
        self.pools = pools_of({**AT_ONCE, **section}, ADAPTERS)
        self.holdings = {id_: Holding(service=name) for id_, name in owners.items()}
        self.members = {id_: Member(state=MemberState.UP) for id_ in owners}
        self.kpis: dict[str, float] = {}
        """By service: what is pending."""
        self.busy: set[str] = set()
        self.states: dict[str, ServiceState] = {}
        self.memory: Mapping[str, Any] = {}
        self.now_s = 1000.0

    def view(self) -> View:
        return View(pools=self.pools, holdings=self.holdings, members=self.members)

    def answers(self) -> dict[str, Observed]:
        return {
            name: Observed(
                state=self.states.get(name, ServiceState.RUNNING),
                kpis=(Kpi(name="pending", value=self.kpis.get(name, 0)),),
                members={
                    id_: Seen(idle=id_ not in self.busy)
                    for id_, it in self.holdings.items()
                    if it.service == name and it.phase is not Phase.FAILED
                },
                begun_s=self.now_s,
                arrived_s=self.now_s,
            )
            for name in self.pools.services
        }

    def round(self, **options: Any) -> Outcome:
        """Decide, let hosts do what was decided, and let time pass."""
        outcome = decide(
            self.view(), self.answers(), self.memory, self.now_s, Priority(), **options
        )
        self.memory = outcome.memory
        for id_, holding in outcome.writes.items():
            self.holdings.pop(id_, None)
            if holding is not None:
                self.holdings[id_] = holding
                leaves = holding.phase is Phase.LEAVING
                state = MemberState.DRAINING if leaves else MemberState.UP
                self.members[id_] = Member(state=state, since_s=self.now_s)
        self.now_s += EVERY_S
        return outcome

    def rounds(self, most: int) -> list[Outcome]:
        """Go on until two rounds in a row decide nothing; AssertionError after so many."""
        found = [self.round()]
        while found[-1].writes or (len(found) < 2 or found[-2].writes):
            assert len(found) < most
            found.append(self.round())
        return found

    def owners(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for id_, holding in sorted(self.holdings.items()):
            found.setdefault(holding.service, []).append(id_)
        return found


def pending(urgency: float, quantity: int = 1, **more: Any) -> Mapping[str, Any]:
    need = {"urgency": urgency, "quantity": quantity}
    return {"kind": "pending", "above": 10, "need": need, **more}


def minimum(urgency: float, quantity: int, **more: Any) -> Mapping[str, Any]:
    return {"kind": "minimum", "urgency": urgency, "quantity": quantity, **more}


def two_services(*, batch: Any = (), hpc: Any = (), spare: bool = True, **settings: Any) -> World:
    """Return a world of `batch` and `hpc` with two resources each, and two spare ones.

    Without a spare pool `batch` has these, too.
    """
    section = {
        "resources": {"b[1:2]": {}, "h[1:2]": {}, "s[1:2]": {}},
        "services": {
            "batch": {"adapter": "any", "slos": batch},
            "hpc": {"adapter": "any", "slos": hpc},
            **({"spare": SPARE} if spare else {}),
        },
        **settings,
    }
    owners = {"b1": "batch", "b2": "batch", "h1": "hpc", "h2": "hpc"}
    return World(section, {**owners, **dict.fromkeys(["s1", "s2"], "spare" if spare else "batch")})


KEEP = minimum(90, 2)
"""An SLO by which a service keeps its two."""


def notes(outcome: Outcome, kind: NoteKind) -> list[str]:
    return [f"{note.subject}: {note.text}" for note in outcome.notes if note.kind is kind]


def test_a_need_waits_until_its_kpi_has_lasted() -> None:
    world = two_services(batch=[KEEP, pending(50)], hpc=[KEEP], grow_after="1m")
    world.kpis["batch"] = 11
    first = world.round()
    assert first.writes == {}
    assert notes(first, NoteKind.WAITS) == [
        "batch: pending-2: pending is 11, above 10, for 0 s of 60 s"
    ]
    world.kpis["batch"] = 10
    world.round()
    world.kpis["batch"] = 11
    assert [sorted(world.round().writes) for _ in range(3)] == [[], [], ["s1"]]


def test_who_is_in_a_hurry_does_not_wait() -> None:
    world = two_services(batch=[KEEP, pending(50)], hpc=[KEEP], grow_after="1h", immunity="1h")
    world.kpis["batch"] = 11
    assert sorted(world.round(hurry=True).writes) == ["s1"]


def test_what_is_idle_for_a_while_goes_to_the_spare_pool_and_what_has_work_does_not() -> None:
    world = two_services(batch=[pending(50)], hpc=[KEEP], shrink_after="1m")
    world.busy = {"b1"}
    rounds = [world.round() for _ in range(6)]
    assert [sorted(outcome.writes) for outcome in rounds] == [[], [], ["b2"], ["b2"], [], []]
    assert world.owners() == {"batch": ["b1"], "hpc": ["h1", "h2"], "spare": ["b2", "s1", "s2"]}


def test_idle_resources_go_before_busy_ones() -> None:
    world = two_services(batch=[minimum(50, 1)], hpc=[minimum(80, 5)])
    world.busy = {"b1"}
    rounds = world.rounds(10)
    moved = [id_ for outcome in rounds for id_ in outcome.writes]
    assert "b2" in moved
    assert "b1" not in moved


def test_a_busy_resource_leaves_when_its_work_is_done_and_not_before() -> None:
    world = two_services(batch=[], hpc=[minimum(80, 6)])
    world.busy = {"b1"}
    world.rounds(10)
    leaving = world.holdings["b1"]
    assert (leaving.service, leaving.phase, leaving.to) == ("batch", Phase.LEAVING, "hpc")
    world.busy = set()
    world.round()
    assert world.holdings["b1"].service == "hpc"


def test_what_leaves_is_looked_at_in_the_order_of_ids() -> None:
    world = two_services(spare=False)
    to_of = {"b1": "hpc", "b2": None, "s1": None, "s2": None}
    for id_, to in to_of.items():
        world.holdings[id_] = Holding(service="batch", phase=Phase.LEAVING, to=to)
        world.members[id_] = Member(state=MemberState.DRAINING, since_s=world.now_s)
    world.busy = set(to_of)
    outcome = world.round()
    waiting = [note.subject for note in outcome.notes if note.kind is NoteKind.WAITS]
    assert waiting == [*to_of]


def test_idle_counts_only_if_asked_after_the_member_got_no_new_work() -> None:
    world = two_services(batch=[], hpc=[minimum(80, 3)], spare=False)
    world.round()
    (id_,) = [id_ for id_, it in world.holdings.items() if it.phase is Phase.LEAVING]
    for state, begun_s, goes in (
        (MemberState.UP, 2000, False),  # it has not been told yet
        (MemberState.DRAINING, 999, False),
        (MemberState.DRAINING, 1000, False),
        (MemberState.DRAINING, 1001, True),
        (MemberState.DOWN, 0, True),
    ):
        world.members[id_] = Member(state=state, since_s=1000)
        answers = {
            name: replace(it, begun_s=begun_s) if name == "batch" else it
            for name, it in world.answers().items()
        }
        outcome = decide(world.view(), answers, world.memory, 1030, Priority())
        assert (id_ in outcome.writes) is goes, (state, begun_s)


def test_a_need_takes_back_what_leaves_its_own_service_for_less() -> None:
    """Which is no move: the spare pool has not got it yet."""
    world = two_services(batch=[pending(50, quantity=2)], hpc=[KEEP])
    world.holdings["s1"] = world.holdings["s2"] = Holding(service="hpc", phase=Phase.FAILED)
    world.busy = {"b1", "b2"}
    assert world.round().writes == {}
    world.busy = set()
    assert sorted(world.round().writes) == ["b1", "b2"]
    world.busy, world.kpis["batch"] = {"b1", "b2"}, 11
    outcome = world.round()
    assert {id_: it.phase for id_, it in outcome.writes.items() if it} == {
        "b1": Phase.IN,
        "b2": Phase.IN,
    }
    assert notes(outcome, NoteKind.TAKEN_BACK) == [
        f"{id_}: batch needs it: pending-1" for id_ in ("b1", "b2")
    ]


def test_an_order_is_void_when_its_need_is_gone() -> None:
    world = two_services(batch=[], hpc=[KEEP, pending(80)], spare=False)
    world.busy = {"b1", "b2", "s1", "s2"}
    world.kpis["hpc"] = 11
    (id_,) = world.round().writes
    world.kpis["hpc"] = 0
    outcome = world.round()
    assert outcome.writes[id_] == Holding(service="batch", since_s=1030)
    assert notes(outcome, NoteKind.TAKEN_BACK) == [f"{id_}: hpc does not want it any more"]


def test_a_need_asks_elsewhere_when_an_order_takes_too_long_and_the_first_to_come_is_taken() -> (
    None
):
    world = two_services(batch=[], hpc=[minimum(80, 3)], spare=False, order_after="1m")
    world.busy = {"b1", "b2", "s1", "s2"}
    written = [sorted(world.round().writes) for _ in range(4)]
    assert written == [["b1"], [], ["b2"], []]
    world.busy = {"b1", "s1", "s2"}
    assert sorted(world.round().writes) == ["b1", "b2"]
    assert world.owners() == {"batch": ["b1", "s1", "s2"], "hpc": ["b2", "h1", "h2"]}
    assert world.holdings["b1"].phase is Phase.IN


def test_two_services_of_one_weight_take_turns() -> None:
    world = two_services(
        batch=[minimum(50, 3)], hpc=[minimum(50, 3)], budget={"moves": 1, "per": "1s"}
    )
    assert [[*world.round().writes] for _ in range(2)] == [["s1"], ["s2"]]
    assert world.owners() == {"batch": ["b1", "b2", "s1"], "hpc": ["h1", "h2", "s2"]}


def test_an_atomic_need_gets_all_or_nothing() -> None:
    atomic = pending(50, quantity=3)
    atomic = {**atomic, "need": {**atomic["need"], "atomic": True}}
    world = two_services(batch=[KEEP, atomic], hpc=[minimum(90, 1)])
    for id_ in ("h1", "h2"):
        world.holdings[id_] = Holding(service="hpc", held_until_s=1010)
    world.kpis["batch"] = 11
    outcome = world.round()
    assert outcome.writes == {}
    assert notes(outcome, NoteKind.UNMET) == [
        "batch: pending-2 wants 3 more: all 3 at once, and only 2 can be had"
    ]
    assert sorted(world.round().writes) == ["h1", "s1", "s2"]


def many(slos: Any, *, hpc: int, spare: int, **settings: Any) -> World:
    """Return a world of an empty `batch`, `hpc` that needs all that it has, and a spare pool."""
    section = {
        "resources": {f"h[1:{hpc}]": {}, f"s[1:{spare}]": {}},
        "services": {
            "batch": {"adapter": "any", "slos": slos},
            "hpc": {"adapter": "any", "slos": [minimum(40, hpc)]},
            "spare": SPARE,
        },
        **settings,
    }
    owners = {f"h{number}": "hpc" for number in range(1, hpc + 1)}
    return World(section, {**owners, **{f"s{number}": "spare" for number in range(1, spare + 1)}})


def test_a_need_that_grants_do_not_lower_leaves_others_alone_longer_each_time() -> None:
    world = many([pending(50)], hpc=9, spare=1)
    del world.holdings["s1"]
    world.pools = replace(
        world.pools, resources={id_: it for id_, it in world.pools.resources.items() if id_ != "s1"}
    )
    world.kpis["batch"] = 11
    rounds = [world.round() for _ in range(16)]
    told = [text for it in rounds for text in notes(it, NoteKind.WAITS) if "grants" in text]
    of = "batch: pending-1: grants have not lowered its KPI; for"
    assert told == [
        f"{of} {left:g} s it gets only what nobody needs" for left in (60, 30, 120, 90, 60, 30)
    ]
    world.kpis["batch"] = 10.5
    later = [world.round() for _ in range(4)]
    assert any(notes(it, NoteKind.MOVE) for it in later)


def test_a_need_that_grants_do_not_lower_still_gets_what_is_spare() -> None:
    """A service with more and more to do: its KPI rises, although each grant helps."""
    world = many([pending(50)], hpc=2, spare=8)
    for number in range(30):
        world.kpis["batch"] = 11.0 + number
        world.round()
    assert set(world.owners()["batch"]) >= {f"s{number}" for number in range(1, 9)}


def test_an_atomic_need_keeps_the_budget_for_itself_if_all_else_is_there() -> None:
    atomic = {
        "kind": "pending",
        "above": 10,
        "need": {"urgency": 50, "quantity": 3, "atomic": True},
    }
    budget = {"moves": 3, "per": "5m"}
    world = many([atomic, minimum(5, 1), minimum(4, 2)], hpc=1, spare=8, budget=budget)
    assert sorted(world.round().writes) == ["s1", "s2"]
    world.kpis["batch"] = 11
    outcome = world.round()
    assert outcome.writes == {}
    assert notes(outcome, NoteKind.UNMET) == [
        "batch: pending-1 wants 3 more: the budget of moves is used up"
    ]
    world.now_s += 300
    assert len(world.round().writes) == 3


def test_a_resource_that_goes_round_a_circle_is_stopped_and_the_two_slos_are_named() -> None:
    """Each service says that it is fine as soon as it has the one that the other lacks."""
    section = {
        "resources": {"r1": {}},
        "services": {
            "a": {"adapter": "any", "slos": [pending(50)]},
            "b": {"adapter": "any", "slos": [pending(60)]},
        },
    }
    world = World(section, {"r1": "a"})
    stopped: list[str] = []
    moves = 0
    for _ in range(40):
        mine = world.holdings["r1"].service
        world.kpis = {"a": 0.0 if mine == "a" else 11.0, "b": 0.0 if mine == "b" else 11.0}
        world.busy = {"r1"} if world.holdings["r1"].phase is Phase.IN else set()
        # Whoever has it says it is at work there; the other one is more urgent, or says it is idle.
        if mine == "b":
            world.busy = set()
        outcome = world.round()
        moves += any(it.phase is Phase.LEAVING for it in outcome.writes.values() if it)
        stopped += notes(outcome, NoteKind.CIRCLE)
    assert moves == 2 * ROUNDS_OF_A_CIRCLE
    assert stopped[0].endswith("a/pending-1 and b/pending-1 push against each other")
    assert stopped[0].startswith("r1: goes round a -> b -> a -> b -> a")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arrived_s": 879.0}, "its last answer is too old"),
        ({"state": ServiceState.STOPPED}, "it is stopped"),
        ({"kpis": (Kpi(name="pending", value=float("nan")),)}, "it says that pending is nan"),
        ({"kpis": (Kpi(name="pending", value=float("inf")),)}, "it says that pending is inf"),
        ({"kpis": (Kpi(name="pending", value=-1),)}, "it says that pending is -1"),
        ({"kpis": ()}, "it does not say what pending is"),
        (
            {"members": {"b1": Seen(load=-1), "b2": Seen()}},
            "it says that a member has less than no load or jobs, or no number",
        ),
        ({"members": {"b1": Seen()}}, "1 of its 2 members are gone at once"),
        (None, "it has not answered"),
    ],
)
def test_lying_numbers_move_nothing(change: Mapping[str, Any] | None, reason: str) -> None:
    """Neither from the service, whose members nobody needs, nor to it, that lacks one."""
    slos = [pending(50), minimum(80, 3, filter="id == s1")]
    world = two_services(batch=slos, hpc=[KEEP, minimum(60, 4)])
    answers = world.answers()
    assert {"b1", "b2"} <= decide(world.view(), answers, {}, 1000, Priority()).writes.keys() | {
        "s1",
        "b1",
        "b2",
    }
    if change is None:
        del answers["batch"]
    else:
        answers["batch"] = replace(answers["batch"], **change)
    outcome = decide(world.view(), answers, {}, 1000, Priority())
    assert sorted(outcome.writes) == ["s1", "s2"]
    assert {it.service for it in outcome.writes.values() if it} == {"hpc"}
    assert notes(outcome, NoteKind.UNTRUSTED) == [f"batch: unknown: {reason}"]


def test_pending_work_is_counted_by_the_value_of_a_property() -> None:
    """Two jobs wait for matlab and none for abaqus: only a matlab licence is asked for."""
    licence = AdapterFacts(holds=frozenset({"licence"}))
    section = {
        **AT_ONCE,
        "resources": {
            "matlab[1:2]": {"type": "licence", "properties": {"product": "matlab"}},
            "abaqus[1:2]": {"type": "licence", "properties": {"product": "abaqus"}},
        },
        "services": {
            "lab": {"adapter": "any", "slos": [{**pending(50), "per": "product", "above": 1}]},
            "spare": {"adapter": "spare", "slos": [{"kind": "permanent", "urgency": 1}]},
        },
    }
    pools = pools_of(section, {"any": licence, "spare": replace(licence, direct=True)})
    kpis = tuple(
        Kpi(name="pending", value=value, properties={"product": product})
        for product, value in (("abaqus", 1), ("matlab", 2))
    )
    answer = Observed(state=ServiceState.RUNNING, kpis=kpis, begun_s=1000, arrived_s=1000)
    holdings = {id_: Holding(service="spare") for id_ in pools.resources}
    view = View(pools=pools, holdings=holdings)
    outcome = decide(view, {"lab": answer, "spare": answer}, {}, 1000, Priority())
    assert {id_: it.service for id_, it in outcome.writes.items() if it} == {"matlab1": "lab"}


def test_utilisation_is_kept_within_its_band() -> None:
    """Above the band one more is asked for, within it all are needed, below it the rest is not."""
    band = {"kind": "utilisation", "band": [0.4, 0.8], "need": {"urgency": 50, "quantity": 1}}
    world = two_services(batch=[band], hpc=[KEEP])
    for load, needed, asks in ((0.9, 2, True), (0.8, 2, False), (0.4, 2, False), (0.1, 0, False)):
        answers = world.answers()
        seen = {id_: Seen(idle=False, load=load) for id_ in answers["batch"].members}
        answers["batch"] = replace(answers["batch"], members=seen)
        found = usages(world.view(), answers, {}, 1000)
        assert sum(found[id_] > 0 for id_ in ("b1", "b2")) == needed, load
        outcome = decide(world.view(), answers, {}, 1000, Priority())
        assert ("s1" in outcome.writes) is asks, load


def test_a_resource_that_services_bring_with_them_is_theirs_once_all_have_answered() -> None:
    world = two_services(batch=[minimum(90, 1)], hpc=[KEEP])
    answers = world.answers()
    del world.holdings["b1"], world.holdings["s2"]
    silent = {name: it for name, it in answers.items() if name != "hpc"}
    first = decide(world.view(), silent, {}, 1000, Priority())
    assert first.writes == {}
    assert notes(first, NoteKind.AMBIGUOUS) == [
        "b1: claimed by batch, hpc",
        "s2: claimed by hpc, spare",
    ]
    second = decide(world.view(), answers, {}, 1000, Priority())
    assert {id_: it.service for id_, it in second.writes.items() if it} == {
        "b1": "batch",
        "s2": "spare",
    }


def test_a_resource_that_was_moved_by_hand_has_failed_and_one_that_two_have_is_ambiguous() -> None:
    world = two_services(batch=[KEEP], hpc=[KEEP])
    answers = world.answers()
    hpc = {**answers["hpc"].members, "b1": Seen()}
    answers["hpc"] = replace(answers["hpc"], members=hpc)
    outcome = decide(world.view(), answers, {}, 1000, Priority())
    assert outcome.writes == {}
    assert notes(outcome, NoteKind.AMBIGUOUS) == ["b1: claimed by batch, hpc"]
    world = two_services(batch=[KEEP], hpc=[KEEP])
    world.holdings["s1"] = Holding(service="batch")
    world.members["s1"] = Member(state=MemberState.UP)
    answers = world.answers()
    answers["batch"] = replace(answers["batch"], members={"b2": Seen(), "s1": Seen()})
    answers["hpc"] = replace(answers["hpc"], members=hpc)
    outcome = decide(world.view(), answers, {}, 1000, Priority())
    failed = outcome.writes["b1"]
    assert failed is not None
    assert (failed.phase, failed.reason) == (Phase.FAILED, "moved by hand: hpc has it")


def test_members_beyond_the_maximum_go_to_the_spare_pool_or_else_to_nobody() -> None:
    section: dict[str, Any] = {
        "resources": {"r[1:3]": {}},
        "services": {"a": {"adapter": "any", "max": 1, "slos": [minimum(50, 3)]}},
    }
    world = World(section, dict.fromkeys(["r1", "r2", "r3"], "a"))
    world.rounds(10)
    assert world.owners() == {"a": ["r3"]}
    section["services"]["spare"] = {**SPARE, "max": 1}
    world = World(section, dict.fromkeys(["r1", "r2", "r3"], "a"))
    world.rounds(10)
    assert {name: len(ids) for name, ids in world.owners().items()} == {"a": 1, "spare": 1}


def test_an_objective_counts_only_within_its_windows() -> None:
    """The clock of a world is at 00:16 of a Thursday in 1970."""
    for days, start, asks in (
        (["thu"], "00:00", True),
        (["fri"], "00:00", False),
        (["thu"], "08:00", False),
    ):
        windows = [{"days": days, "from": start, "to": "12:00"}]
        world = two_services(batch=[pending(50, windows=windows)], hpc=[KEEP])
        world.busy, world.kpis["batch"] = {"b1", "b2"}, 11
        outcome = world.round()
        assert ("s1" in outcome.writes) is asks, (days, start)


def test_an_order_for_a_service_that_is_gone_or_full_is_void() -> None:
    for change in ({"registered": False}, {"max": 2}, None):
        world = two_services(batch=[], hpc=[minimum(80, 3)], spare=False)
        world.busy = {"b1", "b2", "s1", "s2"}
        (id_,) = world.round().writes
        by_hand = Holding(service="batch", phase=Phase.LEAVING, to="hpc", since_s=1000)
        world.holdings["b2"] = by_hand
        hpc = world.pools.services["hpc"]
        services = {name: it for name, it in world.pools.services.items() if name != "hpc"}
        if change is not None:
            services["hpc"] = replace(hpc, **change)
        world.pools = replace(world.pools, services=services)
        world.round()
        for void in (id_, "b2"):
            assert world.holdings[void] == Holding(service="batch", since_s=1030)


def test_a_policy_that_weighs_what_comes_more_does_not_take_from_its_own_service() -> None:
    class Growing:
        point: ClassVar[str] = "pool_policy"
        name: ClassVar[str] = "growing"

        def weight(self, standing: Standing, urgency: float, index: int) -> float:
            del standing
            return urgency * index

    world = two_services(
        batch=[minimum(50, 4, filter="id in [b1, b2, h1, h2]")], hpc=[minimum(900, 2)]
    )
    outcome = decide(world.view(), world.answers(), {}, 1000, Growing())
    assert outcome.writes == {}


def test_a_resource_whose_order_is_void_and_whose_service_is_full_by_now_goes_to_nobody() -> None:
    world = two_services(batch=[], hpc=[minimum(80, 3)], spare=False)
    world.busy = {"b1", "b2", "s1", "s2"}
    (id_,) = world.round().writes
    services = dict(world.pools.services)
    services["batch"] = replace(services["batch"], max=3)
    services["hpc"] = replace(services["hpc"], slos=())
    world.pools = replace(world.pools, services=services)
    world.round()
    assert (world.holdings[id_].phase, world.holdings[id_].to) == (Phase.LEAVING, None)
    world.busy = set()
    world.round()
    assert id_ not in world.holdings


def test_who_only_looks_at_a_resource_stops_it_on_no_circle() -> None:
    """An atomic need of two, of which one has gone round before, and the other is not there."""
    section = {
        "resources": {"r1": {}},
        "services": {
            "a": {"adapter": "any", "slos": [pending(50)]},
            "b": {"adapter": "any", "slos": [pending(60)]},
            "c": {"adapter": "any", "slos": [minimum(70, 1)]},
        },
    }
    world = World(section, {"r1": "a"})
    for _ in range(24):
        mine = world.holdings["r1"].service
        if mine == "c":
            break
        world.kpis = {"a": 0.0 if mine == "a" else 11.0, "b": 0.0 if mine == "b" else 11.0}
        world.busy = {"r1"} if mine == "a" and world.holdings["r1"].phase is Phase.IN else set()
        outcome = world.round()
        # Whatever weighs most gets it, so nothing stops it for those who only asked as well.
        assert notes(outcome, NoteKind.CIRCLE) == []
    assert world.holdings["r1"].service == "c"
    assert world.memory["resting"] == {}


def test_a_service_that_gives_up_a_resource_and_asks_for_it_again_keeps_it_in_the_end() -> None:
    """Work comes every five minutes, so what was given up to the spare pool is wanted again."""
    section = {
        "resources": {"r1": {}},
        "services": {"web": {"adapter": "any", "slos": [pending(50)]}, "spare": SPARE},
        "circle": "2h",
    }
    world = World(section, {"r1": "spare"})
    owners = []
    kept = []
    for number in range(120):
        world.kpis["web"] = 11 if number % 10 == 0 else 0
        outcome = world.round()
        owners.append(world.holdings["r1"].service)
        kept += notes(outcome, NoteKind.CIRCLE)
    changes = sum(one != other for one, other in pairwise(owners))
    assert changes == 2 * ROUNDS_OF_A_CIRCLE
    assert owners[-1] == "web"
    assert kept[0] == "web: keeps 1, given up and asked for again 2 times lately"


@pytest.mark.parametrize("kpi", [10**400, 1.7e308, 1.1e15])
def test_a_number_beyond_all_measure_is_a_lie(kpi: float) -> None:
    world = two_services(batch=[pending(50)], hpc=[KEEP])
    world.kpis["batch"] = kpi
    outcome = world.round()
    assert outcome.writes == {}
    assert notes(outcome, NoteKind.UNTRUSTED) == [f"batch: unknown: it says that pending is {kpi}"]


def test_a_service_does_not_bring_a_resource_with_it_that_it_cannot_use() -> None:
    adapters = {**ADAPTERS, "licences": AdapterFacts(holds=frozenset({"licence"}))}
    section = {"resources": {"r1": {}}, "services": {"lab": {"adapter": "licences"}}}
    pools = pools_of(section, adapters)
    answer = Observed(
        state=ServiceState.RUNNING, members={"r1": Seen()}, begun_s=1000, arrived_s=1000
    )
    outcome = decide(View(pools=pools), {"lab": answer}, {}, 1000, Priority())
    assert outcome.writes == {}
    assert notes(outcome, NoteKind.AMBIGUOUS) == ["r1: claimed by lab"]


def test_resources_that_filters_do_not_tell_apart_are_one_class() -> None:
    slos = [minimum(50, 1, filter="id != n7 and cores >= 4")]
    section = {
        "resources": {f"n{number}": {"properties": {"cores": number}} for number in range(100)},
        "services": {"a": {"adapter": "any", "slos": slos}},
    }
    assert len(pools_of(section, ADAPTERS).classes.examples) == 2


def test_moves_without_an_order_are_carried_on_for_as_many_as_there_are() -> None:
    """So a person has it moved, who asks no objective; and holds it there until then."""
    world = two_services(batch=[], hpc=[minimum(50, 2)], spare=False)
    for id_ in ("b1", "b2"):
        by_hand = Holding(
            service="batch", phase=Phase.LEAVING, to="hpc", since_s=990, held_until_s=5000
        )
        world.holdings[id_] = by_hand
        world.members[id_] = Member(state=MemberState.DRAINING, since_s=990)
    outcome = world.round()
    joined = Holding(service="hpc", since_s=1000, held_until_s=5000)
    assert outcome.writes == {"b1": joined, "b2": joined}
