"""Words between kernels: what is sent is read again, and what is no word is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cobweb.cli.schema import read_schema
from cobweb.engine import Message, MessageKind
from cobweb.kernel._mail import PROTOCOL, Hello, decoded, encoded
from cobweb.model import CobId

LIVES = st.integers(1)
NAMES = st.text(max_size=5)
MESSAGES = st.builds(
    Message,
    kind=st.sampled_from(MessageKind),
    sender=NAMES.map(CobId),
    receiver=NAMES.map(CobId),
    state=NAMES,
    incarnation=st.integers(0, 9),
    seq=st.integers(0, 9),
    generation=st.integers(0, 9),
    known=st.integers(0, 9),
    slots=st.lists(st.lists(st.tuples(NAMES, NAMES), max_size=2).map(tuple), max_size=2).map(tuple),
)
WORD = {
    "protocol": 1,
    "life": 4,
    "kind": "request",
    "sender": "a/x",
    "receiver": "b/y",
    "state": "up",
    "incarnation": 1,
    "seq": 2,
    "generation": 3,
    "known": 0,
    "slots": [[["limit", "unit"]]],
}


HELLO = {"protocol": 1, "kind": "hello", "life": 4, "goal": "g", "heard": 0, "asks": True}


SCHEMA = Draft202012Validator(read_schema("message"))


@given(MESSAGES, LIVES)
def test_a_word_that_is_sent_is_read_again(message: Message, life: int) -> None:
    assert decoded(encoded(message, life)) == (life, message)
    SCHEMA.validate(json.loads(encoded(message, life)))


@given(st.builds(Hello, life=LIVES, goal=NAMES, heard=st.integers(0), asks=st.booleans()))
def test_a_greeting_that_is_sent_is_read_again(hello: Hello) -> None:
    assert decoded(encoded(hello)) == (hello.life, hello)
    SCHEMA.validate(json.loads(encoded(hello)))


@pytest.mark.parametrize("more", [{}, {"more": 1}, {"later": {"kind": []}}], ids=str)
def test_what_is_written_is_read_whatever_else_it_says(more: dict[str, Any]) -> None:
    """A later version may say more."""
    life, message = decoded(json.dumps(WORD | more).encode()) or (0, None)
    assert life == 4
    assert isinstance(message, Message)
    assert message.slots == ((("limit", "unit"),),)
    _, hello = decoded(json.dumps(HELLO | more).encode()) or (0, None)
    assert hello == Hello(life=4, goal="g", heard=0, asks=True)


def test_a_word_of_a_later_version_is_none_and_its_greeting_is_one() -> None:
    """Who greets in a later version is answered, and speaks ours from then on."""
    later = {"protocol": PROTOCOL + 1}
    assert decoded(json.dumps(WORD | later).encode()) is None
    assert decoded(json.dumps(HELLO | later).encode()) == (
        4,
        Hello(life=4, goal="g", heard=0, asks=True, protocol=PROTOCOL + 1),
    )


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "beg"},
        {"sender": 5},
        {"state": None},
        {"seq": True},
        {"seq": 1.0},
        {"protocol": 0},
        {"protocol": "1"},
        {"life": None},
        {"slots": None},
        {"slots": ["ab"]},
        {"slots": [["ab"]]},
        {"slots": [[["limit", 1]]]},
        {"slots": [[["limit"]]]},
        {"slots": [[["limit", "unit", "more"]]]},
        {"slots": [[{"limit": 1, "unit": 2}]]},
        {"slots": {}},
    ],
    ids=str,
)
def test_what_is_no_word_is_none(change: dict[str, Any]) -> None:
    assert decoded(json.dumps(WORD | change).encode()) is None
    for name in change.keys() & WORD.keys():
        assert decoded(json.dumps({k: v for k, v in WORD.items() if k != name}).encode()) is None


@pytest.mark.parametrize(
    "change",
    [{"protocol": 0}, {"life": 1.5}, {"goal": None}, {"heard": "0"}, {"asks": 1}],
    ids=str,
)
def test_what_is_no_greeting_is_none(change: dict[str, Any]) -> None:
    assert decoded(json.dumps(HELLO | change).encode()) is None
    for name in change:
        assert decoded(json.dumps({k: v for k, v in HELLO.items() if k != name}).encode()) is None


@pytest.mark.parametrize("data", [b"", b"[]", b'"x"', b"1", b"{", b"null", b"\xff", b"[" * 5000])
def test_what_is_no_object_is_none(data: bytes) -> None:
    assert decoded(data) is None
