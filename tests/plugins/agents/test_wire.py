"""The link that words and papers share: words take along what they may rest on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from cobweb_plugins.agents._wire import Mark, Wire

NONSENSE = (
    b"nonsense",
    b"[]",
    b"[" * 100_000,
    b'{"after": {}}',
    b'{"after": {}, "kind": "hello", "life": "x"}',
    b'{"after": {}, "kind": "grant", "life": 0}',
    b'{"after": {"db": [1e999, 1]}}',
    b'{"after": {"db": 1}}',
)


class FakeLink:
    """A link on which nothing goes anywhere."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.came: list[tuple[str, bytes]] = []
        self.is_closed = False

    def send(self, owner: str, message: bytes) -> None:
        self.sent.append((owner, json.loads(message)))

    def receive(self) -> Sequence[tuple[str, bytes]]:
        came, self.came = self.came, []
        return came

    def close(self) -> None:
        self.is_closed = True


def word(kind: str = "request", **more: Any) -> dict[str, Any]:
    made = {"life": 1, "protocol": 1, "kind": kind, "sender": "a/x", "receiver": "b/x"}
    return {**made, "state": "up", "incarnation": 1, "seq": 1, **more}


def wire_of(owner: str = "b", *, is_kept: bool = True) -> tuple[Wire, FakeLink]:
    link = FakeLink()

    def connect(_wake: Callable[[], None]) -> Any:
        return link

    wire = Wire(connect, owner, is_kept=is_kept)
    wire.connect("", "", lambda: None)
    wire.begin(3)
    return wire, link


def test_papers_are_no_words() -> None:
    wire, link = wire_of()
    link.came = [
        ("a", json.dumps({"paper": "order", "x": 1}).encode()),
        ("a", json.dumps(word(after={})).encode()),
        *(("a", it) for it in NONSENSE),
    ]
    words = [data for _, data in wire.receive()]
    assert set(NONSENSE) < set(words)  # which the kernel counts
    assert [json.loads(it)["kind"] for it in words if it not in NONSENSE] == ["request"]
    assert list(wire.papers) == [("a", {"paper": "order", "x": 1})]


def test_a_word_names_the_last_event_of_its_speaker_and_what_it_has_heard_since() -> None:
    wire, link = wire_of()
    wire.send("c", json.dumps(word()).encode())
    assert link.sent.pop()[1]["after"] == {}
    wire.at = (3, 2)
    link.came = [("a", json.dumps(word(after={"a": [1, 5], "b": [2, 9]})).encode())]
    wire.receive()
    wire.send("c", json.dumps(word()).encode())
    assert link.sent.pop()[1]["after"] == {"a": [1, 5], "b": [3, 2]}
    assert wire.pending == {"a": (1, 5)}


def test_a_word_is_held_until_it_may_be_heard() -> None:
    wire, link = wire_of()
    told: dict[str, Mark] = {}
    wire.may_hear = lambda marks: all(told.get(it, (0, 0)) >= mark for it, mark in marks.items())
    link.came = [("a", json.dumps(word(after={"a": [1, 5]})).encode())]
    assert not wire.receive()
    assert wire.has_held()
    told["a"] = (1, 5)
    assert len(wire.receive()) == 1
    assert not wire.has_held()


def test_both_ends_have_one_digest_of_what_was_said() -> None:
    mine, link = wire_of("a")
    theirs, other = wire_of("b")
    for said in (word("hello"), word(), word(seq=2), word("grant", sender="a/y")):
        mine.send("b", json.dumps(said).encode())
    came = [("a", json.dumps(made).encode()) for _, made in link.sent]
    other.came = [came[1], came[0], came[3]]  # the first one before its life was known
    theirs.receive()
    assert mine.digests()[0]["b"] != theirs.digests()[1]["a"]
    other.came = [came[2]]
    theirs.receive()
    assert mine.digests()[0]["b"] == theirs.digests()[1]["a"]
    hello = json.dumps(word("hello", life=2)).encode()
    mine.begin(4)
    mine.send("b", hello)
    assert mine.digests()[0]["b"] != theirs.digests()[1]["a"]  # a lost greeting is missed as well
    other.came = [("a", json.dumps(word("hello", life=2, after={})).encode()), came[2]]
    theirs.receive()
    assert mine.digests()[0]["b"] == theirs.digests()[1]["a"]  # of a new life no word was heard yet


def test_a_kept_link_outlives_its_kernel() -> None:
    for is_kept in (True, False):
        wire, link = wire_of(is_kept=is_kept)
        wire.close()
        assert link.is_closed is not is_kept
