"""What nodes may be or become, written out and in the order of preference.

First two of the three stages of the Coopr paper: every service set, then for each the most
preferred of its valid node layouts. One layout per service set is enough: nothing that is said of
a whole cluster looks at hardware or images, so of two layouts with the same services the preferred
one can always stand in for the other. What exists keeps its hardware and image, and chooses among
the service sets that it may come to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from cobweb.errors import CobwebError
from cobweb_plugins.solvers._problem import (
    Comparator,
    Existing,
    LayoutProblem,
    NodeLayout,
    order_of_outcome,
)

MAX_SETS = 1 << 22
"""How many service sets are written out at most: those of 22 services."""

GONE = "\0gone"
"""Stands among services for: the node goes. As many nodes have it as have to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes that choose from the same layouts, the most preferred first; None: the node goes."""

    nodes: int
    choices: tuple[NodeLayout | None, ...]


def groups_of(problem: LayoutProblem, comparator: Comparator) -> list[Group]:
    """Return the groups of existing nodes, then the one of the new nodes."""
    groups = []
    for group in problem.existing:
        choices: list[NodeLayout | None] = [*outcomes(problem, group, comparator)]
        if problem.going:
            choices.append(None)
        groups.append(Group(nodes=group.count, choices=tuple(choices)))
    layouts = new_layouts(problem, comparator) if problem.new else ()
    return [*groups, Group(nodes=problem.new, choices=tuple(layouts))]


def steps_of(problem: LayoutProblem) -> dict[str, range]:
    """Return how many nodes may have each service, and how many go."""
    counts = {service: problem.rules[service].counts() for service in problem.services}
    return counts | {GONE: range(problem.going, problem.going + 1)}


def new_layouts(problem: LayoutProblem, comparator: Comparator) -> list[NodeLayout]:
    """Return the layouts of new nodes, one per service set, the most preferred first."""
    preferred = []
    for services in _service_sets(problem.services):
        layouts = [
            layout
            for hardwaretype in problem.hardwaretypes
            for imagetype in problem.imagetypes
            if _valid(
                problem,
                layout := NodeLayout(
                    hardwaretype=hardwaretype, imagetype=imagetype, services=services
                ),
            )
        ]
        if layouts:
            preferred.append(min(layouts, key=comparator))
    return sorted(preferred, key=comparator)


def outcomes(problem: LayoutProblem, group: Existing, comparator: Comparator) -> list[NodeLayout]:
    """Return what a node of the group may be in the end, the most preferred first."""
    before = frozenset(group.layout.services)
    kept = before - group.may_lose
    free = sorted(((before & group.may_lose) | (group.may_gain - before)) & {*problem.services})
    layouts = [
        layout
        for chosen in [(), *_service_sets(free)]
        if _valid(
            problem,
            layout := NodeLayout(
                hardwaretype=group.layout.hardwaretype,
                imagetype=group.layout.imagetype,
                services=tuple(sorted(kept.union(chosen))),
            ),
        )
    ]
    return sorted(layouts, key=order_of_outcome(group, comparator))


def _service_sets(services: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield every combination of services, those of most services first."""
    names = list(services)
    if 1 << len(names) > MAX_SETS:
        raise CobwebError(
            f"{len(names)} services have more than {MAX_SETS:,} combinations",
            hint="use the solver `cpsat`, or let existing nodes gain and lose fewer services",
        )
    for size in range(len(names), 0, -1):
        yield from combinations(names, size)


def _valid(problem: LayoutProblem, layout: NodeLayout) -> bool:
    return next(problem.faults(layout), None) is None
