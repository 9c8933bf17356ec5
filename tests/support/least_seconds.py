"""A bound on schedules of tasks, by other means than a planner's: what none can be faster than."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

from cobweb.model import NONE, TaskGraph, chain_seconds


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
