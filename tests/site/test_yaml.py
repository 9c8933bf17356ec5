"""The reader of strict YAML: nothing turns silently into something else."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cobweb.site.reading._nodes import Leaf, Map, Priority, Seq, plain
from cobweb.site.reading._yaml import MAX_DEPTH, read_yaml


def read(text: str) -> Any:
    node, findings = read_yaml(text.encode(), "f.yml")
    assert not findings
    assert node is not None
    return plain(node)


def wrong(text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [str(finding) for finding in read_yaml(data, "f.yml")[1]]


@pytest.mark.parametrize(
    "text",
    [
        *("NO", "no", "Yes", "on", "OFF", "y", "n", "0644", "00", "22:22", "1:2:3", "1_000"),
        *("0x10", "0o17", "0b1", "2024-01-01", "2001-12-14t21:59:43.10-05:00", "1.10", "1e3"),
        *(".inf", ".NaN", "+5", "-0", "1.", ".5", "=", "<", "1.0.0", "12345678901234567890"),
        *("1" * 5000, "tRuE", "nULL", "٣"),
    ],
)
def test_what_looks_like_something_else_stays_text(text: str) -> None:
    assert read(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("true", True),
            ("True", True),
            ("FALSE", False),
            ("null", None),
            ("~", None),
            ("", None),
        ),
        *(("0", 0), ("8080", 8080), ("-7", -7), ("1.5", 1.5), ("-0.25", -0.25), ("10.0", 10.0)),
        *(('"8080"', "8080"), ("'true'", "true"), ("!!str 12", "12")),
        *(("!!int 12", 12), ("!!bool true", True), ("!!float 1.5", 1.5), ("!!null null", None)),
    ],
)
def test_core_scalars_are_what_they_say(text: str, value: object) -> None:
    found = read(f"a: {text}")["a"]
    assert found == value
    assert type(found) is type(value)


@given(st.integers(-(10**17), 10**17) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_one_only_if_it_is_written_back_the_same(number: float) -> None:
    found = read(f"a: {number}")["a"]
    assert str(found) == str(number)
    assert isinstance(found, type(number) | str)


# PyYAML writes the line breaks of YAML 1.1 (NEL, LS, PS) in a way that it cannot read back itself.
texts = st.text(st.characters(exclude_characters="\x85\u2028\u2029", exclude_categories=["Cs"]))
plain_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(texts, plain_values, max_size=4))
def test_what_pyyaml_writes_is_read_back(value: dict[str, Any]) -> None:
    assert read(yaml.safe_dump(value, allow_unicode=True)) == value


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_give_a_document_or_findings_never_an_exception(data: bytes) -> None:
    node, findings = read_yaml(data, "f.yml")
    assert node is None or isinstance(node, Leaf | Map | Seq)
    assert all(finding.place.file == "f.yml" and finding.message for finding in findings)


def test_places_count_from_one_and_in_characters() -> None:
    node, _ = read_yaml("ä: {ö: x,\n  b: [1, {c: y}]}\n".encode(), "f.yml")
    assert isinstance(node, Map)
    top = node.items["ä"]
    assert isinstance(top, Map)
    assert str(top.keys["ö"]) == "f.yml:1:5"
    assert str(top.items["ö"].place) == "f.yml:1:8"
    listed = top.items["b"]
    assert isinstance(listed, Seq)
    inner = listed.items[1]
    assert isinstance(inner, Map)
    assert str(inner.items["c"].place) == "f.yml:2:14"


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert read("\ufeffa: 1") == {"a": 1}


def test_tags_of_priority_are_kept_beside_the_value() -> None:
    node, findings = read_yaml(b"a: !default 1\nb: !force [x]\nc: !default {d: 1}\ne: 2", "f.yml")
    assert not findings
    assert isinstance(node, Map)
    assert plain(node) == {"a": 1, "b": ["x"], "c": {"d": 1}, "e": 2}
    found = {key: item.priority for key, item in node.items.items()}
    assert found == {
        "a": Priority.DEFAULT,
        "b": Priority.FORCE,
        "c": Priority.DEFAULT,
        "e": Priority.NORMAL,
    }


def test_a_vaulted_value_becomes_a_mark() -> None:
    text = "a: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3132\n"
    mark = {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n3132\n"}
    assert read(text) == {"a": mark}


def test_anchors_and_merge_keys_work() -> None:
    text = "base: &b {x: 1, y: 2}\none: {<<: *b, x: 3}\ntwo: {<<: [*b, {z: 4}]}\nthree: *b\n"
    found = read(text)
    assert found["one"] == {"x": 3, "y": 2}
    assert found["two"] == {"x": 1, "y": 2, "z": 4}
    assert found["three"] == {"x": 1, "y": 2}


def test_keys_can_be_anchors_and_aliases() -> None:
    assert read("&k a: 1\nb: *k\nc: [*k, *k]") == {"a": 1, "b": "a", "c": ["a", "a"]}
    assert read("a: &v x\n*v : 1") == {"a": "x", "x": 1}
    assert wrong("a: &v x\n*v : 1\nx: 2") == ["f.yml:3:1: `x` is written twice (first in line 1)"]


def test_what_is_no_value_is_read_over() -> None:
    assert wrong("? [a, {b: !odd c}]\n: 1\nd: 2") == [
        "f.yml:1:3: a key must be text (put quotes round a template)"
    ]
    assert wrong("a: 1\na: {b: !odd c}\nd: 2") == [
        "f.yml:2:1: `a` is written twice (first in line 1)"
    ]


def test_an_anchor_is_set_once_and_before_its_aliases() -> None:
    assert wrong("a: &x 1\nb: &x 2") == [
        "f.yml:2:4: this is not YAML: the anchor `x` is there twice (give one of them another name)"
    ]
    assert wrong("a: *x\nb: &x 2") == [
        (
            "f.yml:1:4: this is not YAML: found undefined alias"
            " (name an anchor that stands before it in the same file)"
        )
    ]
    assert wrong("a: &x [*x]") == [
        "f.yml:1:4: a value that contains itself (write it without the alias)"
    ]


def test_a_merge_key_takes_mappings_only() -> None:
    assert wrong("a: &a [1]\nb: {<<: *a}") != []
    assert "`<<` takes mappings, not text" in wrong("b: {<<: x}")[0]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: 1\na: 2", "f.yml:2:1: `a` is written twice (first in line 1)"),
        ("a: {b: 1, 'b': 2}", "f.yml:1:11: `b` is written twice"),
        ("1: x\n'1': y", "f.yml:2:1: `1` is written twice"),
        ("a: !secret x", "f.yml:1:4: unknown tag `!secret`"),
        ("a: !!set {x: }", "f.yml:1:4: unknown tag `!!set`"),
        ("a: !!binary aGk=", "unknown tag `!!binary`"),
        ("a: !!int 0x10", "`0x10` is no int"),
        ("!force a: 1", "a key cannot have the tag `!force`"),
        ("? [a]\n: 1", "a key must be text"),
        ("a: b: c", "mapping values are not allowed"),
        ("a: @x", "cannot start any token"),
        ("a: 1\n---\nb: 2", "write one document per file"),
        ("a: *b", "undefined alias"),
        ("a: &a [*a]", "a value that contains itself"),
        ("a: \x01", "control characters"),
    ],
)
def test_mistakes_have_their_place(text: str, part: str) -> None:
    assert any(part in finding for finding in wrong(text)), wrong(text)


def test_foreign_encodings_are_found_at_the_first_wrong_byte() -> None:
    assert wrong(b"a: 1\nb: \xfc") == ["f.yml:2:4: the file is not UTF-8 (save it as UTF-8)"]
    assert "not UTF-8" in wrong("a: 1".encode("utf-16"))[0]


@pytest.mark.parametrize("text", ["[" * 50_000, "- " * 50_000 + "x", "{a: " * 50_000])
def test_deep_nesting_does_not_end_the_process(text: str) -> None:
    assert len(wrong(text)) == 1


def test_nesting_up_to_the_limit_is_read() -> None:
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None


def test_an_empty_document_is_nothing() -> None:
    assert read_yaml(b"", "f.yml") == (None, ())
    assert read_yaml(b"# only words\n", "f.yml") == (None, ())
