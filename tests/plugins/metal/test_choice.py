"""The choice of machines: all or nothing, from whom it may take, and at the least cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb_plugins.metal.vclusters._choice import Machine, Stock, UnmetError, choose
from cobweb_plugins.metal.vclusters._grants import Grants, Member, Part, Request

NOW, IMMUNITY_S = 1000.0, 60.0
WHERE = {"": ("", 0), "nics >= 2": ("nics", 2), "cores >= 4": ("cores", 4)}

Found = Sequence[tuple[int, str]]


def accepts(text: str, properties: Mapping[str, Any]) -> bool:
    """Read the filters of these tests."""
    name, least = WHERE[text]
    return bool(properties.get(name, 0) >= least)


def request(name: str, *parts: tuple[int, int, str], priority: int = 0) -> Request:
    """Return a request; a part is count, min and filter."""
    found = tuple(Part(template="t", count=it[0], min=it[1], where=it[2]) for it in parts)
    return Request(name=name, parts=found, created=1.0, priority=priority)


def stock_of(
    machines: Sequence[Machine],
    requests: Sequence[Request] = (),
    held: Mapping[str, tuple[str, int, float]] | None = None,
) -> Stock:
    """Return a stock; `held` says of machines who has them, as which part, since when."""
    members = {}
    for number, (machine, (name, part, since)) in enumerate((held or {}).items(), 1):
        words: dict[str, Any] = {"number": number, "image": "a" * 64, "address": f"10.0.0.{number}"}
        members[machine] = Member(machine=machine, vcluster=name, part=part, since=since, **words)
    grants = Grants(requests={it.name: it for it in requests}, members=members)
    return Stock(machines=machines, grants=grants, accepts=accepts, now=NOW, immunity_s=IMMUNITY_S)


# Any stock, against all choices there are.


def machine(name: str, said: Mapping[str, Any]) -> Machine:
    """Return a machine; what is None is not known of it."""
    properties = {key: said[key] for key in ("cores", "nics") if said[key] is not None}
    return Machine(name=name, properties=properties, unfit=said["unfit"], is_warm=said["warm"])


SAID = st.fixed_dictionaries(
    {
        "cores": st.sampled_from([None, 2, 4, 8]),
        "nics": st.sampled_from([1, 2]),
        "unfit": st.sampled_from(["", "", "", "has failed"]),
        "warm": st.booleans(),
        "holder": st.sampled_from([None, None, "low", "low", "mid", "high", "new"]),
        "part": st.integers(0, 1),
        "since": st.sampled_from([0.0, 500.0, NOW - IMMUNITY_S, NOW - IMMUNITY_S + 1]),
    }
)
MINS = st.tuples(st.integers(0, 2), st.integers(0, 2))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Request, dict[int, int], Stock]:
    """Return a request, what it wants, and machines that are free or in virtual clusters."""
    said: dict[str, Any] = {
        f"m{index}": it for index, it in enumerate(draw(st.lists(SAID, max_size=6)))
    }
    wheres = st.sampled_from(sorted(WHERE))
    new = request(
        "new", (2, 0, draw(wheres)), (2, 0, draw(wheres)), priority=draw(st.sampled_from([1, 2]))
    )
    others = [
        request(name, *((2, least, "") for least in draw(MINS)), priority=priority)
        for name, priority in (("low", -1), ("mid", 0), ("high", 1))
    ]
    held = {
        name: (it["holder"], it["part"], it["since"]) for name, it in said.items() if it["holder"]
    }
    wanted = draw(st.dictionaries(st.integers(0, 1), st.integers(1, 2), min_size=1))
    machines = [machine(name, it) for name, it in said.items()]
    return new, wanted, stock_of(machines, [new, *others], held)


def may_have(new: Request, stock: Stock, part: int, it: Machine) -> bool:
    """Say whether a machine alone could be a node, whatever its holder has to keep."""
    if it.unfit or not accepts(new.parts[part].where, it.properties):
        return False
    member = stock.grants.members.get(it.name)
    if member is None:
        return True
    holder = stock.grants.requests[member.vcluster]
    return (
        holder.name != new.name
        and holder.priority < new.priority
        and member.since <= NOW - IMMUNITY_S
    )


def losses(stock: Stock, names: Sequence[str]) -> Counter[tuple[str, int]]:
    """Return how many nodes of which part whom a choice takes away."""
    members = (stock.grants.members.get(it) for it in names)
    return Counter((it.vcluster, it.part) for it in members if it)


def keeps_min(stock: Stock, names: Sequence[str]) -> bool:
    """Say whether all others keep what they must have."""
    has = Counter((it.vcluster, it.part) for it in stock.grants.members.values())
    return all(
        has[key] - count >= stock.grants.requests[key[0]].parts[key[1]].min
        for key, count in losses(stock, names).items()
    )


def choices(new: Request, wanted: Mapping[int, int], stock: Stock) -> Iterator[list[str]]:
    """Yield all machines that could be had, in the order of the wanted parts."""
    slots = [part for part, count in sorted(wanted.items()) for _ in range(count)]
    for those in permutations(stock.machines, len(slots)):
        pairs = zip(slots, those, strict=True)
        names = [it.name for it in those]
        if all(may_have(new, stock, *it) for it in pairs) and keeps_min(stock, names):
            yield names


def priorities(stock: Stock, names: Sequence[str]) -> list[int]:
    """Return the priorities of those who lose nodes, the highest first."""
    grants = stock.grants
    holders = (grants.members[it].vcluster for it in names if it in grants.members)
    return sorted((grants.requests[it].priority for it in holders), reverse=True)


def chosen(new: Request, wanted: Mapping[int, int], stock: Stock) -> Found | None:
    """Return what is chosen, None where that is refused."""
    try:
        return choose(new, wanted, stock)
    except UnmetError:
        return None


@given(worlds())
def test_it_is_all_or_nothing_and_refused_only_where_there_is_no_choice(
    world: tuple[Request, dict[int, int], Stock],
) -> None:
    new, wanted, stock = world
    possible = list(choices(new, wanted, stock))
    found = chosen(new, wanted, stock)
    assert (found is None) == (not possible)
    if found is None:
        return
    names = [name for _, name in sorted(found)]
    assert Counter(part for part, _ in found) == Counter(wanted)
    assert sorted(names) in [sorted(it) for it in possible], "each may be had, and all at once"
    by_name = {it.name: it for it in stock.machines}
    assert all(may_have(new, stock, part, by_name[name]) for part, name in found)


@given(worlds())
def test_free_machines_come_first_and_then_those_of_the_lowest_priority(
    world: tuple[Request, dict[int, int], Stock],
) -> None:
    found = chosen(*world)
    if found is None:
        return
    stock = world[2]
    lost = priorities(stock, [name for _, name in found])
    every = [priorities(stock, it) for it in choices(*world)]
    assert (len(lost), lost) == min((len(it), it) for it in every)


@given(worlds())
def test_no_other_machine_would_have_been_better_in_the_place_of_one(
    world: tuple[Request, dict[int, int], Stock],
) -> None:
    new, _, stock = world
    found = chosen(*world) or []
    names = [name for _, name in found]
    members, by_name = stock.grants.members, {it.name: it for it in stock.machines}
    for part, name in found:
        for it in stock.machines:
            rest = [other for other in names if other != name] + [it.name]
            if it.name in names or not may_have(new, stock, part, it):
                continue
            if not keeps_min(stock, rest):
                continue
            if name in members and it.name in members:
                same = priorities(stock, [name]) == priorities(stock, [it.name])
                assert not same or members[it.name].since <= members[name].since, "newest first"
            elif name not in members and it.name not in members:
                assert by_name[name].order < it.order, "the cheapest first"


# One claim each.


def free(name: str, **properties: Any) -> Machine:
    """Return a machine that is fit."""
    return Machine(name=name, properties=properties)


ORDERS = {
    "cost before cores": (free("b", cost=1, cores=64), free("a", cost=2, cores=2)),
    "cores before memory": (free("b", cores=2, memory_mb=9000), free("a", cores=4, memory_mb=1)),
    "memory before disk": (
        free("b", cores=2, memory_mb=1, disk_gb=9),
        free("a", cores=2, memory_mb=2, disk_gb=1),
    ),
    "disk": (free("b", cores=2, disk_gb=1.5), free("a", cores=2, disk_gb=2)),
    "unknown hardware last": (free("b", cost=9, cores=99), free("a")),
    "warm before cold": (replace(free("b", cores=2), is_warm=True), free("a", cores=2)),
    "hardware before warm": (free("b", cores=2), replace(free("a", cores=4), is_warm=True)),
    "then by name": (free("a", cores=2), free("b", cores=2)),
    "a text is no cost": (free("b", cores=2, cost="much"), free("a", cores=2, cost=1)),
}


@pytest.mark.parametrize("case", sorted(ORDERS))
def test_what_makes_a_machine_cheaper(case: str) -> None:
    cheap, dear = ORDERS[case]
    for machines in ([cheap, dear], [dear, cheap]):
        assert choose(request("new", (1, 1, "")), {0: 1}, stock_of(machines)) == [(0, cheap.name)]


def test_scarce_machines_are_left_for_the_part_that_needs_them() -> None:
    machines = [free("m1", cores=1, nics=2), free("m2", cores=8, nics=1), free("m3", cores=9)]
    new = request("new", (1, 1, ""), (1, 1, "nics >= 2"))
    assert choose(new, {0: 1, 1: 1}, stock_of(machines)) == [(0, "m2"), (1, "m1")]


def test_scarce_machines_are_not_taken_from_others_where_a_free_one_does() -> None:
    machines = [free("m1", cores=1), free("m2", cores=2, nics=2), free("m3", cores=9, nics=2)]
    new = request("new", (1, 1, ""), (1, 1, "nics >= 2"), priority=1)
    stock = stock_of(machines, [new, request("old", (1, 0, ""))], {"m2": ("old", 0, 0.0)})
    assert choose(new, {0: 1, 1: 1}, stock) == [(0, "m1"), (1, "m3")]


def test_of_one_priority_the_newest_nodes_go_and_no_more_than_may() -> None:
    names = ("m1", "m2", "m3", "m4")
    machines = [free(it, cores=1) for it in names]
    held = {it: ("old", 0, since) for it, since in zip(names, (3.0, 9.0, 1.0, 8.0), strict=True)}
    new, old = request("new", (3, 0, ""), priority=1), request("old", (4, 2, ""))
    stock = stock_of(machines, [new, old], held)
    assert choose(new, {0: 1}, stock) == [(0, "m2")]
    assert choose(new, {0: 2}, stock) == [(0, "m2"), (0, "m4")]
    with pytest.raises(UnmetError, match=r"cannot have 3 more nodes .*: only 2 can be had"):
        choose(new, {0: 3}, stock)


def test_a_refusal_says_of_each_machine_why() -> None:
    machines = [
        free("m8", cores=8, nics=2),
        Machine(name="m1", properties={"cores": 8}, unfit="has failed: no answer"),
        free("m2", cores=2),
        free("m3"),
        *(free(f"m{it}", cores=8) for it in (4, 5, 6, 7, 9)),
        Machine(name="m0", properties={}, unfit="has failed: no answer"),
    ]
    new = request("new", (3, 3, "cores >= 4"), priority=5)
    held = {
        "m4": ("new", 0, 0.0),
        "m5": ("equal", 0, 0.0),
        "m6": ("least", 0, 0.0),
        "m7": ("fresh", 0, NOW - 20),
        "m9": ("equal", 0, 0.0),
    }
    others = [request("equal", (1, 0, ""), priority=5), request("least", (1, 1, ""))]
    stock = stock_of(machines, [new, *others, request("fresh", (1, 0, ""))], held)
    with pytest.raises(UnmetError) as error:
        choose(new, {0: 2}, stock)
    head, _, said = error.value.message.partition("; ")
    assert head == "new cannot have 2 more nodes (2 of t, where cores >= 4): only 1 can be had"
    assert set(said.split("; ")) == {
        "m8: could be had",
        "m0, m1: has failed: no answer",
        "m2: not cores >= 4",
        "m3: not cores >= 4 (its hardware is not known yet: no trampoline told it)",
        "m4: is new-1",
        "m5, m9: is in equal, of priority 5",
        "m6: is in least, which has no more than it must have",
        "m7: is new in fresh, for 40 s more",
    }
    assert error.value.hint == "nothing was changed"
    with pytest.raises(UnmetError, match=r"1 more node .*: none can be had; there is no machine"):
        choose(new, {0: 1}, stock_of([]))
