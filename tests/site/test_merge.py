"""Modules merge by key, by concatenation and by priority."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import Place
from cobweb.site._modules import merge
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Map, Node, Priority, Seq, plain

HERE = Place(file="f.yml", line=1, column=1)


def build(value: Any, priority: Priority = Priority.NORMAL) -> Node:
    if isinstance(value, dict):
        items = {key: build(item) for key, item in value.items()}
        return Map(items=items, place=HERE, priority=priority)
    if isinstance(value, list):
        return Seq(items=tuple(map(build, value)), place=HERE, priority=priority)
    return Leaf(value=value, place=HERE, priority=priority)


def merged(*nodes: Node) -> tuple[Any, list[str]]:
    findings = Findings()
    value = plain(merge(nodes, findings, "x"))
    return value, [finding.message for finding in findings.sorted()]


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
    """Draw mappings of mappings in which one path always has one kind of value."""
    level = st.dictionaries(st.sampled_from("ab"), leaves, max_size=2)
    deep = st.fixed_dictionaries({}, optional={"m": level, "n": level})
    return deep.map(build)


def lift(node: Node) -> Node:
    """Undo the wrapping of leaves that were nodes already."""
    if isinstance(node, Map):
        return replace(node, items={key: lift(item) for key, item in node.items.items()})
    return node.value if isinstance(node, Leaf) and isinstance(node.value, Leaf) else node


lists = trees(st.lists(st.integers(0, 3), max_size=2))
prioritised = trees(
    st.builds(
        Leaf,
        value=st.integers(0, 2),
        place=st.just(HERE),
        priority=st.sampled_from(Priority),
    )
).map(lift)


@given(lists, lists, lists)
def test_merging_is_associative(one: Node, two: Node, three: Node) -> None:
    findings = Findings()
    left = merge([merge([one, two], findings), three], findings)
    right = merge([one, merge([two, three], findings)], findings)
    assert plain(left) == plain(right) == plain(merge([one, two, three], findings))
    assert not findings


@given(st.lists(prioritised, min_size=1, max_size=4), st.randoms())
def test_without_lists_the_order_of_modules_changes_nothing(nodes: list[Node], chance: Any) -> None:
    shuffled = list(nodes)
    chance.shuffle(shuffled)
    value, findings = merged(*nodes)
    other, other_findings = merged(*shuffled)
    assert bool(findings) == bool(other_findings)
    if not findings:
        assert value == other


@given(prioritised)
def test_merging_with_itself_changes_nothing(node: Node) -> None:
    assert merged(node, node) == (plain(node), [])


def test_mappings_merge_by_key_and_lists_are_joined_in_order() -> None:
    value, findings = merged(build({"a": [1], "b": {"c": 1}}), build({"a": [2], "b": {"d": 2}}))
    assert value == {"a": [1, 2], "b": {"c": 1, "d": 2}}
    assert not findings


def test_equal_scalars_are_no_conflict_and_true_is_not_one() -> None:
    assert merged(build(1), build(1)) == (1, [])
    assert len(merged(build(1), build(True))[1]) == 1  # noqa: FBT003  the value under test


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (1, 2, "another value"),
        ("a", ["a"], "text, not a list,"),
        ({"a": 1}, [1], "a mapping, not a list,"),
        (None, "a", "nothing, not text,"),
    ],
)
def test_a_conflict_names_both_places(one: Any, other: Any, what: str) -> None:
    findings = Findings()
    merge([build(one), build(other)], findings, "k")
    (finding,) = findings.sorted()
    assert finding.message == f"`k` has {what} at f.yml:1:1"


def test_the_highest_priority_counts_alone_and_remembers_the_others() -> None:
    places = [Place(file=name, line=1, column=1) for name in ("a", "b", "c")]
    nodes = [
        Leaf(value=number, place=place, priority=priority)
        for number, (place, priority) in enumerate(zip(places, Priority, strict=True))
    ]
    result = merge(nodes, Findings())
    assert plain(result) == 2
    assert result.place == places[2]
    assert result.over == (places[0], places[1])


def test_a_forced_list_replaces_and_a_default_mapping_gives_way() -> None:
    assert merged(build([1]), build([2], Priority.FORCE))[0] == [2]
    assert merged(build({"a": 1}, Priority.DEFAULT), build({"b": 2}))[0] == {"b": 2}
    assert merged(build([1], Priority.FORCE), build([2], Priority.FORCE))[0] == [1, 2]
