"""What a change may take down: the stories of design 5b, each with what happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cobweb.engine import CheckEnded, EngineSettings, Halt, Lending
from cobweb.model import CobId, CobType, Graph, Unit
from tests.support.drive import Drive
from tests.support.graphs import SIMPLE, budget_of, graph_of, make_type, steps
from tests.support.rollout import Change, Journal, Rollout
from tests.support.webs import (
    RELOADED,
    RESTARTED,
    STOPPED,
    UP,
    confs,
    of,
    rolled,
    webs,
)
from tests.support.words import after, binds, stops

EMPTY = graph_of({})
A, B, C, _ = UP
OUTER = ("->", "lends", "back", "switched")
"""What tells of a change from outside: steps, slots and hosts."""


def one_by_one(*hosts: str, steps: tuple[str, ...]) -> list[str]:
    """Return the lines of units that go one after the other."""
    return [
        text.format(host=host)
        for host in hosts
        for text in ("rolling lends to {host}", *steps, "rolling has back {host}")
    ]


def settled(run: Rollout) -> None:
    """All is where the goal wants it, and nothing is lent any more."""
    assert run.engine.unsettled() == ()
    assert run.engine.slots() == frozenset()
    assert run.journal.slots == set()


# --- who needs a slot


def test_a_new_release_goes_one_host_after_the_other() -> None:
    """The commonest case there is; no sooner does a host learn of it than it may go."""
    run = rolled(webs(1), webs(2))
    run.run()
    assert run.told(*OUTER) == one_by_one(
        *"abcd",
        steps=("{host} switched", "{host}/app outdated -> down", "{host}/app down -> up"),
    )
    settled(run)


def test_a_first_installation_needs_no_slot() -> None:
    """It runs side by side: nothing should serve yet."""
    run = rolled(EMPTY, webs(1))
    run.begin()
    assert run.engine.busy() == set(UP)
    run.finish()
    assert run.told("lends") == []
    assert run.told("served") == [f"{host}/app served" for host in "abcd"]
    settled(run)


def test_a_scale_out_starts_at_once_while_the_old_ones_are_rolled() -> None:
    """New hosts take no room before they have served."""
    run = rolled(webs(1, "a b"), webs(2, "a b c d"))
    run.begin()
    assert run.told("switched") == ["c switched", "d switched"]
    run.finish()
    assert run.told("lends") == ["rolling lends to a", "rolling lends to b"]
    settled(run)


def test_a_scale_in_takes_them_down_one_after_the_other() -> None:
    """Each until it is gone."""
    run = rolled(webs(1), webs(1, "a b"))
    run.run()
    assert run.told(*OUTER) == one_by_one(*"cd", steps=("{host}/app up -> down", "{host} switched"))
    settled(run)


@pytest.mark.parametrize(
    ("words", "at_once"), [({}, "a"), ({"percent": 50}, "ab"), ({"count": 3}, "abc")]
)
def test_a_rename_goes_by_host(words: dict[str, Any], at_once: str) -> None:
    """The old one goes, the new one comes, then the next host does; leaving is no host."""
    run = rolled(webs(1, **words), webs(1, name="new", **words))
    run.begin()
    for host in "abcd":
        run.end(next(job for job in run.jobs if job.cob == f"{host}/app"))  # type: ignore[union-attr]
    assert run.told("lends") == [f"rolling lends to {host}" for host in at_once]
    run.finish()
    assert (
        run.told(*OUTER)[:5]
        == one_by_one("a", steps=("a/app up -> down", "a switched", "a/new down -> up"))
        or len(at_once) > 1
    )
    settled(run)


def test_a_host_that_was_installed_anew_is_out_and_its_repair_needs_no_slot() -> None:
    """It has served, so it occupies room; the others wait for it."""
    run = rolled(webs(1), webs(2), {"b/app": "down"})
    run.journal.states.update(UP)
    run.run()
    slots = run.told("lends")
    assert slots == [f"rolling lends to {host}" for host in "acd"]
    lines = run.told("->", "lends")
    assert lines.index("b/app down -> up") < lines.index("rolling lends to a")
    settled(run)


def test_a_host_that_is_dead_for_weeks_occupies_its_room() -> None:
    """With a budget of one nobody goes, and the reason is said; with two the others do."""
    for count, gone in ((1, ""), (2, "acd")):
        run = rolled(webs(1, count=count), webs(2, count=count))
        run.dead = {"b"}
        run.run()
        assert run.told("lends") == [f"rolling lends to {host}" for host in gone]
        assert run.why("b/app") == "b/app unreachable b"
        if not gone:
            assert run.why("d/app") == "d/app limit rolling b/app, b/app unreachable b"


@pytest.mark.parametrize(("percent", "gone"), [(40, ""), (60, "abe"), (20, "")])
def test_two_dead_of_five_take_room_of_a_percentage_of_all_five(percent: int, gone: str) -> None:
    """The dead are in the population, and out."""
    hosts = "a b c d e"
    run = rolled(webs(1, hosts, percent=percent), webs(2, hosts, percent=percent))
    run.dead = {"c", "d"}
    run.run()
    assert run.told("lends") == [f"rolling lends to {host}" for host in gone]
    assert run.engine.slots() == frozenset()


def test_a_whole_rack_goes_at_a_time() -> None:
    """`unit: rack`: its hosts go side by side, and then the next rack."""
    racks = tuple(
        Unit(name=rack, members=frozenset(CobId(f"{host}/app") for host in hosts))
        for rack, hosts in (("r1", "ab"), ("r2", "cd"))
    )
    budget = replace(budget_of("a/app"), units=racks)
    run = rolled(webs(1, budgets=(budget,)), webs(2, budgets=(budget,)))
    run.run()
    assert run.told("lends", "back", "switched") == [
        text
        for rack, (x, y) in (("r1", "ab"), ("r2", "cd"))
        for text in (
            f"rolling lends to {rack}",
            f"{x} switched",
            f"{y} switched",
            f"rolling has back {rack}",
        )
    ]
    settled(run)


@pytest.mark.parametrize(
    ("words", "at_once"), [({"count": 1}, "ac"), ({"percent": 50}, "ac"), ({"percent": 25}, "a")]
)
def test_a_bound_per_rack_holds_in_each_of_them(words: dict[str, Any], at_once: str) -> None:
    """`per: rack`; a percentage holds for all together besides."""
    units = tuple(
        Unit(name=host, members=frozenset({CobId(f"{host}/app")}), domains=(rack,))
        for host, rack in zip("abcd", ("r1", "r1", "r2", "r2"), strict=True)
    )
    budget = replace(budget_of("a/app", **words), units=units)
    run = rolled(webs(1, budgets=(budget,)), webs(2, budgets=(budget,)))
    run.begin()
    while not run.told("lends"):
        run.end(run.jobs[0])
    assert run.told("lends") == [f"rolling lends to {host}" for host in at_once]
    detail = run.engine.chain(CobId("b/app"))[0].detail
    assert detail == ("rolling" if "percent" in words else "rolling (r1)")
    run.finish()
    settled(run)


def test_two_limits_on_one_object_both_hold() -> None:
    """A unit has the slots of both or of none."""
    wide = budget_of("a/app b/app c/app d/app", 2, name="wide")
    narrow = budget_of("a/app b/app", 1, name="narrow")
    run = rolled(webs(1, budgets=(narrow, wide)), webs(2, budgets=(narrow, wide)))
    run.begin()
    while not run.told("lends"):
        run.end(run.jobs[0])
    assert run.told("lends") == [
        "narrow lends to a",
        "wide lends to a",
        "wide lends to c",
    ]
    run.finish()
    settled(run)


def limited(names: str, *needs: str, **limits: str) -> Graph:
    """Make objects of these names on two hosts, under limits of one; a need is of each host."""

    def ids(some: str) -> str:
        return " ".join(f"{host}/{name}" for host in "ab" for name in some.split())

    return graph_of(
        ids(names),
        *(need.replace("HOST", host) for host in "ab" for need in needs),
        budgets=tuple(budget_of(ids(some), name=name) for name, some in limits.items()),
    )


def test_what_a_limit_of_another_object_holds_back_goes_when_its_own_one_lends() -> None:
    """The base of it, which never goes out, has a limit as well."""
    needs, limits = after("HOST/app", "HOST/base"), {"bases": "base", "rolling": "app"}
    run = rolled(limited("app base", *needs, **limits), limited("base", bases="base"))
    run.run()
    assert run.told(*OUTER) == one_by_one(*"ab", steps=("{host}/app up -> down", "{host} switched"))
    settled(run)


def test_a_rename_goes_by_host_under_a_limit_of_what_stays_too() -> None:
    """Their client, which is bound to the one, waits for the other, which is on one host."""

    def named(app: str) -> Graph:
        needs = [*after("HOST/client", "a/base"), *binds("HOST/client", f"HOST/{app}")]
        return limited(f"{app} base client", *needs, bases="base", rolling=app)

    run = rolled(named("app"), named("new"))
    run.run()
    steps = ("client up -> down", "app up -> down", "new down -> up", "client down -> up")
    assert run.told("lends") == ["rolling lends to a", "rolling lends to b"]
    told = [text.partition(" [")[0] for text in run.told("->")]
    assert told == [f"{host}/{step}" for host in "ab" for step in steps]
    settled(run)


def test_a_slot_is_not_in_vain_while_what_the_next_one_relies_on_is_checked() -> None:
    """The host of `b` switches with both; that of `a` would take `b` out as well and waits."""

    def named(app: str, version: int) -> Graph:
        needs, limits = binds(f"HOST/{app}", "a/conf"), {"confs": "conf", "rolling": app}
        return of(version, limited(f"{app} conf", *needs, **limits), "a/conf b/conf")

    run = rolled(named("app", 1), named("new", 2))
    run.journal.served.update(run.real)
    run.run()
    assert run.told("confs") == ["confs lends to b", "confs has back b"]
    assert run.told("b switched", "rolling")[:3] == [
        "rolling lends to b",
        "b switched",
        "rolling has back b",
    ]
    assert {cob for cob in run.engine.unsettled() if cob.startswith("b/")} == set()


def test_who_waits_for_room_that_only_its_own_unit_takes_names_who_is_out_there() -> None:
    """It may not stop `b/app` while `a/app`, which the goal is to mend, is down."""

    def named(base: str) -> Graph:
        return limited(f"app {base}", *binds("HOST/app", f"a/{base}"), rolling="app")

    run = rolled(named("base"), named("new"), {"a/app": "down"})
    run.journal.served.update(run.real)
    run.run()
    assert run.why("a/base") == "a/base limit rolling a/app, a/app excluded stays"


@pytest.mark.parametrize("word", [None, stops])
def test_a_removal_goes_on_where_something_else_was_lost(word: Any) -> None:
    """In the journal that is up, and its unit is found out; it stops what the removed one needs."""
    words = [] if word is None else word("HOST/lost", "HOST/base")
    base = limited(
        "app base lost", *words, *after("HOST/app", "HOST/base"), all="app base lost", bases="base"
    )
    run = rolled(base, limited("base lost", *words, all="base lost", bases="base"))
    run.real[CobId("a/lost")] = "down"
    run.journal.served.update(run.real)
    run.run()
    assert sorted(run.told("->")) == ["a/app up -> down", "a/lost down -> up", "b/app up -> down"]
    assert run.told("lends") == ["all lends to a", "all lends to b"]
    settled(run)


def test_a_new_configuration_takes_its_server_down_under_the_budget() -> None:
    """The host switches with the slot, and not before."""
    run = rolled(confs(1), confs(2))
    run.run()
    assert run.told(*OUTER) == one_by_one(
        *"abcd",
        steps=(
            "{host} switched",
            "{host}/app up -> down",
            "{host}/conf outdated -> up [{host}/app down]",
            "{host}/app down -> up [{host}/conf up]",
        ),
    )
    settled(run)


def test_release_and_configuration_together_are_one_way_down() -> None:
    """One slot, one stop and one start of each."""
    run = rolled(confs(1), of(2, confs(2), " ".join(UP)))
    run.run()
    assert len(run.told("lends")) == 4
    assert len(run.told("app outdated -> down", "app up -> down")) == 4
    assert len(run.told("app down -> up")) == 4
    settled(run)


def test_a_reload_that_interrupts_nobody_needs_no_slot() -> None:
    """All at once: no member goes out."""
    run = rolled(webs(1, kind=RELOADED), webs(2, kind=RELOADED))
    run.run()
    assert run.told("lends") == []
    assert len(run.told("outdated -> up")) == 4
    settled(run)


@pytest.mark.parametrize("kind", [RESTARTED, SIMPLE])
def test_a_restart_in_place_needs_a_slot(kind: object) -> None:
    """It interrupts, or the type does not say that it serves before; the content alone is new."""
    run = rolled(webs(1, kind=kind), webs(2, kind=kind))  # type: ignore[arg-type]
    run.run()
    assert run.told(*OUTER) == one_by_one(
        *"abcd", steps=("{host} switched", "{host}/app outdated -> up")
    )
    settled(run)


def test_what_is_outdated_already_and_does_not_say_that_it_serves_is_out() -> None:
    """Nobody knows better than the type; its repair needs no slot."""
    run = Rollout(
        rolled(webs(2, kind=SIMPLE), webs(2, kind=SIMPLE)).change,
        dict.fromkeys(UP, "outdated"),
        lending=Lending(served=frozenset(UP)),
    )
    run.run()
    assert run.told("lends") == []
    settled(run)


def test_who_wants_to_be_down_and_has_served_occupies_room() -> None:
    """A bound is about what is left."""
    goal = webs(1)
    down = replace(goal.cobs[CobId("b/app")], want="down")
    goal = replace(goal, cobs={**goal.cobs, down.id: down})
    run = rolled(webs(1), goal)
    run.run()
    assert run.told(*OUTER) == [
        "rolling lends to b",
        "b switched",
        "b/app up -> down",
        "rolling has back b",
    ]
    settled(run)
    after = rolled(goal, replace(of(2, goal, " ".join(goal.cobs))), lending=run.journal.lending())
    after.run()
    assert after.told("lends") == []
    assert after.why("a/app") == "a/app limit rolling b/app, b/app excluded stays"


# --- several units at once


@pytest.mark.parametrize("client", ["no client", "a client"])
def test_a_step_that_takes_several_units_out_gets_all_slots_at_once(client: str) -> None:
    """Also where what goes out waits for others first; else nothing of it goes."""
    waits = client == "a client"
    run = rolled(shared(1, 2, waits=waits), shared(2, 2, waits=waits))
    run.run()
    assert run.told("lends") == ["rolling lends to a", "rolling lends to b"]
    settled(run)


def test_a_step_that_takes_out_more_than_the_bound_never_begins() -> None:
    """And nothing else goes out for it."""
    run = rolled(shared(1, 1, waits=True), shared(2, 1, waits=True))
    run.run()
    assert run.told("->", "lends") == []
    assert run.why("x/conf") == "x/conf limit rolling"


def shared(version: int, count: int, *, waits: bool) -> Graph:
    """Make two servers that one configuration elsewhere stops, perhaps after their client."""
    needs = [f"x/conf outdated>* {host}/app down" for host in "ab"]
    needs += [f"{host}/app *>up x/conf up" for host in "ab"]
    if waits:
        needs += [f"{host}/app up>down y/client down" for host in "ab"]
        needs += ["y/client *>up a/app up"]
    graph = webs(1, "a b", *needs, more={"x/conf": SIMPLE, "y/client": SIMPLE}, count=count)
    return of(version, graph, "x/conf")


def test_a_slot_for_a_step_that_cannot_go_on_is_given_up_and_the_run_ends() -> None:
    """Its client may not move: nothing goes out, and nothing is lent in the end."""
    base, goal = shared(1, 2, waits=True), shared(2, 2, waits=True)
    run = rolled(base, goal, movable=goal.cobs.keys() - {CobId("y/client")})
    run.run()
    assert run.told("->") == []
    assert run.engine.slots() == frozenset()
    assert run.why("x/conf") == "x/conf lock a/app, a/app lock y/client, y/client excluded"


DRAINED = make_type(
    "drained", "drained active", "active", "drained", steps("active>drained drained>active")
)


def drained(version: int, **budget: Any) -> Graph:
    """Make three servers that get new content while their node is drained."""
    needs = [f"{host}/app outdated>* {host}/node drained" for host in "abc"]
    nodes = {f"{host}/node": DRAINED for host in "abc"}
    bound = budget_of(" ".join(f"{it}/app {it}/node" for it in "abc"), **budget)
    return webs(version, "a b c", *needs, kind=RESTARTED, more=nodes, budgets=(bound,))


def test_a_unit_of_which_nothing_went_out_gives_its_slot_back_when_its_step_fails() -> None:
    """A node that cannot be drained works on; the others follow, in this life or the next one."""
    run = rolled(drained(1), drained(2))
    run.fails = {CobId("a/node")}
    run.run()
    assert run.told("lends", "back") == [
        f"rolling {word} {host}" for host in "abc" for word in ("lends to", "has back")
    ]
    assert run.real[B] == run.real[C] == "up"
    assert run.why(A) == "a/app lock a/node, a/node failed"
    assert run.journal.slots == set()
    run.fails = set()
    run.run()
    settled(run)


def test_a_slot_of_an_earlier_life_comes_back_too_when_nothing_went_out_with_it() -> None:
    """The drain was cut off; it is tried again, fails again, and the others follow."""
    run = rolled(drained(1), drained(2))
    run.begin()
    run.until("a/node active -> drained")
    run.fails = {CobId("a/node")}
    run.run()
    assert run.told("back") == [f"rolling has back {host}" for host in "abc"]
    assert run.real[B] == run.real[C] == "up"


@pytest.mark.parametrize("kind", [RESTARTED, STOPPED])
def test_a_unit_that_was_out_keeps_its_slot_when_its_step_fails(kind: CobType) -> None:
    """A restart interrupts, however it ends; what is down is out, and so is what comes after."""
    run = rolled(webs(1, kind=kind), webs(2, kind=kind))
    run.begin()
    run.until("a/app down -> up" if kind is STOPPED else "a/app outdated -> up")
    run.fails = {A}
    run.finish()
    assert run.told("lends", "back") == ["rolling lends to a"]
    run.run()
    assert run.told("lends", "back") == ["rolling lends to a"]


def in_vain(askers: dict[str, str], **budgets: str) -> Drive:
    """Run objects that need others up, which wait for a contradiction and hold a slot meanwhile."""
    hosts = sorted({host for others in askers.values() for host in others})
    apps = [f"{host}/app" for host in hosts]
    needs = [f"{it} outdated>* {host}/app up" for it, others in askers.items() for host in others]
    needs += [f"{host}/app up {host}/web outdated" for host in hosts]
    needs += [f"{host}/web outdated {host}/app down" for host in hosts]
    ids = [*apps, *(f"{host}/web" for host in hosts)]
    bounds = (budget_of(units, name=name) for name, units in budgets.items())
    graph = graph_of(" ".join([*ids, *askers]), *needs, budgets=tuple(bounds))
    states = dict.fromkeys(ids, "up") | dict.fromkeys(askers, "outdated")
    drive = Drive(graph, states, lending=Lending(served=frozenset(map(CobId, apps))))
    drive.run()
    assert drive.engine.slots() == frozenset()
    return drive


def test_who_could_do_nothing_with_a_slot_says_why_and_not_that_there_is_no_room() -> None:
    """What it waited for is as true without the slot, and there is room."""
    drive = in_vain({"x/one": "a"}, rolling="a/app")
    why = "x/one lock a/app up, a/app lock a/web outdated, a/web no-way outdated"
    assert drive.why("x/one") == why


def test_who_needs_a_slot_that_another_one_had_in_vain_names_that_one() -> None:
    """No limit is full at the end; but nobody is lent that slot again."""
    drive = in_vain({"x/an": "c", "x/one": "a", "x/two": "ab"}, narrow="a/app", wide="b/app c/app")
    why = "x/one lock a/app up, a/app lock a/web outdated, a/web no-way outdated"
    assert drive.why("x/two") == f"x/two limit x/one up, {why}"
    assert drive.engine.chain(CobId("x/two"))[0].detail == "narrow"


def test_who_is_lent_no_slot_as_something_of_its_unit_failed_names_that() -> None:
    """Nothing else takes room; it has asked for nothing yet."""
    graph = webs(1, "a b", "a/app outdated>* a/conf up", more={"a/conf": SIMPLE})
    served = Lending(served=frozenset({CobId("a/app"), CobId("b/app")}))
    drive = Drive(graph, {"a/app": "outdated", "b/app": "up"}, lending=served)
    drive.step(CheckEnded(cob=CobId("a/conf"), state=None))
    drive.checked("a/app", "outdated")
    drive.checked("b/app", "up")
    assert drive.why("a/app") == "a/app limit a/conf up, a/conf failed unknown"


def test_who_waits_for_a_slot_when_the_run_is_told_to_stop_says_so() -> None:
    """There is room for all, but nobody is lent any more."""
    run = rolled(webs(1), webs(2))
    run.begin()
    run.give(Halt())
    run.finish()
    assert run.why("a/app") == "a/app halted"


@pytest.mark.parametrize("count", [1, 2])
def test_hosts_that_switch_together_need_all_slots_at_once(count: int) -> None:
    """If that exceeds the bound none of them goes."""
    order = ((("a", "b"), ()), (("c",), ()), (("d",), ()))
    run = rolled(webs(1, count=count), webs(2, count=count), order=order)
    run.run()
    assert ("a b switched" in run.lines) is (count == 2)
    if count == 2:
        assert run.told("lends")[:2] == ["rolling lends to a", "rolling lends to b"]
        settled(run)
    else:
        assert run.told("lends") == ["rolling lends to c", "rolling lends to d"]
        assert run.why("a/app") == "a/app limit rolling"


# --- order


def test_units_go_in_the_order_that_the_budget_says() -> None:
    """Numbers before texts, then the inventory's order; who is out already goes first."""
    orders = {"a": (1, 0.0, "x"), "b": (0, 10.0, ""), "c": (0, 9.0, ""), "d": (0, 9.0, "")}
    units = tuple(
        Unit(name=host, members=frozenset({CobId(f"{host}/app")}), order=orders[host])
        for host in "abdc"
    )
    budget = replace(budget_of("a/app", 1), units=units)
    run = rolled(webs(1, budgets=(budget,)), webs(2, budgets=(budget,)))
    run.run()
    assert run.told("lends") == [f"rolling lends to {host}" for host in "dcba"]


def test_a_departure_that_never_has_room_holds_nobody_back() -> None:
    """The front would take out two at once, for as long as they have not gone by themselves."""
    apps = "a/app b/app c/app"
    kinds = {"e/slow": SIMPLE, "d/front": RESTARTED, **dict.fromkeys(apps.split(), RESTARTED)}
    graph = graph_of(
        kinds,
        *(f"d/front *>up {app} up" for app in apps.split()),
        budgets=(budget_of(apps, name="apps"), budget_of("d/front", name="fronts")),
    )
    real = dict.fromkeys(graph.cobs, "outdated")
    run = Rollout(Change(base=graph, goal=graph), real, journal=Journal())
    run.begin()
    run.until("e/slow outdated -> up")
    while jobs := [job for job in run.jobs if getattr(job, "cob", None) != "e/slow"]:
        run.end(jobs[0])
    gone = {step.partition(" ")[0] for step in run.told("outdated -> up")}
    assert gone == graph.cobs.keys()


def test_the_order_of_switching_comes_before_that_of_the_budget() -> None:
    """A later host waits for its predecessor anyhow."""
    order = ((("d",), ()), (("c",), (0,)), (("b",), (1,)), (("a",), (2,)))
    run = rolled(webs(1), webs(2), order=order)
    run.run()
    assert run.told("lends") == [f"rolling lends to {host}" for host in "dcba"]


def test_a_unit_that_is_out_goes_first() -> None:
    """One of its members does not serve; the other has to go out as well."""
    two = " ".join(f"{host}/{name}" for host in "ab" for name in ("app", "web"))
    base = webs(1, "a b", more=dict.fromkeys(two.split(), webs(1).cobs[CobId("a/app")].type))
    base = replace(base, budgets=(budget_of(two),))
    goal = of(2, base, two)
    run = rolled(base, goal, {"b/web": "broken"})
    run.journal.served.update(base.cobs)
    run.run()
    assert run.told("lends") == ["rolling lends to b", "rolling lends to a"]
    settled(run)


# --- fresh knowledge


def test_a_member_that_died_unnoticed_is_found_before_anything_goes_out() -> None:
    """Nothing goes out on the word of the journal."""
    run = rolled(webs(1), webs(1))
    run.change = rolled(webs(1), webs(2)).change
    run.real[CobId("d/app")] = "broken"
    run.fails = {CobId("d/app")}
    run.run()
    assert run.told("lends") == []
    assert run.why("a/app") == "a/app limit rolling d/app, d/app failed"


def test_a_check_holds_for_as_long_as_it_is_trusted() -> None:
    """Here for no time at all: each departure has its own round, which counts however long."""
    for trust_s, checks in ((60.0, 1), (0.0, 4)):
        run = rolled(webs(1, trust_s=trust_s), webs(2, trust_s=trust_s))
        run.begin()
        while run.jobs:
            run.now_s += 1.0
            run.end(run.jobs[0])
        rounds = [text for text in run.told("check") if text == "d/app is up (check)"]
        assert len(rounds) == checks + 1  # and once when it is home
        settled(run)


def test_after_an_interrupt_nobody_waits_for_room_that_is_there() -> None:
    """The slot would have been lent after the checks, and nothing is begun any more."""
    run = rolled(webs(1), webs(2))
    run.begin()
    run.give(Halt())
    run.finish()
    assert run.told("lends") == []
    assert run.why("a/app") == "a/app halted"


def test_the_run_says_how_old_a_check_may_be_where_the_budget_does_not() -> None:
    """`--trust`."""
    run = rolled(webs(1), webs(2), settings=EngineSettings(trust_s=0.0))
    run.begin()
    while run.jobs:
        run.now_s += 1.0
        run.end(run.jobs[0])
    assert len([text for text in run.lines if text == "d/app is up (check)"]) == 5


def test_a_run_in_which_nothing_goes_out_checks_nothing() -> None:
    """Neither one without a change nor one that reloads."""
    run = rolled(webs(1), webs(1))
    run.run()
    assert run.told("check") == []
    run = rolled(webs(1, kind=RELOADED), webs(2, kind=RELOADED))
    run.run()
    assert len(run.told(" check")) == 4
    assert run.told("(check)") == [f"{host}/app is outdated (check)" for host in "abcd"]


def test_a_slot_of_which_nothing_has_gone_out_is_taken_back_when_another_is_found_out() -> None:
    """What `a` waited for comes back; while `b` is away nobody goes."""
    run = rolled(waiting(1), waiting(2))
    run.begin()
    run.until("y/client up -> down")
    assert run.engine.slots() == {("rolling", "a")}
    assert run.vanish("b")[0] == "rolling has back a"
    run.finish()
    assert run.told("app outdated -> down") == []
    assert run.why("c/app") == "c/app limit rolling b/app, b/app unreachable b"
    run.come_back("b")
    run.finish()
    settled(run)


def waiting(version: int) -> Graph:
    """Make servers of which the first waits for its client before it goes down."""
    needs = ["a/app outdated>down y/client down"]
    graph = webs(1, "a b c", *needs, more={"y/client": SIMPLE})
    return of(version, graph, "a/app b/app c/app")


def test_a_slot_of_another_unit_alone_is_used_by_whose_turn_it_is() -> None:
    """The configuration on `a` serves all the while; only the server on `b` goes out for it."""

    def made(version: int) -> Graph:
        needs = ["a/conf outdated>* b/app down", "b/app *>up a/conf up"]
        budgets = (budget_of("a/conf b/app"),)
        graph = webs(1, "b", *needs, more={"a/conf": RELOADED}, budgets=budgets)
        return of(version, graph, "a/conf")

    run = rolled(made(1), made(2))
    run.run()
    steps = [text.partition(" [")[0] for text in run.told("->")]
    assert steps == ["b/app up -> down", "a/conf outdated -> up", "b/app down -> up"]
    assert run.told("rolling lends") == ["rolling lends to b"]
    settled(run)


def test_a_host_that_vanishes_with_a_slot_keeps_it() -> None:
    """Something of it has moved: it owes the way home, also to the next run."""
    run = rolled(webs(1), webs(2))
    run.begin()
    run.until("a/app outdated -> down")
    run.vanish("a")
    run.finish()
    assert run.engine.slots() == {("rolling", "a")}
    assert run.told("lends") == ["rolling lends to a"]
    assert run.why("b/app") == "b/app limit rolling a/app, a/app unreachable a"
    run.dead.clear()
    run.run()
    assert run.told("lends") == [f"rolling lends to {host}" for host in "abcd"]
    settled(run)


# --- what may not move


def test_members_that_may_not_move_count_and_are_checked() -> None:
    """`--limit`: the others of the bound are looked at, and stay."""
    run = rolled(webs(1), webs(1))
    run.change = rolled(webs(1), webs(2)).change
    only = {CobId("a/app")}
    graph = run.change.merged()
    change = replace(run.change.changeover(), hosts=frozenset("a"), stay=frozenset("bcd"))
    run.options = {"movable": only, "change": change}
    run.run()
    assert sorted(run.told("check")[:4]) == [f"{cob} check" for cob in graph.cobs]
    assert run.told(*OUTER) == one_by_one(
        "a", steps=("a switched", "a/app outdated -> down", "a/app down -> up")
    )


def test_hosts_that_are_given_up_are_in_no_count() -> None:
    """`forget --host`: their members take no room and need no slot."""
    lending = Lending(given_up=frozenset("b"))
    run = rolled(webs(1), webs(2), lending=lending)
    run.dead = {"b"}
    run.run()
    assert run.told("lends") == [f"rolling lends to {host}" for host in "acd"]


def test_bounds_edited_with_the_release_are_the_goals() -> None:
    """And a budget that the goal has no more holds with its old words until the end."""
    run = rolled(webs(1), webs(2, count=4))
    run.run()
    assert run.told("lends")[:4] == [f"rolling lends to {host}" for host in "abcd"]
    run = rolled(webs(1, count=2), webs(2, budgets=()))
    run.run()
    assert run.told("lends", "back")[:3] == [
        "rolling lends to a",
        "rolling lends to b",
        "rolling has back a",
    ]
    settled(run)


def test_a_host_that_vanishes_before_its_switch_stays_in_its_base() -> None:
    """Nothing is begun on it; when it answers again it goes over."""
    base = graph_of("a/old b/old b/app")
    goal = of(2, graph_of("b/app"), "b/app")
    order = ((("a",), ()), (("b",), (0,)))
    run = rolled(base, goal, order=order)
    run.begin()
    assert run.vanish("b") == ["b/old is unknown (transition)"]
    run.finish()
    assert run.told("switched") == ["a switched"]
    assert run.why("b/app") == "b/app unreachable b"
    run.come_back("b")
    run.finish()
    assert run.told("switched") == ["a switched", "b switched"]
    settled(run)


def test_a_new_host_that_vanishes_and_returns_before_its_switch_is_looked_at_again() -> None:
    """Though nothing is there to be checked."""
    run = rolled(graph_of("a/old"), graph_of("b/app"), order=((("a",), ()), (("b",), (0,))))
    run.begin()
    run.vanish("b")
    run.finish()
    assert run.told("switched") == ["a switched"]
    run.come_back("b")
    run.finish()
    assert run.told("switched") == ["a switched", "b switched"]
    settled(run)


def test_a_host_that_vanishes_while_it_reloads_is_out() -> None:
    """Nobody knows whether it serves: the next one waits."""
    base, goal = webs(1, "a b"), webs(2, "a b")
    kinds = {CobId("b/app"): RELOADED}
    base, goal = (
        replace(it, cobs={c: replace(x, type=kinds.get(c, x.type)) for c, x in it.cobs.items()})
        for it in (base, goal)
    )
    run = rolled(base, goal)
    run.begin()
    run.until("b/app outdated -> up")
    run.vanish("b")
    run.finish()
    assert run.why("a/app") == "a/app limit rolling b/app, b/app unreachable b"
