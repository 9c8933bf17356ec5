"""Tasks of nodes and what each of them waits for: what a task planner gets, and what it returns.

A vertex is a task of one node, or a join: no work, it only stands for "all of these are over", so
that n tasks that wait for m others cost n + m edges instead of n x m (Coopr's planner makes all of
them). A vertex can only wait for those that were added before it. So the numbers of vertices are a
topological order, a circle cannot be expressed, and each question here is one pass over arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

NONE = -1
"""Instead of an index: a join has no node and no action, a task of a node itself no service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraph:
    """Tasks and joins by number; made by a `TaskGraphBuilder`, never by hand.

    `node`, `action` and `service` index `nodes`, `actions` and `services`; `seconds` is how long a
    task takes. Vertex v waits for `before[first[v]:first[v + 1]]`, all of them less than v.
    """

    nodes: tuple[str, ...]
    actions: tuple[str, ...]
    services: tuple[str, ...]
    node: array[int]
    action: array[int]
    service: array[int]
    seconds: array[float]
    first: array[int]
    before: array[int]

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
        service = self.service[task]
        return (
            self.nodes[self.node[task]],
            self.actions[self.action[task]],
            None if service == NONE else self.services[service],
        )


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
        self._nodes = tuple(nodes)
        self._actions: dict[str, int] = {}
        self._services: dict[str, int] = {}
        self._node, self._action, self._service = array("i"), array("i"), array("i")
        self._seconds = array("d")
        self._first, self._before = array("i", [0]), array("i")

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
        if not 0 <= node < len(self._nodes):
            raise ValueError(f"there is no node {node}")
        self._wait(after)
        self._node.append(node)
        self._action.append(self._actions.setdefault(action, len(self._actions)))
        self._service.append(
            NONE if service is None else self._services.setdefault(service, len(self._services))
        )
        self._seconds.append(seconds)
        return len(self._node) - 1

    def join(self, after: Iterable[int]) -> int:
        """Add what is over when all of `after` are, and return its number; ValueError as above."""
        self._wait(after)
        for column in (self._node, self._action, self._service):
            column.append(NONE)
        self._seconds.append(0.0)
        return len(self._node) - 1

    def build(self) -> TaskGraph:
        """Return the graph of all that was added; the builder is not used any more."""
        return TaskGraph(
            nodes=self._nodes,
            actions=tuple(self._actions),
            services=tuple(self._services),
            node=self._node,
            action=self._action,
            service=self._service,
            seconds=self._seconds,
            first=self._first,
            before=self._before,
        )

    def _wait(self, after: Iterable[int]) -> None:
        waits = array("i", after)
        if waits and not 0 <= min(waits) <= max(waits) < len(self._node):
            raise ValueError("a vertex can wait for earlier ones only")
        self._before.extend(waits)
        self._first.append(len(self._before))


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


def least_seconds(graph: TaskGraph, workers: int | None = None) -> float:
    """Return what no schedule can be faster than.

    That is the best that each node could do if it were the only one that does one task at a time
    (J. Carlier, 1982), which is never less than the longest chain or the work of a node, or all
    work shared by the workers (None: there are as many as wanted), whichever is longest.
    O(n log n) in the tasks of a node, and linear in edges.
    """
    tails = chain_seconds(graph)
    heads = [0.0] * len(graph)
    jobs: list[list[tuple[float, float, float]]] = [[] for _ in graph.nodes]
    for vertex, node in enumerate(graph.node):
        seconds = graph.seconds[vertex]
        for wait in graph.waits(vertex):
            heads[vertex] = max(heads[vertex], heads[wait] + graph.seconds[wait])
        if node != NONE:
            jobs[node].append((heads[vertex], seconds, tails[vertex] - seconds))
    shared = sum(graph.seconds) / workers if workers else 0.0
    return max([shared, *(_one_at_a_time(sorted(of_node)) for of_node in jobs)])


def _one_at_a_time(jobs: Sequence[tuple[float, float, float]]) -> float:
    """Return the least seconds of (head, seconds, tail) sorted by heads, if each can be paused.

    At any moment the job with the longest tail is done (J. R. Jackson, 1955).
    """
    least = now = 0.0
    todo: list[list[float]] = []
    for head, seconds, tail in (*jobs, (inf, 0.0, 0.0)):
        while todo and now < head:
            job = todo[0]
            spent = min(job[1], head - now)
            now += spent
            job[1] -= spent
            if not job[1]:
                heappop(todo)
                least = max(least, now - job[0])
        now = max(now, head)
        heappush(todo, [-tail, seconds])
    return least
