"""Circles in a directed graph: one short one for each strongly connected part."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from cobweb.model import CobId

Edges = Mapping[CobId, Sequence[CobId]]


def circles(edges: Edges) -> Iterator[tuple[CobId, ...]]:
    """Yield a shortest circle through the smallest id of each part that has one; linear."""
    for part in _parts(edges):
        yield _shortest(edges, min(part), part)


def _shortest(edges: Edges, first: CobId, part: frozenset[CobId]) -> tuple[CobId, ...]:
    """Search from `first` back to it; in a connected part of two and more there is a way."""
    queue: deque[CobId] = deque([first])
    before: dict[CobId, CobId] = {}
    while True:
        cob = queue.popleft()
        for after in edges.get(cob, ()):
            if after == first:
                back = [cob]
                while back[-1] != first:
                    back.append(before[back[-1]])
                return tuple(reversed(back))
            if after in part and after not in before:
                before[after] = cob
                queue.append(after)


def _parts(edges: Edges) -> Iterator[frozenset[CobId]]:
    """Yield the strongly connected parts of two and more (Kosaraju: two searches)."""
    backward: dict[CobId, list[CobId]] = {}
    for cob, afters in edges.items():
        for after in afters:
            backward.setdefault(after, []).append(cob)
    done: set[CobId] = set()
    for root in reversed(_finishing_order(edges)):
        if root in done:
            continue
        part: set[CobId] = set()
        stack = [root]
        while stack:
            cob = stack.pop()
            if cob not in done:
                done.add(cob)
                part.add(cob)
                stack.extend(backward.get(cob, ()))
        if len(part) > 1:
            yield frozenset(part)


def _finishing_order(edges: Edges) -> list[CobId]:
    order: list[CobId] = []
    seen: set[CobId] = set()
    for root in edges:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(edges[root]))]
        while stack:
            cob, afters = stack[-1]
            after = next((a for a in afters if a not in seen), None)
            if after is None:
                order.append(cob)
                stack.pop()
            else:
                seen.add(after)
                stack.append((after, iter(edges.get(after, ()))))
    return order
