"""Directed graphs: what is reached, strongly connected parts, a short circle for each of these."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import TypeVar

_Node = TypeVar("_Node", bound=Hashable)
_It = TypeVar("_It", bound=str)
_Edges = Mapping[_It, Sequence[_It]]


def reached(start: Iterable[_Node], after: Callable[[_Node], Iterable[_Node]]) -> set[_Node]:
    """Return these items and all that they lead to, directly or not; linear."""
    found = set(start)
    todo = [*found]
    while todo:
        for it in after(todo.pop()):
            if it not in found:
                found.add(it)
                todo.append(it)
    return found


def circles(edges: _Edges[_It]) -> Iterator[tuple[_It, ...]]:
    """Yield a shortest circle through the smallest id of each part that has one; linear."""
    for part in parts_of(edges):
        if len(part) > 1:
            yield _shortest(edges, min(part), part)


def _shortest(edges: _Edges[_It], first: _It, part: frozenset[_It]) -> tuple[_It, ...]:
    """Search from `first` back to it; in a connected part of two and more there is a way."""
    queue: deque[_It] = deque([first])
    before: dict[_It, _It] = {}
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


def parts_of(edges: Mapping[_Node, Sequence[_Node]]) -> Iterator[frozenset[_Node]]:
    """Yield the strongly connected parts, none before one that it leads to (Tarjan 1972); linear.

    `low` is the lowest place among the opened that an item is known to lead to, and above all
    places when its part is closed. An item is left when all that it leads to was.
    """
    low, places = dict[_Node, float](), dict[_Node, int]()
    opened: list[_Node] = []
    todo = [(it, False) for it in edges]
    while todo:
        it, is_left = todo.pop()
        if is_left:
            low[it] = min([low[it], *(low[to] for to in edges.get(it, ()))])
            if low[it] == places[it]:
                part = opened[places[it] :]
                del opened[places[it] :]
                low.update(dict.fromkeys(part, inf))
                yield frozenset(part)
        elif it not in low:
            low[it] = places[it] = len(opened)
            opened.append(it)
            todo.append((it, True))
            todo += [(to, False) for to in edges.get(it, ()) if to not in low]
