"""The switching order of hosts against its definition and the engine (paper, section 5.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import (
    STAY,
    CheckEnded,
    Effect,
    Engine,
    LockRequested,
    StartTransition,
    TransitionEnded,
)
from cobweb.generation import SwitchingOrder, switching_order
from cobweb.model import Cob, CobId, Graph, State, host_of
from tests.support.graphs import SIMPLE, graph_of, needs_of, starts, type_of, types
from tests.support.words import after, requires, stops

Groups = tuple[tuple[str, ...], ...]


def order_of(graph: Graph, removed: str) -> SwitchingOrder:
    return switching_order(graph, {CobId(cob) for cob in removed.split()})


# --- cases as stories


def test_what_needs_the_other_down_first_switches_last() -> None:
    """The database goes down after the application is down, so its host switches first."""
    order = order_of(graph_of("app/app db/db", *requires("app/app", "db/db")), "db/db")
    assert order.groups == (("db",), ("app",))
    assert order.reached == {"app/app", "db/db"}


def test_a_removed_object_that_needs_nobody_leaves_the_others_out() -> None:
    order = order_of(graph_of("app/app db/db", *requires("app/app", "db/db")), "app/app")
    assert order.groups == (("app",),)
    assert order.reached == {"app/app"}


def test_nothing_removed_is_no_order() -> None:
    assert order_of(graph_of("a/x b/y", *requires("a/x", "b/y")), "") == SwitchingOrder(
        steps=(), reached=frozenset()
    )


def test_hosts_in_a_circle_switch_together() -> None:
    needs = [*requires("a/app", "b/db"), *requires("b/app", "a/db")]
    order = order_of(graph_of("a/app a/db b/app b/db", *needs), "a/db b/db")
    assert order.groups == (("a", "b"),)


def test_the_way_over_others_counts() -> None:
    """`c/z` is asked for by nobody that is removed, but by one that a removed one asks for."""
    needs = [*requires("b/y", "a/x"), *requires("c/z", "b/y")]
    order = order_of(graph_of("a/x b/y c/z", *needs), "a/x")
    assert order.groups == (("a",), ("b",), ("c",))
    assert [step.after for step in order.steps] == [(), (0,), (0,)]


def test_lock_dependencies_count_only_for_what_is_locked() -> None:
    graph = graph_of("a/x b/y c/z", "a/x down c/z up", *stops("a/x", "b/y"), "b/y down c/z up")
    assert order_of(graph, "a/x").groups == (("a",), ("b",), ("c",))
    assert order_of(graph, "b/y").groups == (("b",),)


def test_only_the_steps_towards_the_state_count() -> None:
    graph = graph_of("a/x b/y c/z", *after("a/x", "b/y"), "a/x up>down c/z down")
    assert order_of(graph, "a/x").groups == (("a",), ("c",))


def test_a_step_aside_the_shortest_way_is_never_taken() -> None:
    kind = type_of("one two three", "one>two one>three two>three", "one", remove="three")
    graph = graph_of({"a/x": kind, "b/y": SIMPLE, "c/z": SIMPLE}, "a/x one>two b/y down")
    assert order_of(graph, "a/x").groups == (("a",),)


def test_a_need_for_a_group_counts_as_the_ways_into_it_and_no_others() -> None:
    """Who is in the group moves no more: what a way on would ask for stays out of it."""
    kind = replace(type_of("c b a", "a>b b>c c>b b>a", "a", "c"), groups={"off": ("b", "c")})
    needs = ["r/x a>b o/y off", "o/y a>b p/z a", "o/y b>c q/z a", "o/y c t/z a"]
    graph = graph_of(dict.fromkeys(["o/y", "p/z", "q/z", "r/x", "t/z"], kind), *needs)
    assert order_of(graph, "r/x").reached == {"r/x", "o/y", "p/z", "t/z"}


def test_groups_that_may_come_in_any_order_come_by_name() -> None:
    needs = [*requires("z/app", "m/db"), *requires("a/app", "y/db")]
    order = order_of(graph_of("z/app m/db a/app y/db", *needs), "m/db y/db")
    assert order.groups == (("m",), ("y",), ("a",), ("z",))


def test_many_that_wait_for_many_wait_for_one_join() -> None:
    """A need between two groups of hosts costs n + m, not n times m."""
    before = [f"b{n}/db" for n in range(9)]
    behind = [f"c{n}/app" for n in range(9)]
    needs = [f"{cob} up>down x/gate down" for cob in before]
    needs += [f"x/gate up>down {cob} down" for cob in behind]
    order = order_of(graph_of(" ".join([*before, *behind, "x/gate"]), *needs), " ".join(before))
    assert order.groups == tuple((host_of(CobId(cob)),) for cob in [*before, *behind, "x/gate"])
    assert sum(len(step.after) for step in order.steps) == 9 + 9 + 1
    held = order.held({CobId("b4/db")})
    assert held == dict.fromkeys(["b4", "x", *(f"c{n}" for n in range(9))], "b4/db")


def test_a_deep_chain_needs_no_deep_stack() -> None:
    cobs = [f"h{n:04}/c" for n in range(3000)]
    needs = [need for a, b in pairwise(cobs) for need in requires(b, a)]
    order = order_of(graph_of(" ".join(cobs), *needs), cobs[0])
    assert len(order.groups) == 3000


def test_an_object_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="b/y is not in the graph"):
        order_of(graph_of("a/x"), "a/x b/y")


def test_a_host_is_held_by_its_own_object_first() -> None:
    order = order_of(graph_of("app/app db/db app/x", *requires("app/app", "db/db")), "db/db app/x")
    assert order.held({CobId("db/db"), CobId("app/x")}) == {"db": "db/db", "app": "app/x"}
    assert order.held({CobId("db/db")}) == {"db": "db/db", "app": "db/db"}
    assert order.held({CobId("app/x")}) == {"app": "app/x"}
    assert order.held(frozenset()) == {}


# --- properties


@st.composite
def removals(draw: st.DrawFn, hosts: int = 5) -> tuple[Graph, frozenset[CobId]]:
    """Draw a graph on up to five hosts, and what is removed of it."""
    ids = [
        CobId(f"h{draw(st.integers(0, hosts - 1))}/c{n}") for n in range(draw(st.integers(2, 8)))
    ]
    kinds = st.one_of(st.just(SIMPLE), st.just(SIMPLE), types())
    cobs = {cob: Cob(id=cob, type=draw(kinds)) for cob in sorted(ids)}
    needs = {draw(needs_of(cobs)) for _ in range(draw(st.integers(0, 16)))}
    removed = draw(st.sets(st.sampled_from(ids)))
    return Graph(cobs=cobs, needs=tuple(sorted(needs, key=str))), frozenset(removed)


def plain_needs(graph: Graph, removed: CobId) -> set[CobId]:
    """Return what a removed object can ask for on its way, by the definition, word for word."""

    def moves(cob: CobId, state: State) -> set[tuple[State, State]]:
        kind = graph.cobs[cob].type
        ways = [kind.way(start, kind.stands_for(state, start)) for start in kind.states]
        return {(way[0].source, way[0].dest) for way in ways if way}

    def steps_ask(cob: CobId, state: State) -> set[tuple[CobId, State]]:
        return with_common(
            (need.on, need.state)
            for need in graph.transition_needs()
            if need.cob == cob and (need.source, need.dest) in moves(cob, state)
        )

    def lending_asks(cob: CobId, state: State) -> set[tuple[CobId, State]]:
        return with_common(
            (need.on, need.state)
            for need in graph.lock_needs()
            if need.cob == cob and need.within in graph.cobs[cob].type.members(state)
        )

    def with_common(asked: Iterable[tuple[CobId, State]]) -> set[tuple[CobId, State]]:
        pairs = set(asked)
        common = {
            (on, state)
            for on, one in pairs
            for other in {name for cob, name in pairs if cob == on} - {one}
            for state in graph.cobs[on].type.members(one)
            if state in graph.cobs[on].type.members(other)
        }
        return pairs | common

    found: set[tuple[CobId, State]] = set()
    new = steps_ask(removed, graph.cobs[removed].type.remove)
    while new:
        found |= new
        new = {
            pair for cob, state in new for pair in steps_ask(cob, state) | lending_asks(cob, state)
        } - found
    return {cob for cob, _ in found}


def not_later(graph: Graph, removed: frozenset[CobId]) -> set[tuple[str, str]]:
    """Return all (a, b): host a must not switch later than host b."""
    return {
        (host_of(cob), host_of(on)) for cob in removed for on in {cob, *plain_needs(graph, cob)}
    }


def places(groups: Groups) -> dict[str, int]:
    return {host: place for place, group in enumerate(groups) for host in group}


def partitions(hosts: frozenset[str]) -> Iterator[Groups]:
    """Yield all ways to put hosts into groups, and the groups into an order."""
    if not hosts:
        yield ()
    for size in range(1, len(hosts) + 1):
        for group in combinations(sorted(hosts), size):
            for rest in partitions(hosts - set(group)):
                yield (group, *rest)


@given(removals())
def test_no_removed_object_ever_needs_an_object_of_a_host_that_has_switched(
    removal: tuple[Graph, frozenset[CobId]],
) -> None:
    graph, removed = removal
    order = switching_order(graph, removed)
    place = places(order.groups)
    needed = {cob: plain_needs(graph, cob) for cob in removed}
    assert all(place[host_of(cob)] <= place[host_of(on)] for cob in removed for on in needed[cob])
    assert order.reached == removed.union(*needed.values())
    assert place.keys() == {host_of(cob) for cob in order.reached}


@given(removals())
def test_the_groups_are_as_small_as_can_be(removal: tuple[Graph, frozenset[CobId]]) -> None:
    """No right order of any groups divides one of them, and of the finest the first is chosen."""
    graph, removed = removal
    groups = switching_order(graph, removed).groups
    rules = not_later(graph, removed)
    hosts = frozenset(host for rule in rules for host in rule)
    right = [
        some
        for some in partitions(hosts)
        if all(place[a] <= place[b] for place in [places(some)] for a, b in rules)
    ]
    assert all(
        any(set(group) <= set(larger) for larger in some) for some in right for group in groups
    )
    assert groups == min(some for some in right if len(some) == max(map(len, right)))


@given(removals(), st.data())
def test_a_host_is_held_exactly_by_what_must_not_be_later(
    removal: tuple[Graph, frozenset[CobId]], data: st.DataObject
) -> None:
    graph, removed = removal
    missing = data.draw(st.sets(st.sampled_from(sorted(removed)))) if removed else set()
    held = switching_order(graph, removed).held(missing)
    leads = reach_of(not_later(graph, removed))
    assert held.keys() == {b for a, b in leads if any(host_of(cob) == a for cob in missing)}
    assert all(cob in missing and (host_of(cob), host) in leads for host, cob in held.items())


def reach_of(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the transitive closure, the dumb way."""
    found = set(pairs)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


@given(removals(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(
    removal: tuple[Graph, frozenset[CobId]], random: Random
) -> None:
    graph, removed = removal
    cobs, needs = list(graph.cobs.items()), list(graph.needs)
    random.shuffle(cobs)
    random.shuffle(needs)
    shuffled = Graph(cobs=dict(cobs), needs=tuple(needs))
    assert switching_order(shuffled, removed) == switching_order(graph, removed)


# --- the engine, over the old graph


@given(removals(), st.data(), st.randoms(use_true_random=False))
def test_no_object_of_a_host_that_has_switched_is_ever_asked_for_a_lock(
    removal: tuple[Graph, frozenset[CobId]], data: st.DataObject, random: Random
) -> None:
    """Hosts switch as soon as they may; what is in flight ends in any order, and now and then ill.

    Nor does an object start anything there.
    """
    graph, removed = removal
    truth = data.draw(starts(graph))
    known = {cob: truth[cob] for cob in sorted(truth) if data.draw(st.booleans())}
    failing = data.draw(st.sampled_from([0, 0, 20]))
    order = switching_order(graph, removed)
    removes = {cob: graph.cobs[cob].type.remove for cob in removed}
    engine = Engine(graph, goals=dict.fromkeys(graph.cobs, STAY) | removes)
    switched: set[str] = set()
    effects = engine.start(known)
    while True:
        assert not {host_of(cob) for cob in touched(effects)} & switched
        missing = {cob for cob in removed if not rests(engine, cob, removes[cob])}
        switched |= {host_of(cob) for cob in order.reached} - order.held(missing).keys()
        busy = sorted(engine.busy())
        if not busy:
            break
        cob = random.choice(busy)
        ok = random.randrange(100) >= failing
        if engine.state(cob) in graph.cobs[cob].type.states:
            effects = engine.step(TransitionEnded(cob, ok))
        else:
            effects = engine.step(CheckEnded(cob, truth[cob] if ok else None))
        truth[cob] = engine.state(cob) if ok else truth[cob]


def rests(engine: Engine, cob: CobId, state: State) -> bool:
    """Say whether an object is in a state, wants to be there, and does nothing."""
    return engine.state(cob) == engine.target(cob) == state and cob not in engine.busy()


def touched(effects: tuple[Effect, ...]) -> set[CobId]:
    """Return the objects that are asked for a lock or that start a transition."""
    return {it.cob for it in effects if isinstance(it, LockRequested | StartTransition)}
