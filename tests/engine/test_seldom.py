"""What happens seldom: orders that nobody can follow, hosts that wait, slots that go too early."""

from __future__ import annotations

from dataclasses import replace

from cobweb.engine import (
    Changeover,
    Engine,
    Foreseen,
    Halt,
    HostReturned,
    HostsSwitched,
    HostVanished,
    Lending,
    StateDoubted,
    WaitKind,
)
from cobweb.model import CobId, Graph, Limit, LimitGroup
from tests.support.drive import Drive
from tests.support.graphs import SIMPLE, budget_of, graph_of, type_of
from tests.support.rollout import Rollout
from tests.support.webs import of, rolled, webs

TURNED = graph_of("s/a s/b", "s/a down>up s/b down", "s/b up>down s/a down")
"""`b` goes down, then `a` up, then `b` up: the rules alone do not find it."""


# --- orders of the look-ahead


def test_nothing_is_foreseen_of_what_has_no_order() -> None:
    """Nor of objects of which nobody knows where they are."""
    graph = graph_of("s/a s/b", "s/a *>up s/b up", "s/b *>up s/a up")
    assert Engine(graph).foresee(dict.fromkeys(graph.cobs, "down")) == ()
    assert Engine(graph).foresee({}) == ()


def test_what_has_no_order_is_proved_by_its_needs() -> None:
    """And nothing is where there is one."""
    graph = graph_of("s/a s/b", "s/a *>up s/b up", "s/b *>up s/a up")
    (proof,) = Engine(graph).prove(dict.fromkeys(graph.cobs, "down"))
    assert set(proof.needs) == set(graph.needs)
    assert Engine(TURNED).prove({CobId("s/a"): "down", CobId("s/b"): "up"}) == ()


def foreseen() -> Foreseen:
    """Return the order for `TURNED`, from where it is thought to be."""
    (order,) = Engine(TURNED).foresee({CobId("s/a"): "down", CobId("s/b"): "up"})
    assert [str(step) for _, step in order.steps] == ["up -> down", "down -> up", "down -> up"]
    return order


def test_an_order_with_objects_of_others_is_not_followed() -> None:
    """An engine moves what it owns."""
    engine = Engine(TURNED, owned=frozenset({CobId("s/a")}))
    engine.start({CobId("s/a"): "up"}, orders=[foreseen()])
    assert not engine.looked_ahead


def test_an_order_is_left_when_its_object_is_found_elsewhere() -> None:
    """The rules go on from what is real."""
    drive = Drive(TURNED, begin={"orders": [foreseen()]})
    drive.checked("s/b", "outdated")
    drive.checked("s/a", "up")
    drive.run()
    assert drive.engine.states() == {"s/a": "up", "s/b": "up"}
    assert drive.engine.unsettled() == ()


def test_an_order_is_left_when_one_of_its_objects_cannot_be_checked() -> None:
    """The others are where they want to be by themselves."""
    drive = Drive(TURNED, begin={"orders": [foreseen()]})
    drive.checked("s/b", "up")
    assert drive.engine.target(CobId("s/b")) == "down"
    drive.checked("s/a", None)
    assert drive.engine.target(CobId("s/b")) == "up"
    assert drive.engine.unsettled() == ("s/a",)


# --- hosts that have not switched


def test_after_an_interrupt_no_host_switches() -> None:
    """What waited for it says that nothing new is started."""
    run = rolled(graph_of("a/old"), graph_of("b/app"), order=((("a",), ()), (("b",), (0,))))
    run.begin()
    run.give(Halt())
    run.finish()
    assert run.told("switched") == []
    assert run.why("b/app") == "b/app halted"


def test_a_host_is_told_what_it_waits_for_past_those_that_have_switched() -> None:
    """Of those before it, one is through and the other one has an object that stays."""
    base = graph_of("a/old b/old d/app")
    order = ((("a",), ()), (("b",), ()), (("d",), (1, 0)))
    run = rolled(base, of(2, graph_of("d/app"), "d/app"), order=order)
    run.fails = {CobId("b/old")}
    run.run()
    assert run.told("switched") == ["a switched"]
    assert run.why("d/app") == "d/app unswitched d b/old, b/old failed"


def test_a_host_that_is_held_does_not_switch_and_says_for_whom() -> None:
    """Somebody else has to see to that object first."""
    graph = graph_of("a/app a/mate b/app")
    run = rolled(graph, of(2, graph, "a/app b/app"))
    held = {"a": CobId("a/mate")}
    run.options = {"change": replace(run.change.changeover(), held=held)}
    run.run()
    assert run.told("switched") == ["b switched"]
    assert run.why("a/app") == "a/app unswitched a a/mate"


def test_a_changed_object_of_which_the_old_content_is_lost_is_as_the_goal_has_it() -> None:
    """And an object that a removal might ask to move is nobody's business here."""
    graph = graph_of("a/app b/app")
    change = Changeover(
        hosts=frozenset("a"), changed=frozenset({CobId("a/app")}), asked=frozenset({CobId("b/app")})
    )
    engine = Engine(graph, owned=frozenset({CobId("a/app")}), change=change)
    effects = engine.start({CobId("a/app"): "up"})
    assert HostsSwitched(("a",)) in effects
    assert engine.cob(CobId("a/app")) == graph.cobs[CobId("a/app")]


def test_what_a_removal_asks_to_move_may_need_others_that_it_does_not_concern() -> None:
    """These stay where they are."""
    base = graph_of("x/app x/old z/db", "x/old up>down x/app down")
    run = rolled(base, graph_of("x/app z/db", "x/app *>up z/db up"))
    run.run()
    assert run.told("->", "switched") == [
        "x/app up -> down",
        "x/old up -> down [x/app down]",
        "x switched",
        "x/app down -> up [z/db up]",
    ]


def test_what_is_gone_waits_until_nobody_counts_on_that() -> None:
    """Then its host is looked at again."""
    run = rolled(graph_of("a/old b/old", "a/old up>down b/old down"), graph_of({}))
    run.run()
    assert run.told("->", "switched") == [
        "b/old up -> down",
        "a/old up -> down [b/old down]",
        "a switched",
        "b switched",
    ]
    assert run.engine.unsettled() == ()


# --- what is known at the start


def test_states_of_objects_that_are_not_there_are_passed_over() -> None:
    """And those that the type does not know."""
    graph = webs(1, "a b")
    drive = Drive(graph, {"a/app": "up", "b/app": "odd", "z/gone": "up"})
    assert drive.engine.states() == {"a/app": "up", "b/app": "unknown"}
    drive.checked("b/app", "up")
    assert drive.engine.unsettled() == ()


# --- limits and slots


def test_room_that_two_free_at_once_is_for_whoever_waits() -> None:
    """A host that comes back in the middle of two steps."""
    members = frozenset(map(CobId, ("x/a", "x/b", "y/c")))
    limit = Limit(
        name="rolling",
        groups=(LimitGroup(name="", members=members, bound=2),),
    )
    drive = Drive(graph_of("x/a x/b y/c", limits=(limit,)), dict.fromkeys(members, "down"))
    assert drive.engine.busy() == {"x/a", "x/b"}
    drive.step(HostVanished(host="x"))
    assert drive.why("y/c") == "y/c limit x/a up, x/a unreachable"
    drive.step(HostReturned(host="x"))
    drive.checked("x/a", "up")
    drive.checked("x/b", "up")
    drive.run()
    assert drive.engine.unsettled() == ()


def test_two_canaries_pause_each_by_itself() -> None:
    """The end of one is none of the other."""
    budgets = tuple(
        budget_of(f"{x}/app {y}/app", name=f"on-{x}", first=1, pause_s=float(at))
        for at, (x, y) in enumerate((("a", "b"), ("c", "d")), 1)
    )
    run = rolled(webs(1, budgets=budgets), webs(2, budgets=budgets))
    run.begin()
    run.until("on-a pauses 1 s for a")
    run.until("on-c pauses 2 s for c")
    run.finish()
    assert run.told("let through") == ["on-a canary a let through", "on-c canary c let through"]
    assert run.engine.unsettled() == ()


def test_an_object_that_owes_its_way_home_finds_nobody_in_the_way_but_itself() -> None:
    """It has the only slot, and would need another one for what its step stops."""
    graph = webs(1, "a b", "a/app outdated>down b/app down")
    lending = Lending(slots=frozenset({("rolling", "a")}), served=frozenset(graph.cobs))
    drive = Drive(graph, {"a/app": "outdated", "b/app": "up"}, lending=lending)
    drive.run()
    assert drive.state("a/app") == "outdated"
    (why,) = drive.engine.chain(CobId("a/app"))
    assert (why.kind, why.detail, why.on) == (WaitKind.LIMIT, "rolling", None)


def test_what_a_state_needs_that_is_asked_for_goes_out_too() -> None:
    """The door is shut only while nobody is behind it: so its slot is asked for first."""
    needs = ["x/conf outdated>* x/door down", "x/door down a/app down", "x/door *>down a/app down"]
    more = {"x/conf": SIMPLE, "x/door": SIMPLE}
    base = webs(1, "a b", *needs, more=more)
    run = rolled(base, of(2, base, "x/conf"))
    run.run()
    assert run.told("->", "lends", "back") == [
        "rolling lends to a",
        "a/app up -> down",
        "x/door up -> down [a/app down]",
        "x/conf outdated -> up [x/door down]",
        "x/door down -> up",
        "a/app down -> up",
        "rolling has back a",
    ]


def test_a_state_that_only_the_new_type_has_takes_nobody_out_before_it_is_there() -> None:
    """It is asked for when that object is of that type."""
    kind = replace(type_of("off on", "on>off off>on", "on", "off"), name="switch")
    needs = ["a/app outdated>down x/it off"]
    base = webs(1, "a b", more={"x/it": SIMPLE})
    run = rolled(base, webs(2, "a b", *needs, more={"x/it": kind}))
    run.run()
    assert run.engine.unsettled() == ()
    assert run.told("x/it off -> on")


def tied(*needs: str) -> Graph:
    """Make servers of which the first waits for a client, with something beside it."""
    more = dict.fromkeys(("x/conf", "y/client", "a/side"), SIMPLE)
    return webs(1, "a b c", "a/side *>down a/app down", *needs, more=more)


def test_a_slot_is_taken_back_while_something_of_its_scope_is_checked() -> None:
    """That is left alone; what pursued the step plans anew."""
    base = tied("a/app outdated>down y/client down")
    run = rolled(base, of(2, base, "a/app"))
    run.begin()
    run.until("y/client up -> down")
    run.give(StateDoubted(cob=CobId("a/side")))
    assert run.vanish("b")[0] == "rolling has back a"
    run.come_back("b")
    run.finish()
    assert run.engine.unsettled() == ()


def slow(run: Rollout, *cobs: str) -> None:
    """End all jobs but those of some objects."""
    while jobs := [job for job in run.jobs if getattr(job, "cob", "") not in cobs]:
        run.end(jobs[0])


def test_a_step_whose_slot_went_home_before_it_began_waits_for_another_one() -> None:
    """Something beside it moved with the slot, and all was well; then its client is ready."""
    base = tied("x/conf outdated>* a/app down", "a/app up>down y/client down")
    run = rolled(base, of(2, base, "x/conf"), {"a/side": "outdated"})
    del run.journal.states[CobId("a/side")]
    run.begin()
    slow(run, "a/side", "y/client")
    assert run.engine.slots() == {("rolling", "a")}
    slow(run, "y/client")
    assert run.told("a/side outdated -> up", "has back") == [
        "a/side outdated -> up",
        "rolling has back a",
    ]
    run.finish()
    assert run.told("lends") == ["rolling lends to a", "rolling lends to a"]
    assert run.engine.unsettled() == ()
    assert run.engine.slots() == frozenset()


def test_what_a_departure_relies_on_may_answer_no_more() -> None:
    """Nothing goes out for it; the host has switched, so its unit owes the way home."""
    needs = ["a/app outdated>down y/client down"]
    base = webs(1, "a b", *needs, more={"y/client": SIMPLE})
    run = rolled(base, of(2, base, "a/app"))
    del run.journal.states[CobId("y/client")]
    run.dead = {"y"}
    run.run()
    assert run.told("->") == []
    assert run.engine.slots() == {("rolling", "a")}
    assert run.why("a/app").endswith("y/client unreachable y")


def test_an_engine_that_owns_a_part_of_a_budget_asks_others_all_the_same() -> None:
    """What it does not own has no standing here."""
    graph = webs(2, "a b", "a/app outdated>down y/client down", more={"y/client": SIMPLE})
    own = frozenset({CobId("a/app")})
    drive = Drive(graph, {"a/app": "outdated"}, owned=own, lending=Lending(served=own))
    assert "a/app check" in drive.first
    drive.checked("a/app", "outdated")
    assert drive.engine.chain(CobId("a/app"))[0].on == "y/client"


def test_who_waits_for_a_canary_on_a_host_that_has_switched_says_so() -> None:
    """Its new content is all that is left to do."""
    graph = webs(2, "a b", first=1)
    changed = {CobId("a/app"), CobId("b/app")}
    drive = Drive(graph, dict.fromkeys(changed, "outdated"), begin={"changed": changed})
    for cob in sorted(drive.engine.busy()):
        drive.checked(cob, "outdated")
    assert drive.engine.chain(CobId("b/app"))[0].detail == "rolling, canary"


# --- what is told at the end


def test_who_gave_up_tells_what_it_waited_for() -> None:
    """Though nobody waits any more: who was asked away is home again."""
    graph = graph_of("x/a x/b x/c", "x/a down>up x/b down", "x/b up>down x/c up")
    drive = Drive(graph, {"x/a": "down", "x/b": "up", "x/c": "down"}, returns=True)
    drive.ended("x/c", ok=False)
    drive.checked("x/c", "down")
    drive.run()
    assert drive.why("x/a") == "x/a lock x/b down, x/b lock x/c up, x/c failed down"
    waits = drive.engine.blocked(CobId("x/a"))
    assert waits is not None
    assert waits.on == "x/b"


def test_two_that_push_each_other_out_for_ever_stop_and_are_named() -> None:
    """Each goes up only while the other one is down."""
    graph = graph_of("x/a x/b", "x/a *>up x/b down", "x/b *>up x/a down")
    drive = Drive(graph, dict.fromkeys(graph.cobs, "down"))
    drive.run()
    kinds = {drive.engine.chain(cob)[-1].kind for cob in drive.engine.unsettled()}
    assert WaitKind.CHURN in kinds


def test_who_goes_to_and_fro_names_who_pushes_it_and_blames_nobody_for_being_outside() -> None:
    """`y/out` is where it is wanted; to move it as well would not help."""
    graph = graph_of(
        {"x/a": type_of("done ready", "ready>done", "done"), "x/b": SIMPLE, "y/out": SIMPLE},
        *("x/a ready>done x/b up", "x/b up y/out outdated", "y/out outdated x/a ready"),
    )
    states = {"x/a": "ready", "x/b": "up", "y/out": "outdated"}
    drive = Drive(graph, states, movable=graph.cobs.keys() - {CobId("y/out")})
    assert drive.why("x/a") == "x/a churn y/out done"


def test_who_was_asked_away_says_by_whom() -> None:
    """It is where it is wanted, though not where it wants to be."""
    drive = Drive(graph_of("x/a x/b", "x/a down>up x/b down"), {"x/a": "down", "x/b": "up"})
    drive.ended("x/b")
    assert drive.why("x/b") == "x/b requested x/a down, x/a running"


def test_room_that_another_limit_has_just_given_away_is_not_lent_twice() -> None:
    """The first unit takes the only slot of the second limit with it."""
    budgets = (budget_of("a/app", name="narrow"), budget_of("b/app a/app", name="wide"))
    run = rolled(webs(1, "a b", budgets=budgets), webs(2, "a b", budgets=budgets))
    run.run()
    assert run.told("lends") == ["narrow lends to a", "wide lends to a", "wide lends to b"]
    assert run.engine.unsettled() == ()


def test_what_no_limit_concerns_goes_over_with_its_host() -> None:
    """It waits for the slot of the host, and is tied to nothing."""
    before, after = (of(it, webs(it, "a", more={"a/lone": SIMPLE}), "a/lone") for it in (1, 2))
    run = rolled(before, after)
    run.run()
    assert run.told("->", "lends", "switched")[:2] == ["rolling lends to a", "a switched"]
    assert run.engine.unsettled() == ()
