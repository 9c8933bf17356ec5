"""The planner `event`: each task as soon as what it waits for is over, by critical path.

List scheduling (R. L. Graham, 1966). The weight of a task is the seconds of the longest chain that
waits for it, without its own (J. R. Jackson, 1955): what makes others wait longest goes first.
Where workers are few, so that tasks of other nodes compete with it, its own seconds count as well
(T. C. Hu, 1961). A node does one task at a time, and no more than `workers` tasks are done at once;
of those that could start the heaviest does, of equals the one added first. No task waits while its
node and a worker are free.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from operator import neg, sub
from typing import ClassVar

from cobweb.model import NONE, CobId, Graph, Schedule, TaskGraph, chain_seconds, longest_chain
from cobweb.plugin import PlannedStep, Stages
from cobweb_plugins.planner._steps import start_priorities, step_stages


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
    waited for so far, `rank` its place in `order`, which has the heaviest in front. `offers` is a
    heap of the ranks of tasks that could start, `ready` has one of each node, for tasks that wait
    for it alone, and `stage` says of each node in which one its next task may be. `ends` is a heap
    of moments, `ending` has the tasks that end then.
    """

    def __init__(self, graph: TaskGraph, workers: int | None) -> None:
        count = len(graph)
        self._graph = graph
        self._node = graph.node
        self._chains = chain_seconds(graph)
        self._order = _heaviest_first(graph, self._chains, workers)
        self._rank = array("i", bytes(4 * count))
        for rank, vertex in enumerate(self._order):
            self._rank[vertex] = rank
        self._first, self._then = _followers(graph)
        self._left = array("i", (after - before for before, after in pairwise(graph.first)))
        self._reach = array("i", bytes(4 * count))
        self._start_s, self._end_s = array("d", bytes(8 * count)), array("d", bytes(8 * count))
        self._offers: list[int] = []
        self._ready: list[list[int]] = [[] for _ in graph.nodes]
        self._busy = [False] * len(graph.nodes)
        self._stage = [0] * len(graph.nodes)
        self._stages: list[list[int]] = []
        self._ends: list[float] = []
        self._ending: dict[float, list[int]] = {}
        self._free = count if workers is None else workers

    def run(self) -> Schedule:
        """Go from the first start to the last end."""
        for vertex, left in enumerate(self._left[:]):
            if not left:
                self._open(vertex, 0.0)
        self._start(0.0)
        while self._ends:
            now = heapq.heappop(self._ends)
            for task in self._ending.pop(now):
                self._finish(task, now)
            self._start(now)
        return Schedule(
            start_s=self._start_s,
            end_s=self._end_s,
            stages=tuple(tuple(sorted(stage)) for stage in self._stages),
            critical_path=longest_chain(self._graph, self._chains),
        )

    def _open(self, vertex: int, now: float) -> None:
        """Take in a vertex that waits for nothing any more."""
        node = self._node[vertex]
        if node == NONE:
            self._start_s[vertex] = self._end_s[vertex] = now
            self._release(vertex, now)
            return
        heap = self._ready[node] if self._busy[node] else self._offers
        heapq.heappush(heap, self._rank[vertex])

    def _release(self, vertex: int, now: float) -> None:
        """Note that a vertex is over, with the joins that wait for nothing else."""
        first, then, left, reach = self._first, self._then, self._left, self._reach
        over = [vertex]
        for each in over:  # grows while it is gone through
            stage = reach[each]
            for after in then[first[each] : first[each + 1]]:
                left[after] -= 1
                reach[after] = max(reach[after], stage)
                if left[after]:
                    continue
                if self._node[after] == NONE:
                    self._start_s[after] = self._end_s[after] = now
                    over.append(after)
                else:
                    self._open(after, now)

    def _finish(self, task: int, now: float) -> None:
        """End a task: its node and its worker are free, and so is what waited for it last."""
        node = self._node[task]
        self._free += 1
        self._busy[node] = False
        if self._ready[node]:
            heapq.heappush(self._offers, heapq.heappop(self._ready[node]))
        self._release(task, now)

    def _start(self, now: float) -> None:
        """Start the heaviest tasks for which there are workers."""
        offers, busy = self._offers, self._busy
        while offers and self._free:
            rank = heapq.heappop(offers)
            task = self._order[rank]
            node = self._node[task]
            if busy[node]:
                heapq.heappush(self._ready[node], rank)
                continue
            busy[node] = True
            self._free -= 1
            self._start_s[task] = now
            end_s = self._end_s[task] = now + self._graph.seconds[task]
            if end_s not in self._ending:
                self._ending[end_s] = []
                heapq.heappush(self._ends, end_s)
            self._ending[end_s].append(task)
            stage = max(self._reach[task], self._stage[node])
            self._stage[node] = self._reach[task] = stage + 1
            while stage >= len(self._stages):
                self._stages.append([])
            self._stages[stage].append(task)


def _heaviest_first(graph: TaskGraph, chains: Sequence[float], workers: int | None) -> array[int]:
    """Return the vertices by weight, of equals the one added first."""
    lightness = map(sub, graph.seconds, chains) if workers is None else map(neg, chains)
    return array("i", sorted(range(len(graph)), key=array("d", lightness).__getitem__))


def _followers(graph: TaskGraph) -> tuple[array[int], array[int]]:
    """Return what waits for each vertex, as `first` and `before` say for what it waits."""
    counts = [0] * (len(graph) + 1)
    for wait in graph.before:
        counts[wait + 1] += 1
    first = array("i", accumulate(counts))
    at, then = first[:], array("i", bytes(4 * len(graph.before)))
    for vertex in range(len(graph)):
        for wait in graph.before[graph.first[vertex] : graph.first[vertex + 1]]:
            then[at[wait]] = vertex
            at[wait] += 1
    return first, then
