"""The checker of the promises says what its plain twin says, of good and of spoiled records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import Graph
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import Faults, Simulation, graph_json
from tests.support.graphs import graph_of, graphs, starts
from tests.support.plain_promises import plain_check_promises

Event = dict[str, Any]

FAULTS = Faults(fail=0.1, fail_check=0.1, vanish=0.02, come_back=0.05)
WORDS = ("up", "down", "outdated", "unknown", "s0", "s1", "s2", "odd")
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
