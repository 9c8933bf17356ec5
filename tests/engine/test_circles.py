"""Strongly connected parts: against who reaches whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import parts_of

NODES = range(10)
EDGES = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=30)


@given(EDGES)
def test_parts_are_the_sets_that_reach_each_other_and_lead_to_earlier_ones(
    pairs: list[tuple[int, int]],
) -> None:
    edges = {node: [target for source, target in pairs if source == node] for node in NODES}
    reach = {node: _reach(edges, node) | {node} for node in NODES}
    parts = list(parts_of(edges))
    expected = {frozenset(o for o in reach[node] if node in reach[o]) for node in NODES}
    assert sorted(map(sorted, parts)) == sorted(map(sorted, expected))
    at = {node: number for number, part in enumerate(parts) for node in part}
    assert all(at[target] <= at[source] for source, target in pairs)


def _reach(edges: dict[int, list[int]], start: int) -> set[int]:
    seen: set[int] = set()
    work = [start]
    while work:
        new = set(edges[work.pop()]) - seen
        seen |= new
        work += new
    return seen
