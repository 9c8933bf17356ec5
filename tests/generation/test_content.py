"""Redaction, canonical JSON and digests."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import Place
from cobweb.generation import canonical_json, content_of, contents, digest, redact
from cobweb.model import Cob, CobId, CobType, Graph, Nothing, Tasks, Transition

VAULTED = {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n61626364\n65666768\n"}

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def a_type(name: str = "file", *, check: str = "/a/check.yml", states: int = 2) -> CobType:
    return CobType(
        name=name,
        states=("up", "down", "gone")[:states],
        preferred="up",
        remove="down",
        check=Tasks(path=check),
        transitions=(Transition(source="down", dest="up", action=Nothing()),),
    )


def a_cob(spec: Mapping[str, Any], kind: CobType | None = None) -> Cob:
    return Cob(id=CobId("h/a"), type=kind or a_type(), spec=spec)


# --- redaction


def test_vault_mark_becomes_a_digest_of_its_text() -> None:
    value = redact({"users": [{"password": VAULTED, "name": "ann"}]})
    assert value == {
        "users": [
            {
                "password": {"__cobweb_secret": value["users"][0]["password"]["__cobweb_secret"]},
                "name": "ann",
            }
        ]
    }
    assert value["users"][0]["password"]["__cobweb_secret"].startswith("sha256:")
    assert "6162" not in json.dumps(value)


def test_layout_of_the_cipher_text_is_no_part_of_it() -> None:
    text = VAULTED["__ansible_vault"]
    assert redact({"__ansible_vault": text.replace("\n", "\r\n   ")}) == redact(VAULTED)
    assert redact({"__ansible_vault": text.replace("61", "62")}) != redact(VAULTED)


def test_mapping_with_more_than_the_mark_is_no_secret() -> None:
    value = {**VAULTED, "else": 1}
    assert redact(value) == value


@given(plain)
def test_redaction_is_done_once(value: Any) -> None:
    once = redact({"value": value, "secret": VAULTED})
    assert digest(redact(once)) == digest(once)


def test_foreign_mappings_and_tuples_become_plain() -> None:
    value = redact(MappingProxyType({"a": (1, MappingProxyType({"b": None}))}))
    assert value == {"a": [1, {"b": None}]}
    assert type(value) is dict


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, {"a": object()}, {("a",): 1}])
def test_what_is_no_plain_data_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="plain data"):
        redact(value)
    with pytest.raises(TypeError, match="plain data"):
        canonical_json(value)


# --- canonical JSON


def test_canonical_json_has_one_spelling() -> None:
    value = {"b": [1, 2.5, True, None], "a": "é\x00", 10: "ten", None: 0, True: 1, 1.5: 2}
    assert canonical_json(value) == (
        '{"1.5":2,"10":"ten","a":"\\u00e9\\u0000","b":[1,2.5,true,null],"null":0,"true":1}'
    )


@given(st.dictionaries(st.text(), plain, max_size=6), st.randoms())
def test_order_of_keys_means_nothing(value: dict[str, Any], order: Any) -> None:
    items = list(value.items())
    order.shuffle(items)
    assert canonical_json(dict(items)) == canonical_json(value)


@given(plain)
def test_canonical_json_is_json_of_the_same_value(value: Any) -> None:
    text = canonical_json(value)
    assert text.isascii()
    assert canonical_json(json.loads(text)) == text


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_without_json_are_written_as_words(number: float) -> None:
    assert canonical_json([number]) == f'[{{"__cobweb_float":"{number}"}}]'


def test_keys_that_become_one_are_refused() -> None:
    with pytest.raises(ValueError, match="two keys"):
        canonical_json({80: "a", "80": "b"})


def test_subclasses_and_foreign_mappings_are_written_as_what_they_are() -> None:
    """Templates give strings of their own kind; a named tuple is a list."""
    text, pair = type("Text", (str,), {}), type("Pair", (tuple,), {})
    value = MappingProxyType({text("a"): text("é"), "b": pair((1, text("x")))})
    assert canonical_json(value) == '{"a":"\\u00e9","b":[1,"x"]}'


def test_vault_marks_stay_in_canonical_json() -> None:
    assert json.loads(canonical_json(VAULTED)) == VAULTED


# --- digests


def test_digest_is_sha256_of_the_canonical_json() -> None:
    # printf '{"a":1}' | sha256sum
    expected = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert digest({"a": 1}) == expected


@pytest.mark.parametrize("other", [{"a": 2}, {"a": "1"}, {"a": True}, {"a": 1.0}, {"a": None}, {}])
def test_another_value_has_another_digest(other: Any) -> None:
    assert digest(other) != digest({"a": 1})


def test_content_is_spec_and_name_of_the_type() -> None:
    content = content_of(a_cob({"path": "/x", "key": VAULTED}))
    assert content == content_of(a_cob({"key": VAULTED, "path": "/x"}))
    assert content != content_of(a_cob({"path": "/y", "key": VAULTED}))
    assert content != content_of(a_cob({"path": "/x", "key": "open"}))
    assert content != content_of(a_cob({"path": "/x", "key": VAULTED}, a_type("tree")))


def test_how_the_type_works_and_where_it_is_written_are_no_content() -> None:
    content = content_of(a_cob({}))
    assert content == content_of(a_cob({}, a_type(check="/b/check.yml", states=3)))
    elsewhere = Cob(id=CobId("h/b"), type=a_type(), spec={}, place=Place(file="x.yml", line=3))
    assert content == content_of(elsewhere)


def test_contents_of_a_graph_are_by_id() -> None:
    one, two = CobId("h/a"), CobId("h/b")
    cobs = {id_: Cob(id=id_, type=a_type(), spec={"id": id_}) for id_ in (one, two)}
    assert contents(Graph(cobs=cobs)) == {one: content_of(cobs[one]), two: content_of(cobs[two])}
