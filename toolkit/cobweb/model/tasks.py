"""Tasks of nodes and what each of them waits for: what a task planner gets, and what it returns.

A vertex is a task of one node, or a join: no work, it only stands for "all of these are over", so
that n tasks that wait for m others cost n + m edges instead of n x m (Coopr's planner makes all of
them). A vertex can only wait for those that were added before it. So the numbers of vertices are a
topological order, a circle cannot be expressed, and each question here is one pass over arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

NONE = -1
"""Instead of an index: a join has no node and no action, a task of a node itself no service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraph:
    """Tasks and joins by number; made by a `TaskGraphBuilder`, never by hand.

    `node`, `action` and `service` index `nodes`, `actions` and `services`; `seconds` is how long a
    task takes. Vertex v waits for `before[first[v]:first[v + 1]]`, all of them less than v.
    """

    nodes: tuple[str, ...]
    actions: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    node: array[int] = field(default_factory=lambda: array("i"))
    action: array[int] = field(default_factory=lambda: array("i"))
    service: array[int] = field(default_factory=lambda: array("i"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    first: array[int] = field(default_factory=lambda: array("i", [0]))
    before: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        """Return how many vertices there are, joins included."""
        return len(self.node)

    def waits(self, vertex: int) -> Sequence[int]:
        """Return the vertices that one waits for."""
        return self.before[self.first[vertex] : self.first[vertex + 1]]

    def tasks(self) -> list[int]:
        """Return the vertices that are tasks."""
        return [vertex for vertex, node in enumerate(self.node) if node != NONE]

    def names(self, task: int) -> tuple[str, str, str | None]:
        """Return the node, action and service of a task; the service is None for its node's own."""
        node, action, service = self.node[task], self.action[task], self.service[task]
        service_name = None if service == NONE else self.services[service]
        return self.nodes[node], self.actions[action], service_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When each vertex of a graph starts and ends, in seconds from the beginning; joins take none.

    `stages` hold each task once, no stage two tasks of one node, and nothing of a stage waits for
    its like. `critical_path` is a longest chain of tasks: no planner can be faster than that.
    """

    start_s: Sequence[float]
    end_s: Sequence[float]
    stages: tuple[tuple[int, ...], ...]
    critical_path: tuple[int, ...]

    @property
    def makespan_s(self) -> float:
        """The seconds from the beginning to the end of the last task."""
        return max(self.end_s, default=0.0)


class TaskGraphBuilder:
    """Makes a `TaskGraph`, vertex by vertex; each waits for earlier ones only."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._graph = TaskGraph(nodes=tuple(nodes))
        self._actions: dict[str, int] = {}
        self._services: dict[str, int] = {}

    def task(
        self,
        node: int,
        action: str,
        service: str | None = None,
        *,
        seconds: float = 1.0,
        after: Iterable[int] = (),
    ) -> int:
        """Add a task of a node (an index), and return its number.

        ValueError, and nothing is added, where it has no such node or `after` names what is not
        there yet.
        """
        if not 0 <= node < len(self._graph.nodes):
            raise ValueError(f"there is no node {node}")
        graph, number = self._graph, self.join(after)  # a task is a join that has a node
        graph.node[number], graph.seconds[number] = node, seconds
        graph.action[number] = self._actions.setdefault(action, len(self._actions))
        if service is not None:
            graph.service[number] = self._services.setdefault(service, len(self._services))
        return number

    def join(self, after: Iterable[int]) -> int:
        """Add what is over when all of `after` are, and return its number; ValueError as above."""
        graph, waits = self._graph, array("i", after)
        if waits and not 0 <= min(waits) <= max(waits) < len(graph):
            raise ValueError("a vertex can wait for earlier ones only")
        graph.before.extend(waits)
        graph.first.append(len(graph.before))
        for column in (graph.node, graph.action, graph.service):
            column.append(NONE)
        graph.seconds.append(0.0)
        return len(graph) - 1

    def build(self) -> TaskGraph:
        """Return the graph of all that was added; the builder is not used any more."""
        return replace(self._graph, actions=tuple(self._actions), services=tuple(self._services))


def chain_seconds(graph: TaskGraph) -> list[float]:
    """Return the seconds of the longest chain that begins with each vertex, itself included."""
    lengths = [0.0] * len(graph)
    for vertex in reversed(range(len(graph))):
        lengths[vertex] += graph.seconds[vertex]
        for wait in graph.waits(vertex):
            lengths[wait] = max(lengths[wait], lengths[vertex])
    return lengths


def longest_chain(graph: TaskGraph, lengths: Sequence[float]) -> tuple[int, ...]:
    """Return the tasks of a longest chain in order, given the `chain_seconds` of the graph.

    Of several the one whose first, second, ... vertex has the lowest number.
    """
    at = max(range(len(graph)), key=lengths.__getitem__, default=NONE)
    chain = [at]
    for vertex in range(at + 1, len(graph)):
        if at in graph.waits(vertex) and lengths[vertex] + graph.seconds[at] == lengths[at]:
            at = vertex
            chain.append(at)
    return tuple(vertex for vertex in chain if vertex != NONE and graph.node[vertex] != NONE)
