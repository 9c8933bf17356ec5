"""Look-ahead finds the cheapest order where there is one, and says so where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import (
    GaveUp,
    NoOrder,
    Order,
    Problem,
    Standing,
    by_cob,
    explain,
    find_order,
    parts,
)
from cobweb.model import Budget, Cob, CobId, Graph, Need, State, Unit, name_of
from tests.support.graphs import SIMPLE, graph_of
from tests.support.problems import (
    KINDS,
    MOUNT,
    RELOADED,
    WORK,
    Drawn,
    cost,
    drawn,
    problem_of,
    world_of,
)
from tests.support.words import after, requires, stops

randoms = st.randoms(use_true_random=False)


@pytest.mark.parametrize("kind", KINDS)
@given(random=randoms)
def test_look_ahead_finds_what_a_search_of_everything_finds(kind: str, random: Random) -> None:
    """The order takes the fewest objects out, then the fewest steps; no order is no order."""
    system = drawn(kind, random)
    assert cost(find_order(system.problem)) == system.cheapest()


@pytest.mark.parametrize("kind", KINDS)
@given(random=randoms)
def test_parts_are_searched_alone(kind: str, random: Random) -> None:
    """What they cost adds up, and where one has no order, the whole has none."""
    system = drawn(kind, random)
    found = [find_order(system.problem, part) for part in parts(system.problem)]
    whole = system.cheapest()
    if any(isinstance(each, NoOrder) for each in found):
        assert whole is None
    else:
        costs = [it for each in found if (it := cost(each)) is not None]
        assert whole == (sum(outs for outs, _ in costs), sum(steps for _, steps in costs))


@pytest.mark.gate("a property over random worlds, beside a search of all")
@pytest.mark.parametrize("kind", KINDS)
@given(random=randoms)
def test_a_proof_leaves_no_order_and_has_nothing_to_spare(kind: str, random: Random) -> None:
    """With its needs and budgets alone there is no order; without any one of them there is."""
    systems = (drawn(kind, random).problem for _ in range(6))
    problem = next((it for it in systems if isinstance(find_order(it), NoOrder)), None)
    if problem is None:
        return
    proof = explain(problem)
    assert proof.smallest
    assert only(problem, proof.needs, proof.budgets).cheapest() is None
    for need in proof.needs:
        rest = [each for each in proof.needs if each is not need]
        assert only(problem, rest, proof.budgets).cheapest() is not None
    for budget in proof.budgets:
        others = [each for each in proof.budgets if each is not budget]
        assert only(problem, proof.needs, others).cheapest() is not None


def needs_between(cob: str, on: str) -> list[str]:
    """Return every need of one working object on another one, without `*`."""
    steps = [f"{step.source}>{step.dest}" for step in WORK.transitions]
    return [f"{cob} {when} {on} {state}" for when in (*steps, "up") for state in WORK.states]


@pytest.mark.gate("all of them")
def test_every_world_of_two_objects_that_need_each_other_once() -> None:
    """All needs, one each way, from all states, with one of the two out at most."""
    cobs = [CobId("s/a"), CobId("s/b")]
    units = tuple(Unit(name=cob, members=frozenset([cob])) for cob in cobs)
    for one, other in product(needs_between("s/a", "s/b"), needs_between("s/b", "s/a")):
        graph = replace(
            graph_of(dict.fromkeys(map(str, cobs), WORK), one, other),
            budgets=(Budget(name="pair", units=units),),
        )
        for states in product(WORK.states, repeat=2):
            problem = problem_of(graph, dict(zip(cobs, states, strict=True)))
            system = Drawn(problem, world_of(problem))
            assert cost(find_order(problem)) == system.cheapest(), (one, other, states)


BRICK = (
    graph_of(
        "s/brick s/daemon s/package s/other",
        *requires("s/daemon", "s/package"),
        *after("s/brick", "s/daemon"),
        "s/brick up>down s/daemon up",
    ),
    dict.fromkeys(("s/brick", "s/daemon", "s/package", "s/other"), "up"),
    dict.fromkeys(("s/brick", "s/daemon", "s/package"), "down"),
    "brick:down daemon:down package:down",
)
JOURNAL = (
    graph_of(
        {"s/app": SIMPLE, "s/fs": MOUNT, "s/journal": SIMPLE},
        "s/app *>up s/fs mounted",
        *requires("s/app", "s/journal"),
        "s/journal *>up s/fs data",
        "s/journal up s/fs data",
    ),
    {"s/app": "down", "s/fs": "absent", "s/journal": "down"},
    None,
    "fs:formatted fs:mounted journal:up app:up",
)
RELOAD = (
    graph_of({"s/db": RELOADED, "s/app": SIMPLE}, *requires("s/app", "s/db")),
    {"s/app": "up", "s/db": "outdated"},
    None,
    "db:reloaded db:up",
)
TURNED = (
    graph_of("s/a s/b", "s/a down>up s/b down", "s/b up>down s/a down"),
    {"s/a": "down", "s/b": "up"},
    None,
    "b:down a:up b:up",
)
SITES = {"brick": BRICK, "journal": JOURNAL, "reload": RELOAD, "turned": TURNED}


@pytest.mark.parametrize("name", SITES)
def test_sites_that_the_rules_alone_do_not_settle_have_a_short_order(name: str) -> None:
    """Leaving in three levels, hold-and-wait through a group, a reload instead of a stop."""
    graph, states, goals, expected = SITES[name]
    found = find_order(problem_of(graph, states, goals))
    assert isinstance(found, Order)
    assert said(found) == expected


def said(order: Order) -> str:
    """Return an order as text."""
    return " ".join(f"{name_of(cob)}:{step.dest}" for cob, step in order.steps)


def test_who_only_makes_way_comes_back() -> None:
    """An object without a goal ends where it began."""
    graph = graph_of("s/a s/b", "s/a *>up s/b down")
    found = find_order(problem_of(graph, {"s/a": "down", "s/b": "up"}, {"s/a": "up"}))
    assert isinstance(found, Order)
    assert said(found) == "b:down a:up b:up"
    assert found.outs == 1


def web(count: int, bound: int) -> tuple[Graph, dict[CobId, State]]:
    """Make servers whose changed configuration stops them, and a budget over them."""
    hosts = [f"h{number:02}" for number in range(count)]
    graph = graph_of(
        {f"{host}/{name}": WORK for host in hosts for name in ("conf", "web")},
        *(need for host in hosts for need in stops(f"{host}/conf", f"{host}/web")),
    )
    units = tuple(Unit(name=host, members=frozenset([CobId(f"{host}/web")])) for host in hosts)
    states = {cob: "outdated" if cob.endswith("conf") else "up" for cob in graph.cobs}
    return replace(graph, budgets=(Budget(name="rolling", units=units, count=bound),)), states


def test_alike_hosts_under_a_budget_cost_no_more_than_their_steps() -> None:
    """Sixty objects, and nothing is looked at that is not taken."""
    graph, states = web(30, 2)
    problem = problem_of(graph, states)
    found = find_order(problem)
    assert isinstance(found, Order)
    assert (found.outs, len(found.steps), found.expanded) == (30, 90, 90)
    assert find_order(problem) == found
    (part,) = parts(problem)
    assert part == tuple(sorted(graph.cobs))


HOSTS = ("h00", "h01", "h02")


def test_who_is_alike_is_counted_also_where_not_all_of_a_unit_may_move() -> None:
    """Each host has an object that stays as it is, whether it counts or may yet count, or not."""
    graph, states = web(3, 1)
    some: list[tuple[list[str], State]] = [
        ([], ""),
        (["h00"], ""),
        ([*HOSTS], ""),
        ([*HOSTS], "down"),
    ]
    for fixed, want in some:
        ids = [CobId(f"{host}/agent") for host in HOSTS]
        agents = {cob: Cob(id=cob, type=WORK, want=want) for cob in ids}
        (rolling,) = graph.budgets
        units = tuple(
            replace(unit, members=unit.members | {CobId(f"{unit.name}/agent")})
            for unit in rolling.units
        )
        bigger = replace(
            graph,
            cobs=dict(sorted({**graph.cobs, **agents}.items())),
            budgets=(
                replace(rolling, units=units),
                replace(rolling, name="twice", units=units * 2),
            ),
        )
        known = states | {cob: "down" if cob[:3] in fixed else "up" for cob in agents}
        problem = problem_of(bigger, known, fixed=sorted(agents))
        settled = replace(problem, goals={**problem.goals, **{cob: known[cob] for cob in agents}})
        assert cost(find_order(settled, graph.cobs)) == Drawn(settled, world_of(settled)).cheapest()
        once = replace(settled, budgets=settled.budgets[:1])
        alone = replace(once, graph=replace(bigger, budgets=bigger.budgets[:1]))
        assert cost(find_order(alone, graph.cobs)) == Drawn(alone, world_of(alone)).cheapest()


def test_room_that_a_debt_takes_for_good_is_named() -> None:
    """The proof names the budget, and what makes the step need it."""
    graph, states = web(2, 1)
    owed = Standing(owed=[("rolling", "h00")])
    problem = problem_of(graph, states | {"h00/conf": "up"}, standing=owed)
    found = find_order(problem)
    assert isinstance(found, NoOrder)
    proof = explain(problem)
    assert [it.name for it in proof.budgets] == ["rolling"]
    assert [str(it) for it in proof.needs] == ["(h01/conf, outdated -> *) <- (h01/web, down)"]
    assert proof.unreached == ()


def test_what_can_never_be_reached_needs_no_search() -> None:
    """Its needs alone are the proof, and it says who does not get where."""
    graph = graph_of("s/a s/b s/c", "s/a *>up s/b up", "s/b *>up s/a up", "s/c *>up s/b up")
    problem = problem_of(graph, dict.fromkeys(graph.cobs, "down"))
    proof = explain(problem, cap=0)
    assert [str(it) for it in proof.needs] == [
        "(s/a, * -> up) <- (s/b, up)",
        "(s/b, * -> up) <- (s/a, up)",
    ]
    assert proof.unreached == (("s/a", "up"), ("s/b", "up"), ("s/c", "up"))


def test_a_bounded_search_says_that_it_knows_nothing() -> None:
    """Nor does an explanation claim that nothing can be spared."""
    graph, states = web(2, 1)
    assert find_order(problem_of(graph, states), cap=3) == GaveUp(expanded=3)
    owed = problem_of(graph, states, standing=Standing(owed=[("rolling", "h00")]))
    proof = explain(owed, cap=1)
    assert not proof.smallest
    assert proof.budgets == graph.budgets


def test_parts_are_joined_by_needs_and_by_room() -> None:
    """Who is where it is wanted joins nobody; who must move, or waits for the same room, does."""
    cobs = "h0/a h1/a h2/a x/db"
    needs = [f"h{at}/a *>up x/db up" for at in range(3)]
    graph = graph_of(cobs, *needs)
    down = dict.fromkeys(("h0/a", "h1/a"), "down") | {"h2/a": "up", "x/db": "up"}
    assert list(parts(problem_of(graph, down))) == [("h0/a",), ("h1/a",)]
    moved = problem_of(graph, down | {"x/db": "down"})
    assert list(parts(moved)) == [("h0/a", "h1/a", "x/db")]
    units = tuple(Unit(name=cob, members=frozenset([CobId(cob)])) for cob in sorted(graph.cobs))
    shared = problem_of(replace(graph, budgets=(Budget(name="b", units=units[:3]),)), down)
    assert list(parts(shared)) == [("h0/a", "h1/a")]
    tied = graph_of(cobs, *needs, "x/db up h2/a up", "x/db * h2/a up", "h2/a up h1/a up")
    assert list(parts(problem_of(tied, down))) == [("h0/a", "h1/a")]
    lost = problem_of(graph, down | {"h0/a": "unknown"}, fixed=["h1/a"])
    assert parts(lost) == ()


def only(problem: Problem, needs: Sequence[Need], budgets: Sequence[Budget]) -> Drawn:
    """Return a problem with some of its needs and budgets alone."""
    graph = replace(problem.graph, needs=tuple(needs), budgets=tuple(budgets))
    less = replace(problem, graph=graph, needs=by_cob(needs), budgets=graph.budgets)
    return Drawn(less, world_of(less))


def test_a_proof_may_touch_on_what_the_search_does_not_look_at() -> None:
    """What an object that cannot move would need for a step of its own is a constant."""
    graph = graph_of("x/a x/b x/c", "x/a *>up x/b up", "x/b *>up x/c up")
    a, b, c = (CobId(f"x/{name}") for name in "abc")
    problem = Problem(
        graph=graph,
        states=dict.fromkeys((a, b, c), "down"),
        needs=by_cob(graph.needs),
        budgets=(),
        goals={a: "up"},
        fixed={b},
    )
    assert isinstance(find_order(problem, [a]), NoOrder)
    assert [str(need) for need in explain(problem, [a]).needs] == ["(x/a, * -> up) <- (x/b, up)"]
