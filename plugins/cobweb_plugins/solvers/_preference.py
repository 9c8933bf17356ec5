"""How the solver `preference` works: the algorithm of the Coopr paper, made complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cobweb_plugins.solvers._answer import Assignment, answer, violations
from cobweb_plugins.solvers._choices import Group, groups_of, steps_of
from cobweb_plugins.solvers._conflict import explain
from cobweb_plugins.solvers._parse import Question, build, read
from cobweb_plugins.solvers._problem import Comparator, LayoutProblem
from cobweb_plugins.solvers._search import search

Decide = Callable[[LayoutProblem], Assignment | None]


def solve(
    template: Mapping[str, Any], constraints: Mapping[str, Any], comparator: Comparator
) -> dict[str, Any]:
    """Answer a question of the protocol by the algorithm of the paper; see `Solver.solve`."""
    return solve_with(
        read(template, constraints, comparator),
        lambda problem: first_fitting(problem, comparator),
        lambda problem: first_fitting(problem, comparator) is not None,
    )


def first_fitting(problem: LayoutProblem, comparator: Comparator) -> Assignment | None:
    """Return the most preferred layout; None if there is none."""
    groups = groups_of(problem, comparator)
    found = search(groups, steps_of(problem))
    return None if found.counts is None else _assignment(groups, found.counts)


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
