"""Hosts that go over from one generation to another within one run (design, section 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cobweb.engine import (
    Changeover,
    Engine,
    HostsSwitched,
    HostVanished,
    Lending,
    SlotReturned,
    WaitKind,
)
from cobweb.model import CobId, Graph, host_of
from tests.support.drive import Drive
from tests.support.graphs import SIMPLE, budget_of, graph_of, type_of
from tests.support.rollout import Rollout
from tests.support.webs import RELOADED, STOPPED, of, rolled, webs
from tests.support.words import after

OLD_FIRST = "x/old up>down x/app down"


def removal(**options: Any) -> Rollout:
    """Remove an object for which another one, of which nothing changes, has to stop."""
    return rolled(graph_of("x/app x/old", OLD_FIRST), graph_of("x/app"), **options)


def test_what_a_removal_stops_stays_so_until_its_host_has_switched() -> None:
    """Then it comes home."""
    run = removal()
    run.run()
    assert run.told("->", "switched") == [
        "x/app up -> down",
        "x/old up -> down [x/app down]",
        "x switched",
        "x/app down -> up",
    ]
    assert run.engine.unsettled() == ()


def test_what_a_removal_stopped_in_vain_comes_home() -> None:
    """P10; without it the object stays where that left it."""
    for returns, state in ((False, "down"), (True, "up")):
        run = removal(returns=returns)
        run.fails = {CobId("x/old")}
        run.run()
        assert run.real[CobId("x/app")] == state
        assert run.why("x/old") == "x/old failed"


def test_an_object_of_another_type_is_removed_and_made_anew() -> None:
    """Under one slot."""
    run = rolled(webs(1, "a b"), webs(2, "a b", kind=RELOADED))
    run.run()
    assert run.told("->", "lends", "switched") == [
        text
        for host in "ab"
        for text in (
            f"rolling lends to {host}",
            f"{host}/app up -> down",
            f"{host} switched",
            f"{host}/app down -> up",
        )
    ]
    assert run.engine.unsettled() == ()


def test_a_guess_that_is_trusted_is_not_checked() -> None:
    """What a change comes to is known without a look."""
    run = rolled(webs(1, "a", kind=SIMPLE, budgets=()), webs(2, "a", kind=SIMPLE, budgets=()))
    change = replace(run.change.changeover(), trusted=frozenset({CobId("a/app")}))
    run.options = {"change": change}
    run.run()
    assert run.lines[1:] == [
        "a switched",
        "a/app is outdated (content)",
        "a/app outdated -> up",
        "a/app is up (transition)",
    ]


def test_a_host_waits_for_all_that_come_before_it_and_says_for_which_object() -> None:
    """By more than one way."""
    base = graph_of("a/old b/app c/app d/app")
    goal = of(2, graph_of("b/app c/app d/app"), "b/app c/app d/app")
    order = ((("a",), ()), (("b",), (0,)), (("c",), (0,)), (("d",), (1, 2)))
    run = rolled(base, goal, order=order)
    run.fails = {CobId("a/old")}
    run.run()
    assert run.told("switched") == []
    assert run.why("d/app") == "d/app unswitched d a/old, a/old failed"
    assert run.engine.stands_in_base(CobId("d/app"))
    run.fails = set()
    run.run()
    assert run.told("switched") == ["a switched", "b switched", "c switched", "d switched"]
    assert not run.engine.stands_in_base(CobId("d/app"))


def test_a_need_of_the_bases_holds_until_both_hosts_have_switched() -> None:
    """Of a step and of a state; then it is forgotten."""
    needs = ("a/app outdated>down b/app down", "b/app down a/lock up", "b/app up>down c/app up")
    base = graph_of("a/app a/lock b/app c/app c/old", *needs)
    goal = of(2, graph_of("a/app a/lock b/app c/app"), "a/app b/app c/app")
    order = ((("c",), ()), (("a",), ()), (("b",), (0,)))
    run = rolled(base, goal, order=order)
    run.begin()
    run.finish()
    assert run.engine.unsettled() == ()
    assert run.told("a/app asks b/app")[:1] == []


def test_a_need_of_an_object_elsewhere_is_no_business_of_an_engine() -> None:
    """It owns only one of the two."""
    base = graph_of("a/app b/app", "a/app outdated>down b/app down")
    goal = of(2, graph_of("a/app b/app"), "a/app b/app")
    run = rolled(base, goal)
    change = run.change.changeover()
    engine = Engine(run.change.merged(), owned=frozenset({CobId("b/app")}), change=change)
    effects = engine.start({CobId("b/app"): "up"})
    assert [type(it).__name__ for it in effects].count("HostsSwitched") >= 1


def test_a_word_for_a_group_means_what_the_new_content_says() -> None:
    """Who holds it in one state asks for it in another one."""
    old = replace(
        type_of("p q up", "up>p p>q q>up p>up q>p", "up"), name="g", groups={"off": ("p", "q")}
    )
    base = graph_of({"x/s": old, "y/a": SIMPLE}, "y/a down>up x/s off", "y/a down>up z/b up")
    base = graph_of(
        {"x/s": old, "y/a": SIMPLE, "z/b": SIMPLE}, "y/a down>up x/s off", "y/a down>up z/b up"
    )
    goal = of(2, base, "x/s")
    run = rolled(base, goal, {"y/a": "down", "z/b": "down"})
    run.options = {"change": replace(run.change.changeover(), hosts=frozenset("x"))}
    run.run()
    assert run.engine.unsettled() == ()


def test_only_what_the_plan_named_goes_out() -> None:
    """P8: the rest is left and told."""
    run = rolled(webs(1, "a b"), webs(2, "a b"), may_go_out={CobId("a/app")})
    run.run()
    assert run.real == {"a/app": "up", "b/app": "up"}
    assert run.engine.unsettled() == ("b/app",)
    assert run.why("b/app") == "b/app unplanned"


def test_a_step_says_whether_it_takes_its_object_out() -> None:
    """By what serves."""
    run = rolled(webs(1, "a"), webs(1, "a"))
    run.begin()
    out, back = STOPPED.transition("up", "down"), STOPPED.transition("down", "up")
    assert out is not None
    assert back is not None
    assert run.engine.takes_out(CobId("a/app"), out)
    assert not run.engine.takes_out(CobId("a/app"), back)


def test_what_is_believed_counts_until_its_check_says_otherwise() -> None:
    """Only of what is there, unknown, and would serve; the room is taken from when it is known."""
    graph = webs(1, "a b c")
    believed = {"a/app": "up", "b/app": "down", "c/app": "up", "z/gone": "up"}
    drive = Drive(
        graph,
        {"c/app": "up"},
        begin={"believed": believed},
        lending=Lending(served=frozenset(graph.cobs)),
    )
    assert drive.first == ["c/app is up (journal)"] or "a/app check" in drive.first
    drive.checked("a/app", "broken")
    drive.checked("b/app", "up")
    drive.run()
    assert drive.engine.unsettled() == ()


def test_a_group_of_states_stands_in_the_place_of_serving() -> None:
    """`group: G`: clusters count who takes part, whatever serves."""
    kind = replace(STOPPED, groups={"member": ("up", "outdated")}, serving=())
    budgets = (budget_of("a/app b/app", group="member"),)
    run = rolled(
        webs(1, "a b", kind=kind, budgets=budgets), webs(2, "a b", kind=kind, budgets=budgets)
    )
    run.run()
    assert run.told("lends", "back") == [
        "rolling lends to a",
        "rolling has back a",
        "rolling lends to b",
        "rolling has back b",
    ]
    assert run.engine.unsettled() == ()


def test_a_slot_of_a_unit_that_is_gone_is_returned_and_one_of_a_given_up_host_is_not() -> None:
    """What is left of it says so."""
    slots = frozenset({("rolling", "gone"), ("old", "a"), ("rolling", "a")})
    graph = webs(1, "a b")
    engine = Engine(graph, lending=Lending(slots=slots, given_up=frozenset("a")))
    effects = engine.start(dict.fromkeys(graph.cobs, "up"))
    returned = [it for it in effects if isinstance(it, SlotReturned)]
    assert returned == [SlotReturned("old", "a"), SlotReturned("rolling", "gone")]
    engine = Engine(graph_of("a/app"), lending=Lending(slots=frozenset({("old", "a")})))
    assert SlotReturned("old", "a") in engine.start({CobId("a/app"): "up"})


def test_a_slot_that_came_back_too_early_is_asked_for_again() -> None:
    """The unit was home in between, and its member still waits to go out."""
    needs = ["x/conf outdated>* a/app down", "a/app up>down y/client down", "a/side *>up a/app up"]
    base = webs(1, "a", *needs, more=dict.fromkeys(("x/conf", "y/client", "a/side"), SIMPLE))
    run = rolled(base, of(2, base, "x/conf"), {"a/side": "down"})
    run.journal.states[CobId("a/side")] = "down"
    run.begin()
    while run.jobs:
        slow = [job for job in run.jobs if getattr(job, "cob", "") == "y/client"]
        run.end(next((job for job in run.jobs if job not in slow), run.jobs[0]))
    assert run.engine.unsettled() == ()
    assert run.engine.slots() == frozenset()


def test_two_slots_of_one_departure_come_back_together() -> None:
    """One unit in two budgets, of which another host is found out in one."""
    needs = ["a/app outdated>down y/client down"]
    wide = budget_of("a/app b/app c/app", 2, name="wide")
    narrow = budget_of("a/app b/app", 1, name="narrow")
    before, after = (
        of(it, webs(1, "a b c", *needs, more={"y/client": SIMPLE}, budgets=(narrow, wide)), "a/app")
        for it in (1, 2)
    )
    run = rolled(before, after)
    run.begin()
    run.until("y/client up -> down")
    assert run.engine.slots() == {("narrow", "a"), ("wide", "a")}
    assert run.vanish("b")[:2] == ["narrow has back a", "wide has back a"]
    run.come_back("b")
    run.finish()
    assert run.engine.unsettled() == ()


def test_all_slots_for_a_step_elsewhere_come_back_when_one_of_them_has_to() -> None:
    """Nothing of it goes out by halves."""
    needs = [f"x/conf outdated>* {host}/app down" for host in "ab"]
    needs += [f"{host}/app up>down y/client down" for host in "ab"]
    more = {"x/conf": SIMPLE, "y/client": SIMPLE}
    base = webs(1, "a b c", *needs, more=more, count=2)
    run = rolled(base, of(2, base, "x/conf"))
    run.begin()
    run.until("y/client up -> down")
    assert run.vanish("c")[:2] == ["rolling has back a", "rolling has back b"]
    run.finish()
    assert run.told("app up -> down") == []
    assert run.engine.chain(CobId("x/conf"))[-1].kind is WaitKind.UNREACHABLE
    run.come_back("c")
    run.finish()
    assert run.engine.unsettled() == ()


def test_a_step_that_asks_for_what_cannot_be_is_told() -> None:
    """No way leads there, or the object is not there yet."""
    needs = ["a/app outdated>down x/odd lost", "b/app outdated>down b/new up"]
    kind = type_of("lost up", "lost>up", "up")
    base = webs(1, "a b", *needs[:1], more={"x/odd": kind}, count=2)
    goal = webs(2, "a b", *needs, more={"x/odd": kind, "b/new": SIMPLE}, count=2)
    run = rolled(base, goal)
    run.run()
    assert run.engine.unsettled() == ("a/app", "x/odd") or "a/app" in run.engine.unsettled()
    assert run.real[CobId("b/app")] == "up"


def test_a_changeover_of_nothing_changes_nothing() -> None:
    """Its hosts switch."""
    graph: Graph = graph_of("a/app")
    engine = Engine(graph, change=Changeover(hosts=frozenset({"a", "b"}), order=(((), ()),)))
    effects = engine.start({CobId("a/app"): "up"})
    assert [it for it in effects if type(it).__name__ == "HostsSwitched"]
    assert engine.unsettled() == ()
    assert host_of(CobId("a/app")) == "a"
    engine.step(HostVanished(host="a"))


def test_nobody_repairs_what_the_goal_mends() -> None:
    """Nor asks for it: the host waits for its removal alone."""
    base = graph_of("x/app x/old x/tail", *after("x/tail", "x/app"))
    goal = of(2, graph_of("x/app x/tail", *after("x/tail", "x/app")), "x/app")
    run = rolled(base, goal, {"x/app": "down", "x/tail": "down"})
    run.run()
    assert run.told("->", "switched") == [
        "x/old up -> down",
        "x switched",
        "x/app down -> up",
        "x/tail down -> up [x/app up]",
    ]


def test_what_failed_under_the_old_content_is_tried_with_the_new_one() -> None:
    """Where a budget may keep a host waiting, a repair goes before, and may be in vain."""
    more = {"b/old": SIMPLE}
    run = rolled(webs(1, "a b", more=more), webs(2, "a b"), {"b/app": "down"})
    run.fails = {CobId("b/app")}
    run.watch = lambda effect: run.fails.clear() if isinstance(effect, HostsSwitched) else None
    run.run()
    assert run.told("b/app down", "b/app is", "b switched") == [
        "b/app is down (journal)",
        "b/app down -> up",
        "b/app is unknown (transition)",
        "b/app is down (check)",
        "b switched",
        "b/app is unknown (content)",
        "b/app is down (check)",
        "b/app down -> up",
        "b/app is up (transition)",
    ]
    assert run.engine.unsettled() == ()


def test_a_check_for_one_departure_is_one_for_another_that_relies_on_the_same() -> None:
    """Under another budget; the second waits for it."""
    needs = ("a/app down>up c/db up", "b/app down>up c/db up")
    budgets = (budget_of("a/app", name="one"), budget_of("b/app", name="two"))
    base, goal = (
        webs(version, "a b", *needs, more={"c/db": SIMPLE}, budgets=budgets) for version in (1, 2)
    )
    run = rolled(base, goal)
    run.run()
    assert run.told("c/db check", "lends") == ["c/db check", "one lends to a", "two lends to b"]
    assert run.engine.unsettled() == ()


def test_what_is_renewed_is_renewed_on_a_host_that_waits_too() -> None:
    """Though nothing of it changes, and only a removal holds the host back."""
    run = rolled(graph_of("x/app x/old"), graph_of("x/app"))
    run.renew = frozenset({CobId("x/app")})
    run.run()
    assert run.told("x/app outdated ->") == ["x/app outdated -> up"]


def test_a_look_ahead_does_not_begin_with_hosts_that_never_have_room_to_switch() -> None:
    """Both take a member out for their removal, and switch together."""
    more = {"a/old": SIMPLE, "b/old": SIMPLE}
    needs = ("a/old up>down a/app down", "b/old up>down b/app down")
    base = webs(1, "a b", *needs, more=more)
    run = rolled(base, webs(2, "a b"), order=((("a", "b"), ()),), returns=True)
    run.run()
    assert run.told("->", "lends") == []
    reason = run.engine.chain(CobId("a/old"))[-1]
    assert (reason.kind, reason.detail, reason.together) == (WaitKind.LIMIT, "rolling", ("a", "b"))


def test_nobody_goes_out_who_relies_on_a_host_that_does_not_answer() -> None:
    """It would not come back; who waits names that host."""
    needs = ("a/app down>up c/db up", "b/app down>up c/db up")
    base, goal = (webs(version, "a b", *needs, more={"c/db": SIMPLE}) for version in (1, 2))
    run = rolled(base, goal, returns=True)
    run.begin()
    run.dead.add("c")
    run.vanish("c")
    run.finish()
    assert run.told("->", "lends") == []
    for host in "ab":
        assert run.why(f"{host}/app") == f"{host}/app lock c/db, c/db unreachable c"
    run.come_back("c")
    run.dead.clear()
    run.finish()
    assert run.engine.unsettled() == ()


def test_a_unit_that_is_out_gives_back_its_slot_too_where_another_is_found_out() -> None:
    """Before it has moved: its other member stays up."""
    cobs = "a/app a/web c/app d/app"
    base = of(
        1, graph_of(dict.fromkeys(cobs.split(), STOPPED), budgets=(budget_of(cobs, 2),)), cobs
    )
    run = rolled(base, of(2, base, "a/app a/web"), {"a/app": "down", "d/app": "down"})
    run.journal.served |= set(base.cobs)
    run.fails = {CobId("a/app"), CobId("d/app")}
    run.begin()
    run.until("rolling lends to a")
    run.dead.add("c")
    run.vanish("c")
    run.finish()
    assert run.told("rolling", "a/web outdated") == ["rolling lends to a", "rolling has back a"]
    assert run.why("a/web") == "a/web limit rolling c/app, c/app unreachable c"


def test_a_member_that_never_served_and_does_not_answer_keeps_nobody_waiting() -> None:
    """Nobody asks it again, and it takes no room."""
    run = rolled(webs(1, "a b c"), webs(2, "a b c"), {"c/app": "down"})
    run.begin()
    run.dead.add("c")
    run.vanish("c")
    run.now_s += 100
    run.finish()
    assert run.told("lends") == ["rolling lends to a", "rolling lends to b"]
    assert run.told("c/app check") == ["c/app check"]
