"""A layered layout: what others need stands to the right of what needs it.

Circles are collapsed so that each object gets a layer; within a layer objects are ordered by the
mean place of their neighbours, a few sweeps back and forth (Sugiyama's method without its dummy
vertices, which is enough for a drawing that people read).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cobweb.engine import parts_of

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


def _depths(nodes: Sequence[str], edges: Edges) -> dict[str, int]:
    """Return the longest way to each node from one that nothing points to, over components."""
    components = list(parts_of({node: edges.get(node, ()) for node in nodes}))
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
