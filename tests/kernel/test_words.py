"""Words between kernels: what is sent is read again, and what is no word is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import Message, MessageKind
from cobweb.kernel._mail import decoded, encoded
from cobweb.model import CobId

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


@given(MESSAGES)
def test_a_word_that_is_sent_is_read_again(message: Message) -> None:
    assert decoded(encoded(message)) == message


def test_a_word_as_it_is_written_is_one() -> None:
    message = decoded(json.dumps(WORD).encode())
    assert message is not None
    assert message.slots == ((("limit", "unit"),),)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "beg"},
        {"sender": 5},
        {"state": None},
        {"seq": True},
        {"seq": 1.0},
        {"more": 1},
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
