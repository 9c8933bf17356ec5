"""Layouts are pinned to nodes with numbers: who stays keeps its own, who is new gets a new one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.plugin import Solver, load_plugins
from cobweb_plugins.cluster._catalog_read import read_catalog
from cobweb_plugins.cluster._expand import resolve_all
from cobweb_plugins.cluster._lock import LockedCluster
from cobweb_plugins.cluster._pin import pin, request_digest
from cobweb_plugins.cluster._template import Resolved
from tests.plugins.cluster.small import sections

SOLVER: Solver = load_plugins().solvers["preference"]


def resolved(**said: Any) -> Resolved:
    return resolve_all(read_catalog(sections({"c": said})))["c"]


def solved(before: LockedCluster | None = None, **said: Any) -> LockedCluster:
    return pin(resolved(**said), SOLVER, before)


def services(layout: LockedCluster) -> dict[int, str]:
    return {number: " ".join(node.services) for number, node in layout.nodes.items()}


def test_a_new_cluster_counts_from_one() -> None:
    layout = solved(nodes=3)
    assert services(layout) == {1: "base db", 2: "base db", 3: "base web"}
    assert layout.next == 4


def test_who_goes_is_last_and_its_number_does_not_come_back() -> None:
    three = solved(nodes=3)
    six = solved(three, nodes=6)
    assert {number: six.nodes[number] for number in three.nodes} == three.nodes
    assert six.id == three.id
    assert solved(nodes=3).id != three.id
    four = solved(six, nodes=4)
    assert list(four.nodes) == [1, 2, 3, 4]
    assert list(solved(four, nodes=5).nodes) == [1, 2, 3, 4, 7]


def test_services_come_and_go_and_no_other_moves() -> None:
    three = solved(nodes=3)
    more = solved(three, nodes=3, services=["base", "cache", "db", "web"])
    for number, node in three.nodes.items():
        assert set(more.nodes[number].services) - {"cache"} == set(node.services)
    assert any("cache" in node.services for node in more.nodes.values())
    less = solved(more, nodes=3)
    assert services(less) == services(three)


@given(st.lists(st.integers(2, 12), min_size=1, max_size=6))
def test_numbers_are_never_given_twice(sizes: list[int]) -> None:
    layout: LockedCluster | None = None
    ever: set[int] = set()
    for nodes in sizes:
        before = set(layout.nodes) if layout else set()
        layout = solved(layout, nodes=nodes)
        new = set(layout.nodes) - before
        assert len(layout.nodes) == nodes
        assert not new & ever
        ever |= new


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"services": ["web", "db", "base"]},
        {"config": {"port": 81}},
        {"state": "stopped"},
    ],
    ids=["same", "order", "config", "state"],
)
def test_the_digest_is_of_what_a_layout_depends_on(said: dict[str, Any]) -> None:
    before = request_digest(resolved(nodes=3))
    assert request_digest(resolved(nodes=3, **said)) == before
    assert request_digest(resolved(**{**said, "nodes": 4})) != before
    assert request_digest(resolved(**{**said, "nodes": 3, "services": ["base", "db"]})) != before
