"""Conformance checks for solvers: from a template and constraints to a layout."""

# ruff: noqa: D401  # the docstrings of checks are claims

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.errors import CobwebError
from cobweb.plugin import Kind, Solver
from cobweb.plugin._contracts import item_problems
from cobweb.testing._checks import NamedCheck, expect, named, run_all

Mappings = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A template and its constraints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverCase:
    """What the kit needs to try a solver.

    `template` and `constraints` have a layout, `impossible` (if given) are two that have none;
    `verify` raises AssertionError where a layout breaks the constraints.
    """

    make: Callable[[], Solver]
    template: Mapping[str, Any]
    constraints: Mapping[str, Any] = field(default_factory=dict)
    impossible: Mappings | None = None
    verify: Callable[[Mapping[str, Any]], None] | None = None


def solver_checks(case: SolverCase) -> list[NamedCheck]:
    """Return all checks that apply to the case."""
    functions = [
        satisfies_the_protocol,
        layout_has_nodes_with_services,
        same_question_same_layout,
        question_is_left_as_it_was,
    ]
    if case.impossible:
        functions.append(no_layout_is_an_error)
    return named(functions, case)


def check_solver(case: SolverCase) -> None:
    """Run all checks that apply; AssertionError names every one that fails."""
    run_all(solver_checks(case))


def satisfies_the_protocol(case: SolverCase) -> None:
    """The class has a name and the methods of the protocol."""
    problems = item_problems(Kind.SOLVERS, type(case.make()))
    expect(not problems, "; ".join(problems))


def layout_has_nodes_with_services(case: SolverCase) -> None:
    """A layout is `{"nodes": [{"services": [...]}]}`, plain JSON, and keeps the constraints."""
    layout = case.make().solve(case.template, case.constraints)
    nodes = layout.get("nodes")
    expect(isinstance(nodes, list), f"the layout has no list of nodes: {layout}")
    for node in nodes or []:
        services: Any = node.get("services") if isinstance(node, Mapping) else None
        expect(isinstance(services, list), f"a node has no list of services: {node}")
        expect(len(set(services)) == len(services), f"a node has a service twice: {node}")
    try:
        json.dumps(layout)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the layout is not plain JSON: {error}") from error
    if case.verify:
        case.verify(layout)


def same_question_same_layout(case: SolverCase) -> None:
    """The same template and constraints give the same layout."""
    first = case.make().solve(case.template, case.constraints)
    second = case.make().solve(case.template, case.constraints)
    expect(first == second, f"two calls gave {first} and {second}")


def question_is_left_as_it_was(case: SolverCase) -> None:
    """solve() does not change what it is given."""
    before = copy.deepcopy((case.template, case.constraints))
    case.make().solve(case.template, case.constraints)
    expect((case.template, case.constraints) == before, "solve() changed its arguments")


def no_layout_is_an_error(case: SolverCase) -> None:
    """Where there is no layout, solve() raises CobwebError with a message."""
    assert case.impossible is not None
    try:
        layout = case.make().solve(*case.impossible)
    except CobwebError as error:
        expect(error.message, "the error says nothing")
        return
    raise AssertionError(f"an impossible template got the layout {layout}")
