"""Why a limit has no room: the cause is named, more room advised only where it would help."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import Halt, WaitKind
from cobweb.generation import switching_order
from cobweb.model import Budget, CobId, CobType, Graph, Unit, host_of
from tests.support.graphs import SIMPLE, budget_of, graph_of
from tests.support.rollout import Change, Journal, Rollout
from tests.support.webs import RELOADED, RESTARTED, STOPPED, of, rolled
from tests.support.words import after, requires, stops

KINDS = (RESTARTED, STOPPED, RELOADED)
APPS, FRONTS = "h2/app h3/app", "h4/front h5/front"
DB = CobId("h1/db")
WHEN = st.sampled_from(["*>up", "outdated>*"])
ASKED = ((), ("up",), ("down",), ("down",))


def tiers(
    *needs: str, apps: CobType = RESTARTED, fronts: CobType = RESTARTED, count: int = 1
) -> Graph:
    """Make a database, applications that need it, and fronts that need all of these."""
    on_db = [f"{app} *>up {DB} up" for app in APPS.split()]
    on_apps = [f"{front} *>up {app} up" for front in FRONTS.split() for app in APPS.split()]
    kinds = {
        DB: SIMPLE,
        **dict.fromkeys(APPS.split(), apps),
        **dict.fromkeys(FRONTS.split(), fronts),
    }
    budgets = (budget_of(APPS, count, name="apps"), budget_of(FRONTS, name="fronts"))
    return graph_of(kinds, *(needs or (*on_db, *on_apps)), budgets=budgets)


def found(graph: Graph, state: str = "outdated", **states: str) -> Rollout:
    """Return a first run, of which nothing is known before its checks; `states` are by name."""
    real = {cob: states.get(cob.partition("/")[2], state) for cob in graph.cobs}
    return Rollout(Change(base=graph, goal=graph), real, journal=Journal())


@pytest.mark.parametrize("kind", KINDS)
def test_a_tier_above_one_that_cannot_go_names_what_failed_below(kind: CobType) -> None:
    """Both applications would go one after the other if their database had not failed."""
    run = found(tiers(apps=kind), db="down")
    run.fails = {DB}
    run.run()
    for cob in (*APPS.split(), *FRONTS.split()):
        chain = run.engine.chain(CobId(cob))
        assert (chain[-1].cob, chain[-1].kind) == (DB, WaitKind.FAILED)


def test_the_chain_leads_through_the_tier_between() -> None:
    run = found(tiers(), db="down")
    run.fails = {DB}
    run.run()
    assert run.why("h5/front") == "h5/front lock h2/app, h2/app lock h1/db, h1/db failed"


def test_a_host_out_of_reach_below_is_named_as_well() -> None:
    run = found(tiers(), db="down")
    run.dead = {"h1"}
    run.run()
    assert run.why("h5/front").endswith("h2/app lock h1/db, h1/db unreachable h1")


def test_one_of_the_tier_itself_that_failed_is_named() -> None:
    run = found(tiers())
    run.fails = {CobId("h2/app")}
    run.run()
    assert run.why("h4/front") == "h4/front lock h2/app, h2/app failed"


def test_who_takes_the_room_for_good_comes_before_a_limit_that_is_too_small() -> None:
    """The front wants both down at once; with room for two the third, which failed, has one."""
    graph = tiers(*(f"h4/front outdated>* {app} down" for app in APPS.split()))
    broken = {CobId("h6/app"): replace(graph.cobs[CobId("h2/app")], id=CobId("h6/app"))}
    apps = budget_of(f"{APPS} h6/app", name="apps")
    graph = replace(graph, cobs={**graph.cobs, **broken}, budgets=(apps, graph.budgets[1]))
    real = {cob: "outdated" if cob == "h4/front" else "up" for cob in graph.cobs}
    run = Rollout(Change(base=graph, goal=graph), real | {CobId("h6/app"): "outdated"})
    run.fails = {CobId("h6/app")}
    run.run()
    assert run.why("h4/front") == "h4/front limit apps h6/app, h6/app failed"


def test_more_room_is_advised_where_units_have_to_be_out_at_once() -> None:
    graph = tiers(*(f"h4/front outdated>* {app} down" for app in APPS.split()))
    run = found(graph, "up", front="outdated")
    run.run()
    (link,) = run.engine.chain(CobId("h4/front"))
    assert (link.kind, link.detail, link.together) == (WaitKind.LIMIT, "apps", ("h2", "h3"))


def test_limits_of_racks_and_of_hosts_that_keep_each_other_from_going_are_named() -> None:
    """A rack goes as a whole, and its hosts have to go one by one."""
    cobs = [CobId(f"h{at}/app") for at in (1, 2, 3)]
    base = graph_of(dict.fromkeys(cobs, RESTARTED), budgets=(budget_of(" ".join(cobs)),))
    rack = Unit(name="r1", members=frozenset(cobs[:2]))
    base = replace(base, budgets=(*base.budgets, Budget(name="racks", units=(rack,))))
    new = {cob: replace(it, spec={"v": 2}) for cob, it in base.cobs.items()}
    run = Rollout(Change(base=base, goal=replace(base, cobs=new)), dict.fromkeys(cobs, "up"))
    run.run()
    assert run.engine.unsettled() == tuple(cobs[:2])
    for cob in cobs[:2]:
        (link,) = run.engine.chain(cob)
        assert (link.kind, link.detail) == (WaitKind.LIMIT, "rolling")
        assert link.together == ("h1", "h2")


def test_a_host_whose_turn_comes_after_a_removal_names_what_is_to_be_removed() -> None:
    """A server moves, and its clients get other names: there is no order with room for one."""
    base = graph_of(
        "a/server b/old c/old",
        *(it for host in "bc" for it in requires(f"{host}/old", "a/server")),
        budgets=(budget_of("b/old c/old"),),
    )
    goal = graph_of(
        "b/new c/new d/server",
        *(it for host in "bc" for it in requires(f"{host}/new", "d/server")),
        budgets=(budget_of("b/new c/new"),),
    )
    order = tuple((it.hosts, it.after) for it in switching_order(base, set(base.cobs)).steps)
    run = Rollout(Change(base=base, goal=goal, order=order), dict.fromkeys(base.cobs, "up"))
    run.run()
    for cob in ("b/old", "c/old"):
        first = run.engine.chain(CobId(cob))[0]
        assert (first.kind, first.on, first.state) == (WaitKind.LOCK, "a/server", "down")


def test_a_host_whose_turn_comes_after_one_without_room_names_who_takes_that() -> None:
    """What was to be removed there is gone, and a third server, which failed, has the only room."""
    apps = [CobId(f"{host}/app") for host in "abc"]
    kinds: dict[str, CobType] = {**dict.fromkeys(apps, RESTARTED), "a/old": SIMPLE}
    base = graph_of(kinds, budgets=(budget_of(" ".join(apps)),))
    new = {cob: replace(base.cobs[cob], spec={"v": 2}) for cob in apps}
    change = Change(base=base, goal=replace(base, cobs=new), order=((("a",), ()), (("b",), (0,))))
    run = Rollout(change, {**dict.fromkeys(base.cobs, "up"), apps[2]: "down"})
    run.journal.served |= set(apps)
    run.fails = {apps[2]}
    run.run()
    assert run.real[CobId("a/old")] == "down"
    assert run.engine.chain(apps[1])[-1].cob == apps[2]
    assert CobId("a/old") not in {it.on for it in run.engine.chain(apps[1])}


def test_a_gate_behind_a_canary_that_did_not_go_names_the_canary() -> None:
    """Both gates are asked before the first server goes down, and neither holds."""
    apps, gates = ("a/app", "b/app"), ("a/gate", "b/gate")
    needs = [*stops("a/conf", "a/app"), *stops("b/conf", "b/app")]
    for app in apps:
        for gate in gates:
            needs += [*after(app, gate), f"{app} up>* {gate} up"]
    kinds = {**dict.fromkeys(apps, STOPPED), **dict.fromkeys((*gates, "a/conf", "b/conf"), SIMPLE)}
    graph = graph_of(kinds, *needs, budgets=(budget_of(" ".join(apps), first=1),))
    cobs = {CobId(gate): replace(graph.cobs[CobId(gate)], trust_s=0.0) for gate in gates}
    graph = replace(graph, cobs={**graph.cobs, **cobs})
    base, goal = (of(version, graph, "a/conf b/conf") for version in (1, 2))
    run = rolled(base, goal, returns=True)
    run.real |= dict.fromkeys(map(CobId, gates), "down")
    run.fails = {CobId("a/gate")}
    run.run()
    assert run.real[CobId("a/app")] == "up"
    why = "a/conf, a/conf lock a/app, a/app lock a/gate, a/gate failed"
    assert run.why("b/gate") == f"b/gate limit rolling, canary {why}"


@st.composite
def runs(draw: st.DrawFn) -> tuple[Graph, dict[CobId, str], set[CobId], set[str]]:
    """Draw tiers with needs, in which states all is, what fails, and which hosts are dead."""
    needs = [f"{app} {draw(WHEN)} {DB} up" for app in APPS.split() if draw(st.booleans())]
    for front in FRONTS.split():
        when = draw(WHEN)
        for app in APPS.split():
            needs += [f"{front} {when} {app} {it}" for it in draw(st.sampled_from(ASKED))]
    apps, fronts = draw(st.sampled_from(KINDS)), draw(st.sampled_from(KINDS))
    graph = tiers(*needs, f"h4/front down>up {DB} up", apps=apps, fronts=fronts)
    real = {c: draw(st.sampled_from(["outdated", "outdated", "up", "down"])) for c in graph.cobs}
    trouble = draw(st.sets(st.sampled_from(sorted(graph.cobs)), max_size=1))
    if draw(st.booleans()):
        return graph, real, trouble, set()
    return graph, real, set(), {host_of(cob) for cob in trouble}


@given(drawn=runs())
def test_with_the_room_that_is_advised_the_limit_is_not_in_the_way_any_more(
    drawn: tuple[Graph, dict[CobId, str], set[CobId], set[str]],
) -> None:
    graph, real, fails, dead = drawn
    run = Rollout(Change(base=graph, goal=graph), real, journal=Journal())
    run.fails, run.dead = fails, dead
    run.run()
    ends = {cob: run.engine.chain(cob)[-1] for cob in run.engine.unsettled()}
    failed = {it.cob for it in ends.values() if it.kind is WaitKind.FAILED}
    for cob, link in ends.items():
        if not link.together:
            continue
        budgets = tuple(
            replace(it, count=len(link.together)) if it.name == link.detail else it
            for it in graph.budgets
        )
        roomy = replace(graph, budgets=budgets)
        again = Rollout(Change(base=roomy, goal=roomy), real, journal=Journal())
        again.fails, again.dead = failed, set(dead)  # what was not tried cannot be known to fail
        again.run()
        assert cob not in again.engine.unsettled()


def test_who_is_asked_and_failed_is_named_before_more_room() -> None:
    """Both applications are to be down at once, and one cannot be before the database is."""
    asked = [f"h4/front outdated>* {app} down" for app in APPS.split()]
    run = found(tiers(*asked, f"h2/app *>down {DB} down"), "up", front="outdated", db="outdated")
    run.fails = {DB}
    run.run()
    assert run.why("h4/front") == "h4/front lock h1/db, h1/db failed"


def test_what_waits_for_room_that_would_come_back_was_not_begun_after_an_interrupt() -> None:
    run = found(tiers())
    run.begin()
    run.until("h2/app outdated -> up [h1/db up]")
    assert run.engine.rooms(CobId("h2/app")) == (("apps", "h2", True),)
    assert run.engine.rooms(CobId("h3/app")) == (("apps", "h3", False),)
    assert run.engine.rooms(DB) == ()
    run.give(Halt())
    run.finish()
    (link,) = run.engine.chain(CobId("h3/app"))
    assert (link.cob, link.kind) == ("h3/app", WaitKind.HALTED)
