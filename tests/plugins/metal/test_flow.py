"""The cheapest of the largest flows, against all flows there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from cobweb_plugins.metal.vclusters._flow import cheapest

Edge = tuple[str, str, int, int]
# The second way takes back what went from a to b, and is the cheaper one only for that.
BACK = [
    *(("s", "a", 1, 0), ("a", "b", 1, 2), ("b", "t", 1, 0), ("a", "t", 1, 3)),
    *(("s", "c", 1, 0), ("c", "b", 1, 3), ("c", "t", 1, 5)),
]
EDGES = st.lists(
    st.tuples(
        st.sampled_from("sabct"), st.sampled_from("sabct"), st.integers(0, 2), st.integers(0, 3)
    ),
    max_size=6,
)


def is_flow(edges: Sequence[Edge], used: Sequence[int]) -> bool:
    """Say whether no edge has more than it can, and nothing is lost or made on the way."""
    fits = all(0 <= it <= edge[2] for edge, it in zip(edges, used, strict=True))
    return fits and not any(arrives(edges, used, node) for node in "abc")


def arrives(edges: Sequence[Edge], used: Sequence[int], node: str) -> int:
    """Return how much more flows to a node than from it."""
    pairs = list(zip(edges, used, strict=True))
    return sum(it for edge, it in pairs if edge[1] == node) - sum(
        it for edge, it in pairs if edge[0] == node
    )


def worth(edges: Sequence[Edge], used: Sequence[int]) -> tuple[int, int]:
    """Return how little reaches the sink, and its cost: the smallest is the best."""
    costs = (edge[3] * it for edge, it in zip(edges, used, strict=True))
    return -arrives(edges, used, "t"), sum(costs)


@example(BACK)
@given(EDGES)
def test_no_flow_is_larger_and_none_as_large_is_cheaper(edges: list[Edge]) -> None:
    used = cheapest(edges, "s", "t")
    assert is_flow(edges, used)
    every = product(*(range(edge[2] + 1) for edge in edges))
    assert worth(edges, used) == min(worth(edges, it) for it in every if is_flow(edges, it))
