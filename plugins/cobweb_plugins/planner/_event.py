"""The planner `event`: each task as soon as what it waits for is over, by critical path.

List scheduling (R. L. Graham, 1966) with the seconds of the longest chain that a task begins as its
weight (T. C. Hu, 1961). A node does one task at a time, and no more than `workers` tasks are done
at once; of those that could start the heaviest does, of equals the one added first. No task waits
while its node and a worker are free.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import ClassVar

from cobweb.model import NONE, CobId, Graph, Schedule, TaskGraph, chain_seconds, longest_chain
from cobweb.plugin import PlannedStep, Stages
from cobweb_plugins.planner._steps import start_priorities, step_stages

__all__ = ["EventPlanner"]


class EventPlanner:
    """The default planner of steps and of tasks."""

    name: ClassVar[str] = "event"

    def stages(self, graph: Graph, steps: Sequence[PlannedStep]) -> Stages:
        """Put each step into the first stage after all that it waits for."""
        del graph
        return step_stages(steps)

    def priorities(self, graph: Graph) -> Mapping[CobId, float]:
        """Return for each object the length of the longest chain of starts that it begins."""
        return start_priorities(graph)

    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        """Start each task as soon as it, its node and a worker can.

        A task's stage is the first after those of all that it waits for, and after that of the
        task that its node did before. Costs O(log tasks) for each task, and is linear in edges.
        """
        return _Simulation(tasks, workers).run()


class _Simulation:
    """A run of the tasks by the clock; the lists go by vertex unless they say otherwise.

    `left` is how many waits of a vertex are not over, `reach` the first stage after all that it
    waited for so far; `ready` has of each node a heap of tasks that wait for it alone, and `begun`
    says of each node in which stage its last task is. `offers` is a heap of tasks that could start.
    """

    def __init__(self, graph: TaskGraph, workers: int | None) -> None:
        count = len(graph)
        self._graph = graph
        self._weights = chain_seconds(graph)
        self._first, self._then = _followers(graph)
        first = graph.first
        self._left = [first[vertex + 1] - first[vertex] for vertex in range(count)]
        self._reach = [0] * count
        self._start_s, self._end_s = [0.0] * count, [0.0] * count
        self._ready: list[list[tuple[float, int]]] = [[] for _ in graph.nodes]
        self._busy = [False] * len(graph.nodes)
        self._begun = [-1] * len(graph.nodes)
        self._offers: list[tuple[float, int]] = []
        self._free = count if workers is None else workers
        self._stages: list[list[int]] = []

    def run(self) -> Schedule:
        """Go from the first start to the last end."""
        ends: list[tuple[float, int]] = []
        sources = [vertex for vertex, left in enumerate(self._left) if not left]
        self._open(sources, 0.0)
        self._start(ends, 0.0)
        while ends:
            now = ends[0][0]
            while ends and ends[0][0] == now:
                self._finish(heapq.heappop(ends)[1], now)
            self._start(ends, now)
        return Schedule(
            start_s=self._start_s,
            end_s=self._end_s,
            stages=tuple(tuple(sorted(stage)) for stage in self._stages),
            critical_path=longest_chain(self._graph, self._weights),
        )

    def _open(self, vertices: list[int], now: float) -> None:
        """Take in vertices that wait for nothing any more; joins are over at once."""
        nodes, busy = self._graph.node, self._busy
        for vertex in vertices:  # grows while it is gone through
            node = nodes[vertex]
            if node == NONE:
                self._start_s[vertex] = self._end_s[vertex] = now
                vertices += self._released(vertex, self._reach[vertex])
                continue
            entry = (-self._weights[vertex], vertex)
            heapq.heappush(self._ready[node], entry)
            if not busy[node]:
                heapq.heappush(self._offers, entry)

    def _released(self, vertex: int, stage: int) -> list[int]:
        """Note that a vertex is over; return those that waited for it last."""
        left, reach = self._left, self._reach
        released = []
        for after in self._then[self._first[vertex] : self._first[vertex + 1]]:
            left[after] -= 1
            reach[after] = max(reach[after], stage)
            if not left[after]:
                released.append(after)
        return released

    def _finish(self, task: int, now: float) -> None:
        """End a task: its node and its worker are free, and so is what waited for it last."""
        node = self._graph.node[task]
        self._free += 1
        self._busy[node] = False
        if self._ready[node]:
            heapq.heappush(self._offers, self._ready[node][0])
        self._open(self._released(task, self._begun[node] + 1), now)

    def _start(self, ends: list[tuple[float, int]], now: float) -> None:
        """Start the heaviest tasks for which there are workers."""
        offers, nodes = self._offers, self._graph.node
        while offers and self._free:
            entry = heapq.heappop(offers)
            task, node = entry[1], nodes[entry[1]]
            ready = self._ready[node]
            if self._busy[node] or not ready or ready[0] != entry:
                continue  # offered twice, or another task of the node was heavier
            heapq.heappop(ready)
            self._busy[node] = True
            self._free -= 1
            end_s = now + self._graph.seconds[task]
            self._start_s[task], self._end_s[task] = now, end_s
            heapq.heappush(ends, (end_s, task))
            self._enter(task, node)

    def _enter(self, task: int, node: int) -> None:
        stage = max(self._reach[task], self._begun[node] + 1)
        self._begun[node] = stage
        if stage >= len(self._stages):
            self._stages += [[] for _ in range(stage + 1 - len(self._stages))]
        self._stages[stage].append(task)


def _followers(graph: TaskGraph) -> tuple[list[int], list[int]]:
    """Return what waits for each vertex, as `first` and `before` say for what it waits."""
    counts = [0] * (len(graph) + 1)
    for wait in graph.before:
        counts[wait + 1] += 1
    first = list(accumulate(counts))
    at, then = first.copy(), [0] * len(graph.before)
    for vertex in range(len(graph)):
        for wait in graph.before[graph.first[vertex] : graph.first[vertex + 1]]:
            then[at[wait]] = vertex
            at[wait] += 1
    return first, then
