"""What a legal step is: needs, the closure of locks, and room in budgets (sections 5 and 5b)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cobweb.engine import Moves, Problem, Situation, Standing
from cobweb.model import Budget, CobId, CobType, Graph, Limit, LimitGroup, State, Unit
from tests.support.graphs import SIMPLE, graph_of, type_of
from tests.support.problems import RESTARTED, WORK, problem_of

WEB = {f"h{at}/web": WORK for at in range(4)}
UP = dict.fromkeys(WEB, "up")


def budget(*cobs: str, name: str = "rolling", **words: object) -> Budget:
    """Make a budget of one unit per object, or of the objects joined by a blank."""
    units = [Unit(name=text.split("/", maxsplit=1)[0], members=members(text)) for text in cobs]
    return Budget(name=name, units=tuple(units), **words)  # type: ignore[arg-type]


def members(text: str) -> frozenset[CobId]:
    """Return ids separated by blanks."""
    return frozenset(CobId(cob) for cob in text.split())


def domains(made: Budget, *names: str) -> Budget:
    """Give each unit a domain."""
    pairs = zip(made.units, names, strict=True)
    return replace(made, units=tuple(replace(unit, domains=(name,)) for unit, name in pairs))


def legal(
    graph: Graph, states: Mapping[str, State], step: str, standing: Standing | None = None
) -> bool:
    """Say whether a step like `h0/web up>down` may be taken."""
    return legal_in(problem_of(graph, states, standing=standing), step)


def legal_in(problem: Problem, step: str, *before: str) -> bool:
    """Say whether a step may be taken after some others."""
    moves = Moves(problem)
    now = moves.start()
    for each in before:
        now = taken(moves, now, each)
    return any(parts_of(step) == (it.cob, it.source, it.dest) for it in all_legal(moves, now))


def all_legal(moves: Moves, now: Situation) -> Iterator[Any]:
    """Yield all legal steps."""
    room = moves.room(now)
    for at, operators in enumerate(moves.operators):
        for operator in operators.get(now.states[at], ()):
            if moves.allows(now, operator, room):
                yield operator


def taken(moves: Moves, now: Situation, step: str) -> Situation:
    """Return what is after a step, which must be legal."""
    cob, source, dest = parts_of(step)
    found = next(
        it for it in all_legal(moves, now) if (it.cob, it.source, it.dest) == (cob, source, dest)
    )
    return moves.after(now, found)


def parts_of(step: str) -> tuple[CobId, State, State]:
    """Read a step."""
    cob, _, pair = step.partition(" ")
    source, _, dest = pair.partition(">")
    return CobId(cob), source, dest


def web(
    *budgets: Budget, kinds: dict[str, CobType] | None = None, needs: Sequence[str] = ()
) -> Graph:
    """Make four web servers, or others, with budgets."""
    return replace(graph_of(kinds or WEB, *needs), budgets=budgets)


def test_a_step_leaves_the_state_that_its_object_is_in() -> None:
    """And an object may not move if it is fixed, unknown, or of no part."""
    graph = web()
    assert legal(graph, UP, "h0/web up>down")
    assert not legal(graph, UP, "h0/web down>up")
    assert not legal(graph, UP | {"h0/web": "unknown"}, "h0/web up>down")
    problem = problem_of(graph, UP, fixed=["h0/web"])
    assert not legal_in(problem, "h0/web up>down")
    moves = Moves(problem, [CobId("h1/web")])
    assert {it.cob for it in all_legal(moves, moves.start())} == {CobId("h1/web")}


def test_who_is_chosen_may_be_asked_which_steps_it_may_take() -> None:
    """A canary holds back steps of others, or single steps."""
    problem = problem_of(web(), UP)
    held = replace(problem, may=lambda cob, step: cob != "h0/web" or step.dest != "down")
    assert not legal_in(held, "h0/web up>down")
    assert legal_in(held, "h1/web up>down")


def test_a_limit_in_flight_matters_only_where_it_allows_nothing() -> None:
    """Sequential steps are one in flight at a time."""
    for bound, allowed in ((0, False), (1, True)):
        group = LimitGroup(name="", members=members("h0/web"), bound=bound)
        limit = Limit(name="l", groups=(group,), dest="down")
        graph = replace(web(), limits=(limit,))
        assert legal(graph, UP, "h0/web up>down") == allowed
        assert legal(graph, UP | {"h0/web": "outdated"}, "h0/web outdated>up")
        assert legal(graph, UP, "h1/web up>down")


def test_one_may_be_out_and_a_repair_needs_no_room() -> None:
    """The second one waits, and what is out comes home at once."""
    graph = web(budget(*WEB))
    one = UP | {"h0/web": "down"}
    known = Standing(counting={"rolling": [CobId("h0/web")]})
    assert legal(graph, UP, "h1/web up>down")
    assert not legal(graph, one, "h1/web up>down", known)
    assert legal(graph, one, "h0/web down>up", known)
    assert legal(graph, one, "h1/web up>down"), "what never served is not missed"


def test_who_comes_to_serve_counts_from_then_on() -> None:
    """First it is installed without room; when it leaves again it takes some."""
    problem = problem_of(web(budget(*WEB)), UP | {"h0/web": "down"})
    up, down = "h0/web down>up", "h0/web up>down"
    assert legal_in(problem, "h1/web up>down", up)
    assert not legal_in(problem, "h1/web up>down", up, down)


def test_a_restart_in_place_needs_room() -> None:
    """Where type or step says that it interrupts; nothing is out afterwards."""
    kinds = dict.fromkeys(WEB, RESTARTED)
    graph = web(budget(*WEB), kinds=kinds)
    states = UP | {"h0/web": "outdated", "h1/web": "down"}
    known = Standing(counting={"rolling": [CobId("h1/web")]})
    assert not legal(graph, states, "h0/web outdated>up", known)
    assert legal(graph, states | {"h1/web": "up"}, "h0/web outdated>up", known)
    assert legal(web(budget(*WEB)), states, "h0/web outdated>up", known), "reloaded, not restarted"


def test_who_only_new_content_made_outdated_needs_room_whatever_its_type_says() -> None:
    """It serves still, and its first step takes it out."""
    kinds = dict.fromkeys(WEB, SIMPLE)
    graph = web(budget(*WEB), kinds=kinds)
    states = UP | {"h0/web": "outdated", "h1/web": "down"}
    fresh = Standing(counting={"rolling": [CobId("h1/web")]}, serving={CobId("h0/web"): "outdated"})
    assert not legal(graph, states, "h0/web outdated>up", fresh)
    assert legal(graph, states, "h0/web outdated>up", replace(fresh, serving={}))
    reloaded = web(budget(*WEB))
    assert not legal(reloaded, states, "h0/web outdated>up", fresh)


def test_a_unit_that_is_out_needs_no_second_slot() -> None:
    """Both objects of a host may be out at the same time, and a new one counts with the old."""
    kinds = {f"h{at}/{name}": WORK for at in range(2) for name in "ab"}
    graph = web(budget("h0/a h0/b", "h1/a h1/b"), kinds=kinds)
    problem = problem_of(graph, dict.fromkeys(kinds, "up") | {"h0/b": "down"})
    assert legal_in(problem, "h0/a up>down", "h0/b down>up", "h0/b up>down")
    assert not legal_in(problem, "h1/a up>down", "h0/a up>down")
    away, back = "h0/a up>down", "h0/a down>up"
    assert not legal_in(problem, "h1/a up>down", away, back), "h0/b counts, for h0/a went out"
    assert legal_in(problem, "h1/a up>down", away, back, "h0/b down>up")


def test_bounds_hold_by_domain_and_a_percentage_together_besides() -> None:
    """Two racks, one of each may be out; of four, 25% are one."""
    racks = domains(budget(*WEB), "r1", "r1", "r2", "r2")
    out = UP | {"h0/web": "down"}
    known = Standing(counting={"rolling": [CobId("h0/web")]})
    assert not legal(web(racks), out, "h1/web up>down", known)
    assert legal(web(racks), out, "h2/web up>down", known)
    quarter = replace(racks, percent=25)
    assert not legal(web(quarter), out, "h2/web up>down", known)
    assert legal(web(replace(racks, percent=50)), out, "h2/web up>down", known)


def test_a_percentage_is_of_those_that_should_serve() -> None:
    """Who is leaving is in no population, and out no more when it is gone."""
    half = budget(*WEB, percent=50)
    states = UP | {"h3/web": "down", "h2/web": "down"}
    counted = [CobId(f"h{at}/web") for at in (2, 3)]
    known = Standing(counting={"rolling": counted})
    assert not legal(web(half), states, "h0/web up>down", known)
    leaving = replace(known, leaving=[CobId("h3/web")])
    assert not legal(web(half), states, "h0/web up>down", leaving), "three are left: 50% is one"
    assert legal(web(replace(half, percent=67)), states, "h0/web up>down", leaving)
    assert not legal(web(half), states, "h3/web down>up", leaving), "gone for good"


def test_a_debt_takes_room() -> None:
    """A unit that was not home when its run ended is out, whatever its members do."""
    owed = Standing(owed=[("rolling", "h0")])
    assert not legal(web(budget(*WEB)), UP, "h1/web up>down", owed)
    assert legal(web(budget(*WEB)), UP, "h0/web up>down", owed)


def test_a_group_may_stand_in_the_place_of_serving() -> None:
    """Who is in none of its states is out."""
    kind = replace(
        type_of("down joining up", "down>joining joining>up up>joining joining>down", "up", "down"),
        groups={"near": ("joining", "up")},
    )
    graph = web(budget(*WEB, group="near"), kinds=dict.fromkeys(WEB, kind))
    away = UP | {"h0/web": "down", "h1/web": "joining"}
    known = Standing(counting={"rolling": [CobId("h0/web")]})
    assert legal(graph, away, "h2/web up>joining", known)
    assert not legal(graph, away, "h1/web joining>down", known)


NEEDS_B = "x/a down>up x/b up"


@pytest.mark.parametrize(
    ("states", "needs"),
    [
        ("down up up", [NEEDS_B]),
        ("down up up", [NEEDS_B, "x/b up x/c up"]),
        ("down up up", [NEEDS_B, "x/a down>up x/c up", "x/b up x/c up"]),
    ],
)
def test_what_can_be_locked_one_after_the_other_is_enough(states: str, needs: list[str]) -> None:
    """A lock may depend on others in turn."""
    graph = graph_of("x/a x/b x/c", *needs)
    assert legal(
        graph, dict(zip(("x/a", "x/b", "x/c"), states.split(), strict=True)), "x/a down>up"
    )


@pytest.mark.parametrize(
    ("states", "needs"),
    [
        ("down down up", [NEEDS_B]),
        ("down up down", [NEEDS_B, "x/b up x/c up"]),
        ("down up up", [NEEDS_B, "x/b up x/a down"]),
        ("down up up", [NEEDS_B, "x/b up x/c up", "x/c up x/b up"]),
    ],
)
def test_what_cannot_be_locked_holds_a_step_back(states: str, needs: list[str]) -> None:
    """It is elsewhere, depends on what is, on the one that moves, or on itself."""
    graph = graph_of("x/a x/b x/c", *needs)
    typed = dict(zip(("x/a", "x/b", "x/c"), states.split(), strict=True))
    assert not legal(graph, typed, "x/a down>up")
