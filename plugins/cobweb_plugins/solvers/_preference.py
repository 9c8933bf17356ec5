"""The solver `preference`: the algorithm of the Coopr paper, made complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from cobweb_plugins.solvers._answer import Assignment, answer, violations
from cobweb_plugins.solvers._choices import Group, groups_of, steps_of
from cobweb_plugins.solvers._conflict import explain
from cobweb_plugins.solvers._parse import Question, build, read
from cobweb_plugins.solvers._problem import LayoutProblem, NodeLayout, by_services_then_names
from cobweb_plugins.solvers._search import search

__all__ = ["PreferenceSolver", "solve_with"]

Decide = Callable[[LayoutProblem], Assignment | None]


class PreferenceSolver:
    """Writes out all service sets, then node layouts, and searches counts by preference.

    Exact, and exponential in the number of services: for small clusters, and to check others by.
    A subclass may have another `comparator`.
    """

    name: ClassVar[str] = "preference"

    def solve(
        self, template: Mapping[str, Any], constraints: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """See `Solver.solve`."""
        return solve_with(
            read(template, constraints, self.comparator), self._decide, self._possible
        )

    @staticmethod
    def comparator(layout: NodeLayout) -> Any:
        """Return the key that node layouts are sorted by; keys of different layouts differ."""
        return by_services_then_names(layout)

    def _decide(self, problem: LayoutProblem) -> Assignment | None:
        groups = groups_of(problem, self.comparator)
        found = search(groups, steps_of(problem))
        return None if found.counts is None else _assignment(groups, found.counts)

    def _possible(self, problem: LayoutProblem) -> bool:
        return self._decide(problem) is not None


def solve_with(
    question: Question, decide: Decide, possible: Callable[[LayoutProblem], bool]
) -> dict[str, Any]:
    """Return the layout that `decide` finds, looked over; NoLayoutError with the conflict if none.

    `possible` answers the same question where it only matters whether there is a layout.
    """
    problem = build(question)
    assignment = decide(problem)
    if assignment is None:
        raise explain(question, possible)
    layout = answer(problem, assignment)
    wrong = violations(problem, layout)
    assert not wrong, wrong
    return layout


def _assignment(groups: list[Group], counts: tuple[tuple[int, ...], ...]) -> Assignment:
    return [
        [
            (layout, count)
            for layout, count in zip(group.choices, numbers, strict=True)
            if layout is not None and count
        ]
        for group, numbers in zip(groups, counts, strict=True)
    ]
