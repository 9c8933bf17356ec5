"""A layered layout: what others need stands to the right of what needs it.

Circles are collapsed (Tarjan, without recursion) so that each object gets a layer; within a layer
objects are ordered by the mean place of their neighbours, a few sweeps back and forth (Sugiyama's
method without its dummy vertices, which is enough for a drawing that people read).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Edges = Mapping[str, Sequence[str]]

_SWEEPS = 4


def layers_of(nodes: Sequence[str], edges: Edges) -> list[list[str]]:
    """Return the nodes by layer, first those that nothing points to; deterministic, near linear."""
    depth = _depths(nodes, edges)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        layers[depth[node]].append(node)
    back = _reversed(nodes, edges)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        _sweep(layers if forth else layers[::-1], back if forth else edges)
    return layers


def strong_components(nodes: Iterable[str], edges: Edges) -> list[list[str]]:
    """Return the sets of nodes that reach each other; a set comes after all that it points to."""
    return _Tarjan(edges).run(nodes)


class _Tarjan:
    """Tarjan's algorithm with a stack of its own, so that a long chain is no deep recursion."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._index: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._open: list[str] = []
        self._is_open: set[str] = set()
        self._found: list[list[str]] = []

    def run(self, nodes: Iterable[str]) -> list[list[str]]:
        for node in nodes:
            if node not in self._index:
                self._visit(node)
        return self._found

    def _visit(self, root: str) -> None:
        work = [(root, iter(self._enter(root)))]
        while work:
            node, targets = work[-1]
            target = next((t for t in targets if self._see(node, t)), None)
            if target is not None:
                work.append((target, iter(self._enter(target))))
                continue
            work.pop()
            if work:
                parent = work[-1][0]
                self._low[parent] = min(self._low[parent], self._low[node])
            self._leave(node)

    def _enter(self, node: str) -> Sequence[str]:
        self._index[node] = self._low[node] = len(self._index)
        self._open.append(node)
        self._is_open.add(node)
        return self._edges.get(node, ())

    def _see(self, node: str, target: str) -> bool:
        """Note an edge, and say whether its end is new."""
        if target not in self._index:
            return True
        if target in self._is_open:
            self._low[node] = min(self._low[node], self._index[target])
        return False

    def _leave(self, node: str) -> None:
        if self._low[node] != self._index[node]:
            return
        members = [self._open.pop()]
        while members[-1] != node:
            members.append(self._open.pop())
        self._is_open.difference_update(members)
        self._found.append(members)


def _depths(nodes: Sequence[str], edges: Edges) -> dict[str, int]:
    """Return the longest way to each node from one that nothing points to, over components."""
    components = strong_components(nodes, edges)
    home = {node: number for number, members in enumerate(components) for node in members}
    depth = [0] * len(components)
    for number in range(len(components) - 1, -1, -1):
        for node in components[number]:
            for target in edges.get(node, ()):
                if home[target] != number:
                    depth[home[target]] = max(depth[home[target]], depth[number] + 1)
    return {node: depth[home[node]] for node in nodes}


def _reversed(nodes: Iterable[str], edges: Edges) -> dict[str, list[str]]:
    back: dict[str, list[str]] = {node: [] for node in nodes}
    for node, targets in edges.items():
        for target in targets:
            back[target].append(node)
    return back


def _sweep(layers: Sequence[list[str]], neighbours: Edges) -> None:
    """Order each layer, in turn, by the mean place of its neighbours in those that came before."""
    place: dict[str, float] = {}
    for layer in layers:
        old = {node: number / len(layer) for number, node in enumerate(layer)}
        layer.sort(key=lambda node: (_mean(neighbours.get(node, ()), place, old[node]), old[node]))
        place |= {node: number / len(layer) for number, node in enumerate(layer)}


def _mean(nodes: Sequence[str], place: Mapping[str, float], otherwise: float) -> float:
    known = [place[node] for node in nodes if node in place]
    return sum(known) / len(known) if known else otherwise
