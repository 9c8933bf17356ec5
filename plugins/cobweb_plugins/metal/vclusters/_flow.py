"""The cheapest of the largest flows through a small network."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from typing import TypeVar

_V = TypeVar("_V", bound=Hashable)


def cheapest(edges: Sequence[tuple[_V, _V, int, int]], source: _V, sink: _V) -> list[int]:
    """Return how much flows over each edge, (from, to, capacity, cost) with costs from 0 on.

    By successive shortest paths (Ahuja, Magnanti, Orlin: Network Flows, section 9.7).
    """
    # Edge i forth is 2i, back 2i + 1: what flows forth can be taken back, at the same cost.
    ends = [it for edge in edges for it in (edge[1], edge[0])]
    room = [it for edge in edges for it in (edge[2], 0)]
    costs = [it for edge in edges for it in (edge[3], -edge[3])]
    out = defaultdict[_V, list[int]](list)
    for number, edge in enumerate(edges):
        out[edge[0]].append(2 * number)
        out[edge[1]].append(2 * number + 1)
    while way := _shortest(out, ends, room, costs, (source, sink)):
        most = min(room[it] for it in way)
        for it in way:
            room[it] -= most
            room[it ^ 1] += most
    return room[1::2]


def _shortest(
    out: dict[_V, list[int]],
    ends: list[_V],
    room: list[int],
    costs: list[int],
    between: tuple[_V, _V],
) -> list[int]:
    """Return the edges of the cheapest way with room on it, from the last one to the first."""
    source, sink = between
    cost = defaultdict[_V, float](lambda: math.inf, {source: 0})
    by, queue = dict[_V, int](), deque([source])
    while queue:
        here = queue.popleft()
        for it in out[here]:
            there = ends[it]
            if room[it] and cost[here] + costs[it] < cost[there]:
                cost[there] = cost[here] + costs[it]
                by[there] = it
                queue.append(there)
    way, here = list[int](), sink
    while here != source and here in by:
        way.append(by[here])
        here = ends[by[here] ^ 1]
    return way
