"""The planner `stages`: exactly the stages of Coopr's planner.

The sources of the graph are one stage, what they leave as sources is the next, and so on. A stage
that has several tasks of one node is split: the first of each node (by number) stay, the second
ones are a further stage, and so on. All of a stage is over before the next one begins.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, TypeVar

from cobweb.model import (
    NONE,
    CobId,
    Graph,
    Schedule,
    TaskGraph,
    chain_seconds,
    host_of,
    longest_chain,
)
from cobweb.plugin import PlannedStep, Stages
from cobweb_plugins.planner._steps import start_priorities, step_stages

T = TypeVar("T")


class StagesPlanner:
    """Stage by stage, no two tasks of a node in one."""

    name: ClassVar[str] = "stages"

    def stages(self, graph: Graph, steps: Sequence[PlannedStep]) -> Stages:
        """Put each step into the first stage after all it waits for; split those by host."""
        del graph
        levels = step_stages(steps)
        parts = [
            tuple(part)
            for level in levels.stages
            for part in _split((host_of(step.cob), step) for step in level)
        ]
        return Stages(stages=tuple(parts), critical_path=levels.critical_path)

    def priorities(self, graph: Graph) -> Mapping[CobId, float]:
        """Return for each object the length of the longest chain of starts that it begins."""
        return start_priorities(graph)

    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        """Begin each stage when the one before is over.

        Where there are fewer workers than tasks in a stage, its longest tasks go first. Linear in
        vertices and edges, but for that.
        """
        node = tasks.node
        stages = [
            tuple(part)
            for level in _levels(tasks)
            for part in _split((node[task], task) for task in level)
        ]
        start_s, end_s = [0.0] * len(tasks), [0.0] * len(tasks)
        now = 0.0
        for stage in stages:
            for task, start in _starts(stage, tasks.seconds, [now] * (workers or len(stage))):
                start_s[task], end_s[task] = start, start + tasks.seconds[task]
            now = max(end_s[task] for task in stage)
        _time_joins(tasks, start_s, end_s)
        return Schedule(
            start_s=start_s,
            end_s=end_s,
            stages=tuple(stages),
            critical_path=longest_chain(tasks, chain_seconds(tasks)),
        )


def _levels(graph: TaskGraph) -> list[list[int]]:
    """Return the tasks by the number of tasks in the longest chain that leads to them."""
    levels: list[list[int]] = []
    after = [0] * len(graph)
    first, before = graph.first, graph.before
    for vertex, node in enumerate(graph.node):
        level = 0
        for wait in before[first[vertex] : first[vertex + 1]]:
            level = max(level, after[wait])
        if node == NONE:
            after[vertex] = level
            continue
        after[vertex] = level + 1
        if level == len(levels):
            levels.append([])
        levels[level].append(vertex)
    return levels


def _split(members: Iterable[tuple[Hashable, T]]) -> list[list[T]]:
    """Return the first of each owner, the second of each, and so on."""
    parts: list[list[T]] = []
    seen: Counter[Hashable] = Counter()
    for owner, member in members:
        number = seen[owner]
        seen[owner] += 1
        if number == len(parts):
            parts.append([])
        parts[number].append(member)
    return parts


def _starts(
    stage: Sequence[int], seconds: Sequence[float], free: list[float]
) -> Iterator[tuple[int, float]]:
    """Yield when each task of a stage starts; `free` is since when each worker is, all the same."""
    if len(stage) <= len(free):
        yield from ((task, free[0]) for task in stage)
        return
    for task in sorted(stage, key=lambda task: (-seconds[task], task)):
        start = free[0]
        heapq.heapreplace(free, start + seconds[task])
        yield task, start


def _time_joins(graph: TaskGraph, start_s: list[float], end_s: list[float]) -> None:
    """Let each join be over when the last that it waits for is."""
    for vertex, node in enumerate(graph.node):
        if node == NONE:
            start_s[vertex] = max((end_s[wait] for wait in graph.waits(vertex)), default=0.0)
            end_s[vertex] = start_s[vertex]
