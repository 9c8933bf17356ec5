"""The way through a type is the one that takes the fewest objects out, then the shortest."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import Ways
from cobweb.model import CobId, CobType, Graph, State, Transition, TransitionNeed
from tests.support.graphs import SIMPLE, graph_of, type_of
from tests.support.problems import KINDS, MEMBER, RELOADED, RESTARTED, WORK

A, DB = CobId("x/app"), CobId("x/db")


def way(ways: Ways, cob: CobId, source: State, dest: State) -> str | None:
    """Return a way as text."""
    found = ways.way(cob, source, dest)
    return None if found is None else " ".join(step.dest for step in found)


def test_a_way_that_stops_nobody_comes_before_one_that_does() -> None:
    """Both are two steps long, and the one that stops `app` is declared first."""
    graph = graph_of({A: SIMPLE, DB: RELOADED}, "x/db *>down x/app down")
    assert way(Ways(graph), DB, "outdated", "up") == "reloaded up"


def test_who_is_out_already_is_not_asked_out_a_second_time() -> None:
    """One object asked twice is one object; two objects are two."""
    detour = type_of("a b c up", "a>b b>up a>c c>up", "up")
    types = {"x/s": detour, A: SIMPLE, DB: SIMPLE}
    once = ("x/s a>b x/app down", "x/s b>up x/app down")
    both = graph_of(types, *once, "x/s a>c x/app down", "x/s c>up x/db down")
    assert way(Ways(both), CobId("x/s"), "a", "up") == "b up"
    twice = graph_of(types, "x/s a>b x/app down", "x/s b>up x/db down", "x/s a>c x/app down")
    assert way(Ways(twice), CobId("x/s"), "a", "up") == "c up"


def test_in_the_middle_of_a_way_nobody_knows_who_is_out_already() -> None:
    """By `b` one object would be asked out twice, and not two (docs/engine-limits.md)."""
    types = {"x/s": type_of("s a b up", "s>a a>b b>up a>up", "up"), A: SIMPLE, DB: SIMPLE}
    ways = Ways(
        graph_of(types, *(f"x/s {it} x/app down" for it in ("s>a", "a>b")), "x/s a>up x/db down")
    )
    assert way(ways, CobId("x/s"), "s", "up") == "a up"


def test_an_object_counts_itself_where_it_stops_serving() -> None:
    """A long way along which it serves comes before a short one that takes it out."""
    serving = type_of("old down side new", "old>down down>new old>side side>new", "new")
    kind = type_of("old down a b new", "old>down down>new old>a a>b b>new", "new")
    plain = graph_of({"x/s": kind, "x/t": serving})
    assert way(Ways(plain), CobId("x/s"), "old", "new") == "down new"
    serves = graph_of({"x/s": WORK, "x/t": RESTARTED})
    assert way(Ways(serves), CobId("x/s"), "outdated", "up") == "up"
    assert way(Ways(serves), CobId("x/t"), "outdated", "up") == "up"


def test_where_no_way_leads_there_is_none() -> None:
    """And none is needed to where it is."""
    ways = Ways(graph_of({"x/m": MEMBER}))
    assert ways.way(CobId("x/m"), "in", "broken") is None
    assert ways.way(CobId("x/m"), "in", "in") == ()


def test_objects_whose_needs_look_alike_share_their_ways() -> None:
    """Who is asked makes no difference, only how many are."""
    stops = [f"x{at}/db *>down x{at}/app down" for at in range(3)]
    types = {f"x{at}/{name}": RELOADED for at in range(3) for name in ("app", "db")}
    ways = Ways(graph_of(types, *stops, "x2/db *>down x1/app down"))
    assert ways.steps(CobId("x0/db")) is ways.steps(CobId("x1/db"))
    assert ways.steps(CobId("x0/db")) is not ways.steps(CobId("x2/db"))
    assert ways.steps(CobId("x0/app")) is ways.steps(CobId("x1/app"))


@given(random=st.randoms(use_true_random=False), kind=st.sampled_from(sorted(KINDS)))
def test_no_way_is_cheaper(random: Random, kind: str) -> None:
    """Of all ways without a circle, by objects taken out, length, order of declaration.

    The first step is always that of the best one, and so are all where no way takes the same object
    out twice.
    """
    graph = KINDS[kind](random)
    ways = Ways(graph)
    for cob in graph.cobs.values():
        is_plain = not any(
            takes_out_again(graph, cob.id, it)
            for source in cob.type.states
            for it in simple_ways(graph, cob.id, source)
        )
        for source in cob.type.states:
            for dest in cob.type.states:
                all_ways = [
                    w for w in simple_ways(graph, cob.id, source) if ends(w, source) == dest
                ]
                best = min(all_ways, key=lambda it: price(graph, cob.id, it), default=None)
                found = ways.way(cob.id, source, dest)
                assert (found is None) == (best is None)
                if found is not None and best is not None:
                    if is_plain:
                        assert price(graph, cob.id, found)[:2] <= price(graph, cob.id, best)[:2]
                    assert ways.steps(cob.id)[source].get(dest) == next(iter(best), None)


def ends(steps: tuple[Transition, ...], source: State) -> State:
    """Return where a way leads."""
    return steps[-1].dest if steps else source


def simple_ways(graph: Graph, cob: CobId, source: State) -> Iterator[tuple[Transition, ...]]:
    """Yield all ways from a state that come to no state twice."""
    stack: list[tuple[tuple[Transition, ...], tuple[State, ...]]] = [((), (source,))]
    while stack:
        steps, seen = stack.pop()
        yield steps
        stack.extend(
            ((*steps, step), (*seen, step.dest))
            for step in graph.cobs[cob].type.transitions
            if step.source == seen[-1] and step.dest not in seen
        )


def takes_out_again(graph: Graph, cob: CobId, steps: tuple[Transition, ...]) -> bool:
    """Say whether two steps of a way take the same object out."""
    return sum(price(graph, cob, (it,))[0] for it in steps) > price(graph, cob, steps)[0]


def price(graph: Graph, cob: CobId, steps: tuple[Transition, ...]) -> tuple[int, int, list[int]]:
    """Return what a way costs."""
    kind = graph.cobs[cob].type
    outs: set[CobId] = set()
    for step in steps:
        if kind.serves(step.source) and (step.interrupts or not kind.serves(step.dest)):
            outs.add(cob)
        for need in graph.needs:
            if need.cob != cob or not isinstance(need, TransitionNeed):
                continue
            on = graph.cobs[need.on].type
            serves = any(on.serves(state) for state in on.members(need.state))
            if need.covers(step.source, step.dest) and not serves:
                outs.add(need.on)
    return len(outs), len(steps), [kind.transitions.index(step) for step in steps]


@pytest.mark.gate("a type with very many ways")
def test_a_type_with_countless_ways_is_bounded() -> None:
    """Twelve states, each joined to each: then the first way to get there counts."""
    names = [f"s{number:02}" for number in range(12)]
    pairs = " ".join(f"{x}>{y}" for x in names for y in names if x != y)
    kind = type_of(" ".join(names), pairs, "s11")
    stops = [
        f"x/s {x}>{y} y/a{(5 * i + 7 * j) % 40} down"
        for i, x in enumerate(names)
        for j, y in enumerate(names)
        if y not in (x, "s11")
    ]
    apps: dict[str, CobType] = {f"y/a{number}": SIMPLE for number in range(40)}
    ways = Ways(graph_of({"x/s": kind} | apps, *stops))
    assert ways.way(CobId("x/s"), "s00", "s11") == (kind.transition("s00", "s11"),)
