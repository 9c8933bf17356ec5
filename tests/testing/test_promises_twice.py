"""The checker of the promises says what its plain twin says, of good and of spoiled records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import STAY
from cobweb.model import Graph
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import Faults, Simulation, graph_json
from tests.support.graphs import graph_of, graphs, needs_of, starts
from tests.support.plain_promises import plain_check_promises

pytestmark = [
    pytest.mark.full(
        "a minute beside a dumb checker; test_promises.py has each promise in the gate"
    )
]

Event = dict[str, Any]

FAULTS = Faults(fail=0.1, fail_check=0.1, vanish=0.02, come_back=0.05)
WORDS = ("up", "down", "outdated", "unknown", "s0", "s1", "s2", "g0", "g1", "odd")
KINDS = ("cob.state", "lock.request", "lock.grant", "lock.release", "lock.recall", "other")


@st.composite
def records(draw: st.DrawFn) -> tuple[Graph, list[Event]]:
    """Draw a graph and the events of a run of it, with or without faults."""
    graph = draw(graphs())
    simulation = Simulation(
        graph=graph,
        random=Random(draw(st.integers(0, 1000))),
        truth=draw(starts(graph)),
        faults=draw(st.sampled_from([Faults(), FAULTS])),
        options={"returns": draw(st.booleans())},
    )
    simulation.run()
    return graph, json.loads(json.dumps(simulation.events()))


def lose(_draw: st.DrawFn, events: list[Event], at: int) -> None:
    del events[at]


def double(draw: st.DrawFn, events: list[Event], at: int) -> None:
    events.insert(draw(st.integers(0, len(events))), dict(events[at]))


def move(draw: st.DrawFn, events: list[Event], at: int) -> None:
    event = events.pop(at)
    events.insert(draw(st.integers(0, len(events))), event)


def reword(draw: st.DrawFn, events: list[Event], at: int) -> None:
    event = events[at]
    keys = sorted(event.keys() & {"state", "from", "to"})
    if keys:
        event[draw(st.sampled_from(keys))] = draw(st.sampled_from(WORDS))


def rename(draw: st.DrawFn, events: list[Event], at: int) -> None:
    event = events[at]
    keys = sorted(event.keys() & {"cob", "holder"})
    ids = sorted({e[key] for e in events for key in ("cob", "holder") if key in e})
    if keys:
        event[draw(st.sampled_from(keys))] = draw(st.sampled_from([*ids, "h9/strange"]))


def retype(draw: st.DrawFn, events: list[Event], at: int) -> None:
    if events[at]["type"].startswith("lock."):
        events[at]["type"] = draw(st.sampled_from(KINDS))
        events[at].setdefault("reason", "check")


def end(draw: st.DrawFn, events: list[Event], at: int) -> None:
    code = draw(st.sampled_from([0, 1, 4, 130]))
    events.insert(at, {"type": "run.end", "exit_code": code})


def switch(draw: st.DrawFn, events: list[Event], at: int) -> None:
    hosts = draw(st.lists(st.sampled_from(["h0", "h1", "h2", "h9"]), max_size=3))
    events.insert(at, {"type": "generation.switch", "hosts": hosts})


def give_up(draw: st.DrawFn, events: list[Event], at: int) -> None:
    ids = sorted({e[key] for e in events for key in ("cob", "holder") if key in e})
    events.insert(at, {"type": "cob.gave_up", "cob": draw(st.sampled_from([*ids, "h9/strange"]))})


def lend(draw: st.DrawFn, events: list[Event], at: int) -> None:
    kind = draw(st.sampled_from(["slot.take", "slot.take", "slot.return"]))
    unit = draw(st.sampled_from(["h0", "h1", "h0/c0", "rack"]))
    events.insert(at, {"type": kind, "limit": draw(st.sampled_from("ab")), "unit": unit})


Spoiler = Callable[[st.DrawFn, list[Event], int], None]


@st.composite
def spoiled(draw: st.DrawFn, spoil: Spoiler, events: list[Event], at: int) -> None:
    """Spoil a record at one place."""
    spoil(draw, events, at)


SPOILERS: tuple[Spoiler, ...] = (
    lose,
    double,
    move,
    reword,
    rename,
    retype,
    end,
    give_up,
    lend,
)


@given(records())
def test_both_pass_a_good_record(record: tuple[Graph, list[Event]]) -> None:
    graph, events = record
    data = graph_json(graph)
    assert check_promises(events, data) == plain_check_promises(events, data) == []


@given(records(), st.data())
def test_both_say_the_same_of_a_spoiled_record(
    record: tuple[Graph, list[Event]], data: st.DataObject
) -> None:
    graph, events = record
    for _ in range(data.draw(st.integers(1, 6))):
        if events:
            at = data.draw(st.integers(0, len(events) - 1))
            spoil = data.draw(st.sampled_from(SPOILERS))
            data.draw(spoiled(spoil, events, at))
    plain = graph_json(graph)
    assert check_promises(events, plain) == plain_check_promises(events, plain)


@given(records(), st.data())
def test_both_say_the_same_where_the_graph_is_another_one(
    record: tuple[Graph, list[Event]], data: st.DataObject
) -> None:
    graph, events = record
    plain = graph_json(graph)
    gone = data.draw(st.sampled_from(sorted(graph.cobs)))
    plain["cobs"] = [cob for cob in plain["cobs"] if cob["id"] != gone]
    data.draw(st.randoms(use_true_random=False)).shuffle(plain["cobs"])
    plain["cobs"].extend(dict(cob) for cob in plain["cobs"][:1])
    assert check_promises(events, plain) == plain_check_promises(events, plain)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Graph, Graph, list[Event]]:
    """Draw two generations and the events of a run that goes over from one to the other."""
    old = draw(graphs())
    gone = {cob for cob in old.cobs if draw(st.integers(0, 2)) == 0}
    kept = {cob: it for cob, it in old.cobs.items() if cob not in gone}
    needs = {need for need in old.needs if not {need.cob, need.on} & gone and draw(st.booleans())}
    if len(kept) > 1:
        needs |= {draw(needs_of(kept)) for _ in range(draw(st.integers(0, 3)))}
    new = Graph(cobs=kept, needs=tuple(sorted(needs, key=str)))
    truth = draw(starts(old))
    faults = draw(st.sampled_from([Faults(), FAULTS]))
    seed = Random(draw(st.integers(0, 1000)))
    goals = {cob.id: cob.type.remove if cob.id in gone else STAY for cob in old.cobs.values()}
    first = Simulation(graph=old, random=seed, truth=dict(truth), faults=faults, goals=goals)
    first.run()
    events = first.events()
    if not first.engines[0].unsettled():
        known = {cob: state for cob, state in first.engines[0].states().items() if cob in kept}
        second = Simulation(graph=new, random=seed, truth=known, states=known, faults=faults)
        second.run()
        switch = {"type": "generation.switch", "hosts": list(old.hosts()), "generation": 2}
        events = [*events[:-1], switch, *second.events()[2:]]
    plain = [{**event, "seq": seq} for seq, event in enumerate(events, 1)]
    return old, new, json.loads(json.dumps(plain))


@given(changes())
def test_both_pass_a_good_record_of_a_change(change: tuple[Graph, Graph, list[Event]]) -> None:
    old, new, events = change
    data, before = graph_json(new), graph_json(old)
    assert check_promises(events, data, before=before) == []
    assert plain_check_promises(events, data, before=before) == []


@given(changes(), st.data())
def test_both_say_the_same_of_a_spoiled_record_of_a_change(
    change: tuple[Graph, Graph, list[Event]], data: st.DataObject
) -> None:
    old, new, events = change
    for _ in range(data.draw(st.integers(1, 6))):
        if events:
            at = data.draw(st.integers(0, len(events) - 1))
            data.draw(spoiled(data.draw(st.sampled_from((*SPOILERS, switch))), events, at))
    plain, before = graph_json(new), graph_json(data.draw(st.sampled_from([old, new])))
    said = check_promises(events, plain, before=before)
    assert said == plain_check_promises(events, plain, before=before)


@given(changes(), st.data())
def test_both_say_the_same_where_the_graphs_are_mixed_up(
    change: tuple[Graph, Graph, list[Event]], data: st.DataObject
) -> None:
    old, new, events = change
    plain, before = graph_json(old), graph_json(new)
    for part in (plain, before):
        if part["cobs"] and data.draw(st.booleans()):
            del part["cobs"][data.draw(st.integers(0, len(part["cobs"]) - 1))]
    said = check_promises(events, plain, before=before)
    assert said == plain_check_promises(events, plain, before=before)


class Counted:
    """Events or needs that count how many of them are asked for, and how often they are begun."""

    def __init__(self, items: list[Event]) -> None:
        self.items, self.taken, self.begun = items, 0, 0

    def __iter__(self) -> Iterator[Event]:
        self.begun += 1
        for item in self.items:
            self.taken += 1
            yield item


def test_a_hub_with_many_needs_may_ask_often() -> None:
    """Its needs are found by a table; who asks three times may have been stopped for it."""
    leaves = [f"y/l{number:02d}" for number in range(40)]
    graph = graph_of("x/hub " + " ".join(leaves), *(f"x/hub down>up {leaf} up" for leaf in leaves))
    data = graph_json(graph)
    state: list[Event] = [{"type": "cob.state", "cob": cob, "state": "down"} for cob in graph.cobs]
    failed: Event = {"type": "cob.state", "cob": leaves[0], "state": "unknown"}
    ask: list[Event] = [
        {"type": f"lock.{kind}", "cob": leaves[7], "holder": "x/hub", "state": "up"}
        for kind in ("request", "release")
    ]
    for times in (2, 3):
        record: list[Event] = [*state, *ask * times, failed, {"type": "run.end", "exit_code": 1}]
        said = check_promises(record, data)
        assert said == plain_check_promises(record, data)
        assert (said == []) == (times == 3)


def test_events_and_graph_are_read_once_and_may_be_streams() -> None:
    graph = graph_of("x/a x/b x/d", "x/a down>up x/b up", "x/b up x/d up")
    simulation = Simulation(graph=graph, random=Random(1), truth=dict.fromkeys(graph.cobs, "down"))
    simulation.run()
    plain = graph_json(graph)
    events, cobs, needs = map(Counted, (simulation.events(), plain["cobs"], plain["needs"]))
    assert check_promises(events, {"cobs": cobs, "needs": needs}) == []
    for stream in (events, cobs, needs):
        assert (stream.begun, stream.taken) == (1, len(stream.items))
