"""The coordinator's side of a run: events are merged causes first, whatever is lost or doubled."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import CobId
from cobweb_plugins.agents import _company
from cobweb_plugins.agents._company import Fellows, joined
from cobweb_plugins.agents._keys import public_key
from cobweb_plugins.agents._part import COORDINATOR, Part
from cobweb_plugins.agents._signature import is_signed
from cobweb_plugins.agents._wire import Marks

EPOCH = 7


class FakeWire:
    """What was said, and papers that are put in by hand."""

    def __init__(self) -> None:
        self.papers: deque[tuple[str, dict[str, Any]]] = deque()
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.may_hear: Callable[[Marks], bool] = lambda _marks: True
        self.held, self.joined = False, 1
        self.words: tuple[dict[str, str], dict[str, str]] = ({}, {})

    def tell(self, owner: str, paper: str, **data: Any) -> None:
        self.told.append((owner, paper, data))

    def digests(self) -> tuple[dict[str, str], dict[str, str]]:
        return self.words

    def has_held(self) -> bool:
        return self.held

    def wake(self) -> None:
        pass

    def take(self) -> None:
        pass

    def connect(self, *_names: object) -> None:
        pass


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keys") / "coordinator.seed"
    public_key(made)
    return made


def fellows_of(seed: Path, *names: str, store: Any = None) -> tuple[Fellows, FakeWire]:
    wire = FakeWire()
    order = {
        "epoch": EPOCH,
        "number": 1,
        "open": True,
        "orders": {"may_go_out": None, "only": None, "refresh": "changed"},
    }
    parts = {
        it: Part(data=it.encode(), digest=it, blobs=frozenset({"f"}), cobs={CobId(f"{it}/x"): "up"})
        for it in names
    }
    made: Any = wire
    known = store or SimpleNamespace()
    known.states_of = getattr(known, "states_of", lambda _cobs: {})
    return Fellows(made, parts, order, known, seed), wire


def report(life: int = 1, at: tuple[int, int] = (0, 0), **more: Any) -> dict[str, Any]:
    usual = {"paper": "report", "epoch": EPOCH, "life": life, "stage": "work", "idle": True}
    usual |= {"settled": True, "waits": [], "said": {}, "heard": {}, "message": ""}
    return {**usual, "at": at, "acked": (0, 0), "events": [], **more}


STANDS = SimpleNamespace(state="up", content="c")

Event = tuple[str, int, Mapping[str, tuple[int, int]]]


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Draw events in an order in which they can have happened: owner, number, causes."""
    made: list[Event] = []
    at: dict[str, int] = {}
    for _ in range(draw(st.integers(1, 25))):
        owner = draw(st.sampled_from(["a", "b", "c"]))
        known = [(it, number) for it, number, _ in made if it != owner]
        rests = draw(st.lists(st.sampled_from(known), max_size=2)) if known else []
        at[owner] = at.get(owner, 0) + 1
        made.append((owner, at[owner], {it: (1, number) for it, number in rests}))
    return made


@given(histories(), st.integers(0, 2**32))
def test_events_are_told_once_and_causes_first(history: list[Event], number: int) -> None:
    random = Random(number)
    fellows, wire = fellows_of(Path("unused"), "a", "b", "c")
    own = {name: [it for it in history if it[0] == name] for name in "abc"}
    acked = dict.fromkeys("abc", 0)
    told: list[tuple[str, int]] = []
    fellows.say = lambda: None  # type: ignore[method-assign]
    while len(told) < len(history):
        name = random.choice("abc")
        waiting = own[name][acked[name] :]
        upto = random.randint(0, len(waiting))
        events = [
            [1, at, "slot.take", {"limit": name, "unit": str(at)}, dict(marks)]
            for _, at, marks in waiting[:upto]
        ]
        paper = report(at=(1, len(own[name])), acked=(1, acked[name]), events=events)
        for _ in range(random.choice([0, 1, 1, 2])):  # lost, or doubled
            wire.papers.append((name, json.loads(json.dumps(paper))))
        told += [(data["limit"], int(data["unit"])) for _, data in fellows.news()]
        for owner, what, data in wire.told:
            if what == "seen" and random.random() < 0.7:
                acked[owner] = max(acked[owner], data["at"][1])
        wire.told.clear()
    assert sorted(told) == sorted((name, at) for name, at, _ in history)
    places = {it: place for place, it in enumerate(told)}
    for name, at, marks in history:
        assert all(places[it, mark[1]] < places[name, at] for it, mark in marks.items())
        assert at == 1 or places[name, at - 1] < places[name, at]


def test_a_new_life_goes_on_after_all_of_the_old_one(seed: Path) -> None:
    fellows, wire = fellows_of(seed, "a")

    def news(*marks: tuple[int, int]) -> list[Any]:
        events = [
            [*it, "slot.take", {"limit": "x", "unit": "{}.{}".format(*it)}, {}] for it in marks
        ]
        wire.papers.append(("a", report(life=marks[-1][0], at=marks[-1], events=events)))
        return [data["unit"] for _, data in fellows.news()]

    assert news((1, 1), (1, 2)) == ["1.1", "1.2"]
    assert news((1, 4), (2, 1)) == []  # (1, 3) was lost on the way
    assert news((1, 3), (1, 4), (2, 1)) == ["1.3", "1.4", "2.1"]
    assert news((1, 1), (2, 1), (2, 2)) == ["2.2"]


@pytest.mark.parametrize(
    ("reports", "rests"),
    [
        ({}, False),
        ({"a": report()}, False),
        ({"a": report(), "b": report()}, True),
        ({"a": report(), "b": report(idle=False)}, False),
        ({"a": report(), "b": report(at=(1, 1))}, False),
        ({"a": report(said={"b": "1"}), "b": report()}, False),
        ({"a": report(said={"b": "1"}), "b": report(heard={"a": "2"})}, False),
        ({"a": report(said={"b": "1"}), "b": report(heard={"a": "1"})}, True),
        ({"a": report(said={COORDINATOR: "1"}), "b": report()}, False),
        ({"a": report(said={"z": "1"}), "b": report()}, True),
        ({"a": report(stage="refused"), "b": report()}, True),
        ({"a": report(stage="refused"), "b": report(said={"a": "1"})}, True),
        ({"a": report(stage="ended"), "b": report()}, False),
        ({"a": report(stage="fetch"), "b": report()}, False),
        ({"a": report(), "b": report(epoch=EPOCH - 1)}, False),
    ],
    ids=range(15),
)
def test_the_run_is_over_when_all_are_idle_and_have_heard_all(
    seed: Path, reports: Mapping[str, Any], *, rests: bool
) -> None:
    fellows, wire = fellows_of(seed, "a", "b")
    wire.papers.extend(reports.items())
    fellows.news()
    assert fellows.at_rest() is rests
    wire.held = True
    assert fellows.at_rest() is False


def test_when_it_is_halted_all_have_to_say_that_they_have_ended(seed: Path) -> None:
    fellows, wire = fellows_of(seed, "a")
    wire.papers.append(("a", report(said={COORDINATOR: "1"})))
    fellows.news()
    fellows.halt()
    assert not fellows.at_rest()
    wire.papers.append(("a", report(stage="ended", said={COORDINATOR: "1"})))
    fellows.news()
    assert fellows.at_rest()


def test_who_is_silent_is_told_and_not_waited_for(
    seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(_company, "time", SimpleNamespace(monotonic=lambda: now.s))
    store = SimpleNamespace(states_of=lambda cobs: {it: STANDS for it in cobs if it == "b/x"})
    fellows, wire = fellows_of(seed, "a", "b", store=store)
    wire.papers.append(
        ("a", report(events=[[1, 1, "limit.resume", {"limit": "x"}, {"b": [9, 9]}]], at=(1, 1)))
    )
    assert fellows.news() == []
    now.s += _company.SILENT_S + 1
    wire.papers.append(("a", report(at=(1, 1))))
    assert fellows.news() == [("limit.resume", {"limit": "x"})]  # what it rests on nobody will tell
    assert fellows.at_rest()
    (wait,) = fellows.waits()
    assert (wait["cob"], wait["state"]) == ("b/x", "up")
    assert wait["chain"][0]["detail"] == "the agent of b is silent"


def test_orders_are_signed_and_said_until_they_are_answered(
    seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(_company, "time", SimpleNamespace(monotonic=lambda: now.s))
    fellows, wire = fellows_of(seed, "a")
    for _ in range(2):
        fellows.say()
        now.s += 10
    (_, _, first), (_, _, again) = wire.told
    assert first == again
    assert is_signed(public_key(seed), first["order"].encode(), first["signature"])
    assert not is_signed(public_key(seed), first["order"].encode() + b" ", first["signature"])
    assert json.loads(first["order"])["part"] == "a"
    wire.told.clear()
    wire.papers.append(("a", report()))
    fellows.news()
    assert not wire.told
    fellows.halt()
    assert json.loads(wire.told[0][2]["order"])["open"] is False
    wire.told.clear()
    wire.papers.append(
        ("a", {"paper": "here", "nonce": "n"})
    )  # a new process: it has heard nothing
    fellows.news()
    assert [paper for _, paper, _ in wire.told] == ["order"]
    assert json.loads(wire.told[0][2]["order"])["nonce"] == "n"


def test_an_agent_gets_what_belongs_to_its_part_and_nothing_else(seed: Path) -> None:
    store = SimpleNamespace(file={"f": b"file", "g": b"other"}.get)
    fellows, wire = fellows_of(seed, "a", "b", store=store)
    fellows.say()
    wire.told.clear()
    for digest in ("a", "b", "f", "g"):
        wire.papers.append(("a", {"paper": "get", "digest": digest, "offset": 0}))
    fellows.news()
    assert [data["digest"] for _, paper, data in wire.told if paper == "blob"] == ["a", "f"]


def link(cob: str, on: str | None = None) -> dict[str, Any]:
    return {"cob": cob, "on": on}


def test_chains_go_on_at_the_object_of_another_owner() -> None:
    waits = [
        {"cob": "a/x", "chain": [link("a/x", "b/x")]},
        {"cob": "b/x", "chain": [link("b/x", "c/x")]},
        {"cob": "c/x", "chain": [link("c/x")]},
        {"cob": "d/x", "chain": [link("d/x", "e/x")]},
        {"cob": "e/x", "chain": [link("e/x", "d/x")]},
    ]
    found = {it["cob"]: [each["cob"] for each in it["chain"]] for it in joined(waits)}
    assert found["a/x"] == ["a/x", "b/x", "c/x"]
    assert found["d/x"] == ["d/x", "e/x"]


def test_an_event_has_what_events_have_and_nothing_else(seed: Path) -> None:
    fellows, wire = fellows_of(seed, "a")
    data = {**STATE[3], "type": "x", "seq": 1, "time": 0, "result": "failed", "message": "m"}
    wire.papers.append(("a", report(events=[[1, 1, "cob.state", data, {}]], at=(1, 1))))
    assert fellows.news() == [("cob.state", {**STATE[3], "message": "m"})]


STATE: list[Any] = [1, 1, "cob.state", {"cob": "a/x", "state": "up", "reason": "check"}, {}]


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "asleep"},
        {"waits": 1},
        {"waits": [{"cob": "a/x", "state": "up", "message": "", "chain": [{"cob": "a/x"}]}]},
        {"said": [1]},
        {"at": 3},
        {"events": [STATE[:3]]},
        {"events": [[1, 1, "run.end", {"result": "ok"}, {}]]},
        {"events": [[1, 1, "cob.state", {"cob": "a/x", "state": 3, "reason": "check"}, {}]]},
        {"events": [[1, 1, "cob.state", {"cob": "b/x", "state": "up", "reason": "check"}, {}]]},
        {"events": [[1, 1, "cob.state", {"cob": "a/x", "state": "up"}, {}]]},
        {"events": [[1, "x", *STATE[2:]]]},
        {"epoch": "7"},
        {"at": [float("inf"), 1]},
        {"events": [[1, 1, "check.end", {"cob": "a/x", "state": "up", "result": "z"}, {}]]},
        {"events": [[1, 1, "host.unreachable", {"host": "b"}, {}]]},
    ],
    ids=str,
)
def test_what_is_no_report_is_left_alone(seed: Path, change: dict[str, Any]) -> None:
    """Who has the key of an agent can say anything, and of its own objects only."""
    fellows, wire = fellows_of(seed, "a")
    wire.papers.append(("a", report(events=[STATE], at=(1, 1)) | change))
    assert fellows.news() == []
    assert not fellows.at_rest()
    wire.papers.append(("a", report(events=[STATE], at=(1, 1))))
    assert fellows.news() == [("cob.state", STATE[3])]
    assert fellows.at_rest()


def test_an_agent_says_nothing_of_the_waits_of_others(seed: Path) -> None:
    fellows, wire = fellows_of(seed, "a")
    link: dict[str, Any] = {
        "cob": "a/x",
        "kind": "failed",
        "on": None,
        "state": "",
        "detail": "",
        "together": [],
    }
    waits = [{"cob": it, "state": "up", "message": "", "chain": [link]} for it in ("a/x", "b/x")]
    wire.papers.append(("a", report(settled=False, waits=waits)))
    fellows.news()
    assert [it["cob"] for it in fellows.waits()] == ["a/x"]
