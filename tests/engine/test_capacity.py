"""Limits that several engines share hold over lost, doubled and late mail, and over deaths."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cobweb.engine import Message, MessageKind, Receive, SlotTaken, StartTransition, WaitKind
from cobweb.model import CobId, Graph, Limit, LimitGroup
from tests.support.graphs import SIMPLE, budget_of, graph_of
from tests.support.several import NEW, Mishaps, Seat, Several
from tests.support.shared_sites import drawn, drawn_mishaps, settling
from tests.support.webs import webs

SEEDS = st.integers(0, 2**32)


@example(50)  # who waited in a unit that needs no slot any more
@example(145)
@given(SEEDS)
def test_no_bound_breaks_over_several_engines(seed: int) -> None:
    """Never: budgets, canaries and transitions in flight, with failures, kills and bad mail."""
    run = drawn(seed)
    run.run()
    assert run.bounds.broken == []


@given(SEEDS)
def test_no_bound_breaks_where_all_goes_well(seed: int) -> None:
    """Never: with mail that comes once, in any order."""
    run = drawn(seed, calm=True)
    run.run()
    assert run.bounds.broken == []


@pytest.mark.parametrize("seed", range(60))
def test_a_rolling_change_over_several_engines_settles(seed: int) -> None:
    """In the end: with the four words and one at a time, though mail is lost.

    Without an order looked ahead for, one engine alone may stop as well. That no site whatever
    stops is not promised (docs/engine-limits.md).
    """
    run = settling(seed)
    run.run()
    assert run.bounds.broken == []
    if run.unsettled():
        alone = settling(seed, alone=True)
        alone.run()
        assert alone.unsettled() != []


def test_the_checker_sees_what_engines_do_that_count_each_for_itself() -> None:
    """A checker that finds nothing there would be worth nothing."""
    broken = 0
    for seed in range(60):
        run = drawn(seed, calm=True, shares=False)
        run.run()
        broken += bool(run.bounds.broken)
    assert broken > 20


def test_the_same_seed_gives_the_same_run() -> None:
    """P6."""
    for seed in range(20):
        runs = [drawn(seed), drawn(seed)]
        for run in runs:
            run.run()
        assert runs[0].lines == runs[1].lines


# --- stories


def shared(graph: Graph, *owners: str, **words: object) -> Several:
    """Make a world in which all of `graph` has to change; the first owner lends."""
    graph = replace(graph, cobs={cob: replace(it, spec=NEW) for cob, it in graph.cobs.items()})
    parts = [frozenset(map(CobId, some.split())) for some in owners]
    up = dict.fromkeys(graph.cobs, "up")
    return Several(graph, parts, up, changed=frozenset(graph.cobs), **words)  # type: ignore[arg-type]


def begun(graph: Graph, *owners: str) -> Several:
    """Begin in a world where messages and jobs are taken by hand."""
    run = shared(graph, *owners)
    run.begin()
    return run


def deliver(run: Several, *kinds: MessageKind) -> None:
    """End all checks, and deliver all mail of these kinds (none: all), till there is no more."""
    while True:
        checks = [(s, j) for s in run.seats for j in s.jobs if type(j).__name__ == "StartCheck"]
        mail = [at for at, it in enumerate(run.mail) if not kinds or it.kind in kinds]
        if checks:
            run.end(*checks[0])
        elif mail:
            run._deliver(mail[0])
        else:
            return


def end_steps(run: Several) -> None:
    """End the transitions that are under way."""
    for seat in run.seats:
        for job in tuple(seat.jobs):
            if isinstance(job, StartTransition):
                run.end(seat, job)


def taken(run: Several) -> list[str]:
    """Return the units that were lent a slot, in order."""
    return [it.unit for _, it in run.lines if isinstance(it, SlotTaken)]


def moving(run: Several) -> list[str]:
    """Return what is in a transition now."""
    return sorted(run.bounds.moving)


def test_two_engines_go_one_after_the_other() -> None:
    """A host each, and one slot."""
    run = begun(webs(1, "a b"), "a/app", "b/app")
    deliver(run)
    assert moving(run) == ["a/app"]
    waits = run.seats[1].engine.blocked(CobId("b/app"))
    assert (waits.kind, waits.on, waits.detail) == (WaitKind.LIMIT, None, "rolling")
    while moving(run):
        end_steps(run)
        deliver(run)
    assert taken(run) == ["a", "b"]
    assert run.unsettled() == []


def test_a_lender_may_own_nothing() -> None:
    """It only counts."""
    run = begun(webs(1, "a b c", count=2), "", "a/app", "b/app c/app")
    run.finish()
    assert sorted(taken(run)) == ["a", "b", "c"]
    assert run.bounds.most == 2


def test_who_has_told_nothing_takes_room() -> None:
    """An engine that cannot be heard counts as out, and nobody goes."""
    run = begun(webs(1, "a b"), "a/app", "b/app")
    run.mail.clear()
    deliver(run, MessageKind.REQUEST, MessageKind.RELEASE)
    assert moving(run) == []
    run.finish()  # all is said again
    assert run.unsettled() == []


def test_a_grant_to_an_earlier_life_is_stale() -> None:
    """The borrower dies while a slot is on its way; its next life asks again."""
    run = begun(webs(1, "a b c"), "c/app", "a/app b/app")
    lender, borrower = run.seats
    deliver(run, MessageKind.REQUEST, MessageKind.RELEASE, MessageKind.RECALL)
    (grant,) = (it for it in run.mail if it.kind is MessageKind.GRANT)
    run.mail.clear()
    run.kill(borrower)
    run.give(borrower, Receive(message=grant))
    assert taken(run) == []
    run.finish()
    assert run.unsettled() == []
    assert lender.engine.slots() == frozenset()


def test_a_grant_of_an_earlier_life_of_the_lender_is_stale() -> None:
    """The new lender has lent nothing, and may lend to somebody else."""
    run = begun(webs(1, "a b c"), "", "a/app", "b/app c/app")
    lender = run.seats[0]
    deliver(run, MessageKind.REQUEST, MessageKind.RELEASE, MessageKind.RECALL)
    (grant,) = (it for it in run.mail if it.kind is MessageKind.GRANT)
    run.mail.clear()
    run.kill(lender)
    for seat in run.seats[1:]:
        for send in seat.engine.resend():
            run.mail.append(send.message)
    deliver(run, MessageKind.REQUEST, MessageKind.RELEASE, MessageKind.RECALL)
    run.give(seat_of(run, grant.receiver), Receive(message=grant))
    assert taken(run) == []
    run.finish()
    assert run.bounds.broken == []
    assert run.unsettled() == []


def seat_of(run: Several, cob: CobId) -> Seat:
    """Return the engine that owns an object."""
    return next(seat for seat in run.seats if cob in seat.owned)


def test_a_slot_outlives_both_sides() -> None:
    """Whoever dies while a unit is out: it has its slot, and nobody else goes."""
    for dead in ([0], [1], [0, 1], [1, 0]):
        run = begun(webs(1, "a b c"), "a/app", "b/app", "c/app")
        while moving(run) != ["b/app"]:
            end_steps(run)
            deliver(run)
        for number in dead:
            run.kill(run.seats[number])
        assert run.seats[1].engine.slots() == {("rolling", "b")}
        run.finish()
        assert run.bounds.broken == []
        assert run.bounds.most == 1
        assert run.unsettled() == []


def test_all_slots_of_a_step_are_lent_at_once_or_none() -> None:
    """Two engines need two slots each, and there are two: nobody holds one and waits."""
    needs = ["a/app *>down b/app down", "c/app *>down d/app down"]
    run = begun(webs(1, "a b c d", *needs, count=2), "", "a/app b/app", "c/app d/app")
    run.finish()
    assert run.unsettled() == []
    assert run.bounds.most == 2


def test_a_canary_holds_back_all_other_engines() -> None:
    """It is chosen when all have told what changes there; the others follow after the pause."""
    run = begun(webs(1, "a b c", count=3, first=1, pause_s=30.0), "", "a/app", "b/app", "c/app")
    deliver(run)
    assert moving(run) == ["a/app"]
    run.finish()
    assert run.bounds.broken == []
    assert taken(run)[0] == "a"
    assert run.unsettled() == []


def test_a_canary_that_is_down_after_the_pause_lets_nobody_through() -> None:
    """All engines check it once more."""
    run = begun(webs(1, "a b", count=2, first=1), "", "a/app", "b/app")
    while not run.seats[0].jobs:
        end_steps(run)
        deliver(run)
    run.real[CobId("a/app")] = "broken"
    run.mishaps = Mishaps(fail=1.0)
    run.finish()
    assert taken(run) == ["a"]
    assert run.unsettled() == ["a/app", "b/app"]


def test_only_the_first_ones_in_order_are_asked_for() -> None:
    """Words stay short, however many wait."""
    hosts = [f"h{number:02}" for number in range(20)]
    apps = [f"{host}/app" for host in hosts]
    run = begun(webs(1, " ".join(hosts)), apps[-1], " ".join(apps[:-1]))
    deliver(run, MessageKind.RECALL)
    asked = max(len(it.slots) for it in run.mail)
    assert asked == 17
    run.finish()
    assert run.unsettled() == []


def test_a_canary_that_fails_leaves_the_others_as_they_are() -> None:
    """Also on engines that are started again."""
    run = begun(webs(1, "a b", count=2, first=1), "", "a/app", "b/app")
    deliver(run)
    run.mishaps = Mishaps(fail=1.0)
    run.finish()
    run.kill(run.seats[2])
    run.kill(run.seats[0])
    run.finish()
    assert run.real[CobId("b/app")] == "up"
    assert run.version[CobId("b/app")] != NEW
    assert run.unsettled() == ["a/app", "b/app"]


def limited(bound: int = 1) -> Graph:
    """Return three objects of which only so many may move at once."""
    cobs = "a/x b/x c/x"
    group = LimitGroup(name="", members=frozenset(map(CobId, cobs.split())), bound=bound)
    limit = Limit(name="slow", groups=(group,))
    return graph_of(dict.fromkeys(cobs.split(), SIMPLE), limits=(limit,))


@pytest.mark.parametrize("owners", [("a/x", "b/x", "c/x"), ("", "a/x b/x c/x"), ("c/x", "a/x b/x")])
def test_transitions_in_flight_are_bounded_over_engines(owners: tuple[str, ...]) -> None:
    """One after the other, whoever owns them."""
    run = begun(limited(), *owners)
    run.finish()
    assert run.bounds.broken == []
    assert run.unsettled() == []


def test_a_transition_in_flight_takes_room_with_a_new_lender() -> None:
    """Who moves says so before anybody else begins."""
    run = begun(limited(), "a/x", "b/x", "c/x")
    while moving(run) != ["b/x"]:
        end_steps(run)
        deliver(run)
    run.kill(run.seats[0])
    deliver(run)
    assert moving(run) == ["b/x"]
    run.finish()
    assert run.unsettled() == []


def test_what_is_no_limits_business_is_passed_over() -> None:
    """Strange limits, strange senders, other generations: nothing is changed."""
    run = begun(webs(1, "a b"), "a/app", "b/app")
    lender, borrower = run.seats
    word = Message(
        kind=MessageKind.REQUEST, sender=CobId("b/app"), receiver=CobId("/strange"), state="want",
        incarnation=9 << 20, seq=1, generation=0,
    )  # fmt: skip
    before = len(run.lines)
    run.give(lender, Receive(message=word))
    run.give(lender, Receive(message=replace(word, receiver=CobId("/rolling"), generation=7)))
    answer = replace(word, sender=CobId("/rolling"), receiver=CobId("b/app"), known=3)
    run.give(borrower, Receive(message=replace(answer, kind=MessageKind.GRANT, state="all")))
    recall = replace(answer, kind=MessageKind.RECALL, sender=CobId("/strange"), incarnation=0)
    run.give(borrower, Receive(message=recall))
    sets = ((), (("rolling", "z"),))
    run.give(lender, Receive(message=replace(word, receiver=CobId("/"), slots=sets)))
    assert len(run.lines) == before
    run = begun(limited(), "a/x b/x", "c/x")
    run.give(run.seats[0], Receive(message=replace(word, sender=CobId("c/x"))))
    run.give(run.seats[1], Receive(message=replace(recall, receiver=CobId("c/x"))))
    assert moving(run) == []


def test_a_limit_passes_over_who_is_no_member_of_it() -> None:
    """Its engine knows better."""
    graph = limited()
    (limit,) = graph.limits
    group = replace(limit.groups[0], members=frozenset(map(CobId, ("a/x", "b/x"))))
    run = begun(replace(graph, limits=(replace(limit, groups=(group,)),)), "a/x", "b/x c/x")
    word = Message(
        kind=MessageKind.RECALL, sender=CobId("/slow"), receiver=CobId("c/x"), state="",
        incarnation=9 << 20, seq=1, generation=0,
    )  # fmt: skip
    run.give(run.seats[1], Receive(message=word))
    run.finish()
    assert run.unsettled() == []


@pytest.mark.gate("a property over several engines")
def test_mail_in_any_order_is_no_matter() -> None:
    """A thousand orders of the smallest rolling change."""
    for seed in range(200):
        run = shared(webs(1, "a b"), "a/app", "b/app", random=Random(seed))
        run.run()
        assert run.bounds.broken == []
        assert run.unsettled() == []


def test_a_limit_whose_members_are_all_the_lenders_asks_nobody() -> None:
    """Beside one that spans engines."""
    budgets = (budget_of("a/app b/app", name="wide"), budget_of("a/app", name="own"))
    run = begun(webs(1, "a b", budgets=budgets), "a/app", "b/app")
    run.finish()
    assert run.bounds.broken == []
    assert run.unsettled() == []


@pytest.mark.parametrize("seed", [586, 2822])
def test_a_unit_that_gave_up_gets_no_slot_for_the_change_of_another(seed: int) -> None:
    """Also where one engine owns all: else it would be lent and given back for ever."""
    it, random = drawn(seed), Random(seed + 1)
    whole = [frozenset(it.graph.cobs)]
    mishaps = drawn_mishaps(random)
    trust_s = random.choice([0.0, 10.0, 60.0])
    run = Several(
        it.graph,
        whole,
        it.real,
        changed=it.changed,
        random=random,
        mishaps=mishaps,
        trust_s=trust_s,
    )
    run.run()
    assert run.bounds.broken == []
