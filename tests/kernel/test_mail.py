"""Owners greet each other: what counts, what is said at once again, and when nobody says more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest

from cobweb.engine import Message, MessageKind, Send
from cobweb.kernel import _mail
from cobweb.kernel._mail import Hello, Mail, Part, decoded, encoded
from cobweb.model import Budget, CobId, Graph, Unit
from tests.support.graphs import graph_of

A, B, C = CobId("x/a"), CobId("y/b"), CobId("z/c")
GRAPH = graph_of("x/a y/b z/c", "x/a down>up y/b up")
OWNERS = {"x": "east", "y": "west", "z": "north"}
WORD = Message(
    kind=MessageKind.REQUEST, sender=A, receiver=B, state="up", incarnation=1, seq=1, generation=0
)
LATE_S = 1_000.0
"""A time at which the pause between two repetitions has been the longest for long."""


@dataclass
class Wire:
    """A transport that keeps what is sent until it is taken; `joined` is that of all its links."""

    name: ClassVar[str] = "wire"
    boxes: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    joined: int = 1

    def connect(self, _address: str, owner: str, _wake: Callable[[], None]) -> End:
        return End(self, owner)


@dataclass
class End:
    """The end of one owner."""

    wire: Wire
    owner: str

    @property
    def joined(self) -> int:
        return self.wire.joined

    def send(self, owner: str, message: bytes) -> None:
        self.wire.boxes.setdefault(owner, []).append((self.owner, message))

    def receive(self) -> Sequence[tuple[str, bytes]]:
        return self.wire.boxes.pop(self.owner, [])

    def close(self) -> None:
        pass


class Owner:
    """The mail of one owner, and what its engine has said last."""

    def __init__(
        self, wire: Wire, name: str, life: int = 1, goal: str = "one", graph: Graph = GRAPH
    ) -> None:
        self.wire, self.name = wire, name
        self.said: list[str] = []
        self.words: list[Message] = []
        part = Part(
            owner=name, lender="east", transport=wire, owners=OWNERS, incarnation=life, goal=goal
        )
        self.mail = Mail(part, graph, lambda: None, self.said.append)

    def step(self, now_s: float) -> list[Message]:
        """Take in what has come, say what is due; return the words that count."""
        heard = list(self.mail.receive())
        self.mail.again(now_s, lambda: [Send(it) for it in self.words])
        self.mail.send()
        return heard

    def put(self, message: Message) -> None:
        self.words.append(message)
        self.mail.put(message)


def settle(*owners: Owner, now_s: float) -> list[Message]:
    """Step all until nobody says anything; return the words that counted."""
    heard: list[Message] = []
    for _ in range(20):
        for each in owners:
            heard += each.step(now_s)
        if not any(owners[0].wire.boxes.get(it.name) for it in owners):
            return heard
    raise AssertionError("they greet each other without an end")


def waiting(wire: Wire, owner: str) -> list[Message | Hello]:
    """Return what is on its way to an owner."""
    return [it[1] for _, data in wire.boxes.get(owner, ()) if (it := decoded(data))]


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_who_begins_greets_those_of_linked_objects_alone(wire: Wire) -> None:
    Owner(wire, "east").step(LATE_S)
    assert wire.boxes.keys() == {"west"}
    assert waiting(wire, "west") == [Hello(life=1, goal="one", heard=0, asks=True)]


def test_who_keeps_a_limit_is_linked_to_all_that_it_counts() -> None:
    budget = Budget(name="two", units=(Unit(name="z", members=frozenset({C})),))
    graph = replace(GRAPH, budgets=(budget,))
    part = Part(owner="east", lender="east", transport=Wire(), owners=OWNERS)
    assert set(part.neighbours(graph)) == {"west", "north"}
    assert set(replace(part, owner="north").neighbours(graph)) == {"east"}


def test_two_that_begin_hear_each_other_and_then_say_nothing(wire: Wire) -> None:
    east, west = Owner(wire, "east"), Owner(wire, "west")
    east.put(WORD)
    assert settle(east, west, now_s=LATE_S).count(WORD) >= 1
    assert settle(east, west, now_s=LATE_S) == []
    east.put(replace(WORD, seq=2))
    assert settle(east, west, now_s=LATE_S) == [replace(WORD, seq=2)]


def test_a_new_life_is_told_all_at_once(wire: Wire) -> None:
    """Nobody waits for the time at which all is said again."""
    east, west = Owner(wire, "east"), Owner(wire, "west")
    east.put(WORD)
    settle(east, west, now_s=LATE_S)
    new = Owner(wire, "west", life=2)
    assert WORD in settle(new, east, now_s=LATE_S)


def test_only_who_asks_is_told_all_again(wire: Wire) -> None:
    graph = graph_of("x/a y/b z/c", "x/a down>up y/b up", "x/a down>up z/c up")
    east, west, north = (Owner(wire, it, graph=graph) for it in ("east", "west", "north"))
    east.put(WORD)
    east.put(replace(WORD, receiver=C))
    settle(east, west, north, now_s=LATE_S)
    new = Owner(wire, "west", life=2, graph=graph)
    heard = settle(new, east, north, now_s=LATE_S)
    assert WORD in heard
    assert replace(WORD, receiver=C) not in heard


def test_what_was_said_before_the_greeting_counts_for_nothing(wire: Wire) -> None:
    east, west = Owner(wire, "east"), Owner(wire, "west")
    wire.boxes["west"] = [("east", encoded(WORD, 1))]
    assert west.step(LATE_S) == []
    assert west.mail.dropped == 1
    assert east.step(LATE_S) == []  # it was greeted meanwhile


def test_the_words_of_an_earlier_life_count_for_nothing(wire: Wire) -> None:
    east, west = Owner(wire, "east", life=2), Owner(wire, "west")
    settle(east, west, now_s=LATE_S)
    wire.boxes["west"] = [("east", encoded(WORD, 1))]
    wire.boxes["west"].append(("east", encoded(Hello(life=1, goal="one", heard=1, asks=True))))
    assert west.step(LATE_S) == []
    assert west.mail.dropped == 2
    assert not wire.boxes.get("east")  # nor is an old greeting answered


def test_a_word_of_a_life_that_was_not_greeted_in_asks_for_the_greeting(wire: Wire) -> None:
    east, west = Owner(wire, "east"), Owner(wire, "west")
    settle(east, west, now_s=LATE_S)
    wire.boxes["west"] = [("east", encoded(WORD, 2))]
    assert west.step(2 * LATE_S) == []
    assert waiting(wire, "east") == [Hello(life=1, goal="one", heard=1, asks=True)]


def test_owners_of_other_goals_do_not_hear_each_other_and_say_so(wire: Wire) -> None:
    east, west = Owner(wire, "east", goal="one"), Owner(wire, "west", goal="two")
    east.put(WORD)
    assert settle(east, west, now_s=LATE_S) == []
    wire.boxes["west"] = [("east", encoded(WORD, 1))]
    assert west.step(LATE_S) == []
    for each, ours, theirs in ((east, "one", "two"), (west, "two", "one")):
        (note,) = each.said
        assert f"brings about {theirs}, this owner {ours};" in note
    new = Owner(wire, "west", life=2, goal="one")
    assert WORD in settle(new, east, now_s=LATE_S)
    assert len(east.said) == 1


def test_a_link_that_was_lost_has_all_said_again(wire: Wire) -> None:
    east, west = Owner(wire, "east"), Owner(wire, "west")
    east.put(WORD)
    settle(east, west, now_s=LATE_S)
    wire.joined += 1
    assert WORD in settle(east, west, now_s=LATE_S)


def test_a_late_greeting_is_no_answer_to_a_new_life(wire: Wire) -> None:
    """It was said to the life before: the other has yet to hear of this one."""
    east = Owner(wire, "east", life=2)
    east.step(LATE_S)
    wire.boxes = {"east": [("west", encoded(Hello(life=1, goal="one", heard=1, asks=False)))]}
    east.step(2 * LATE_S)
    wire.boxes.clear()
    east.step(3 * LATE_S)
    assert Hello(life=2, goal="one", heard=1, asks=True) in waiting(wire, "west")


def test_a_lost_greeting_is_said_again(wire: Wire) -> None:
    east, west = Owner(wire, "east"), Owner(wire, "west")
    east.put(WORD)
    for step in range(6):  # each second one is lost
        east.step(LATE_S * step)
        if step % 2:
            wire.boxes.clear()
        west.step(LATE_S * step)
    assert WORD in settle(east, west, now_s=10 * LATE_S)


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        ("east", replace(WORD, sender=C)),
        ("north", WORD),
        ("east", replace(WORD, receiver=C)),
        ("east", replace(WORD, sender=B)),
    ],
)
def test_nobody_speaks_for_what_is_not_his(wire: Wire, sender: str, message: Message) -> None:
    owners = {name: Owner(wire, name) for name in ("east", "west", "north")}
    settle(*owners.values(), now_s=LATE_S)
    wire.boxes["west"] = [
        (sender, encoded(Hello(life=1, goal="one", heard=1, asks=False))),
        (sender, encoded(message, 1)),
    ]
    assert owners["west"].step(LATE_S) == []
    assert owners["west"].mail.dropped == 1


@pytest.mark.parametrize("sender", ["west", "south", ""])
def test_who_is_no_other_owner_is_not_greeted(wire: Wire, sender: str) -> None:
    west = Owner(wire, "west")
    west.step(LATE_S)
    wire.boxes = {"west": [(sender, encoded(Hello(life=1, goal="one", heard=0, asks=True)))]}
    west.step(LATE_S)
    assert west.mail.dropped == 1
    assert wire.boxes == {}


def test_who_knows_a_later_version_speaks_that_of_the_other(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, west = Owner(wire, "east"), Owner(wire, "west")
    settle(east, west, now_s=LATE_S)
    monkeypatch.setattr(_mail, "PROTOCOL", 2)
    hello = Hello(life=2, goal="one", heard=1, asks=False, protocol=1)
    wire.boxes["east"] = [("west", encoded(hello))]
    east.step(LATE_S)
    east.put(WORD)
    east.step(LATE_S)
    assert b'"protocol": 1' in wire.boxes["west"][-1][1]
    later = replace(hello, life=3, protocol=3)
    wire.boxes = {"east": [("west", encoded(later))]}
    east.step(LATE_S)
    east.put(WORD)
    east.step(LATE_S)
    assert b'"protocol": 2' in wire.boxes["west"][-1][1]


def test_what_is_never_heard_of_is_not_told_words(wire: Wire) -> None:
    """Words to an owner that may not be there are not made; its greeting brings them."""
    east = Owner(wire, "east")
    words: Iterable[Message] = (replace(WORD, seq=n) for n in range(50))
    for word in words:
        east.put(word)
    east.step(LATE_S)
    assert [type(it) for it in waiting(wire, "west")] == [Hello]
