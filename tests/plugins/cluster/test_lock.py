"""site.lock: what is written is read back, and a damaged file says what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import CobwebError
from cobweb_plugins.cluster._lock import (
    LockedCluster,
    LockedNode,
    layout_of,
    lock_text,
    read_lock,
)

names = st.sampled_from(["a", "b", "c"])
nodes = st.builds(
    LockedNode,
    hardwaretype=names,
    imagetype=names,
    services=st.frozensets(names, min_size=1).map(lambda found: tuple(sorted(found))),
)
clusters = st.dictionaries(
    st.sampled_from(["x", "y-1", "z"]),
    st.builds(
        lambda found, more: LockedCluster(
            id="0a" * more,
            request="0" * 64,
            solver="cpsat",
            nodes=dict(sorted(found.items())),
            next=max(found, default=0) + more,
        ),
        st.dictionaries(st.integers(1, 30), nodes),
        st.integers(1, 5),
    ),
)


@given(clusters)
def test_what_is_written_is_read_back(written: dict[str, LockedCluster]) -> None:
    text = lock_text(written)
    assert read_lock(text) == written
    assert lock_text(read_lock(text)) == text


@given(st.lists(nodes))
def test_a_layout_counts_all_nodes(found: list[LockedNode]) -> None:
    layout = layout_of(found)
    assert sum(kind["count"] for kind in layout) == len(found)
    assert len(layout) == len(set(found))


def test_no_file_has_no_clusters() -> None:
    assert read_lock(None) == {}


GOOD: dict[str, Any] = {
    "format": 1,
    "clusters": {
        "x": {
            "request": "0" * 64,
            "solver": "cpsat",
            "nodes": {"1": {"hardwaretype": "h", "imagetype": "i", "services": ["a"]}},
            "next": 1,
        }
    },
}


def changed(*path: str, value: Any) -> str:
    data = json.loads(json.dumps(GOOD))
    here = data
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "site.lock is no JSON"),
        ("<<<<<<< HEAD\n{}", "site.lock is no JSON"),
        (changed("format", value=2), "$.format: 1 was expected"),
        (changed("clusters", "x", "request", value="?"), "$.clusters.x.request"),
        (changed("clusters", "x", "nodes", "0", value={}), "'0' does not match"),
        (changed("clusters", "x", "nodes", "1", "services", value="a"), "is not of type 'array'"),
    ],
    ids=["empty", "merge conflict", "format", "request", "number", "services"],
)
def test_a_damaged_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(CobwebError) as caught:
        read_lock(text)
    assert message in caught.value.message
    assert "Git" in caught.value.hint


def test_a_number_is_not_given_twice_even_if_the_file_says_so() -> None:
    assert read_lock(json.dumps(GOOD))["x"].next == 2
