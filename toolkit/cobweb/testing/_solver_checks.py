"""Conformance checks for solvers: from a template and constraints to a layout."""

# ruff: noqa: D401  # the docstrings of checks are claims

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.errors import CobwebError, NoLayoutError
from cobweb.plugin import Kind, Solver
from cobweb.plugin._contracts import item_problems
from cobweb.testing._checks import NamedCheck, expect, named, run_all

Mappings = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A template and its constraints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverCase:
    """What the kit needs to try a solver.

    `template` and `constraints` (see `Solver`) have a layout, `impossible` (if given) are two that
    have none; `verify` raises AssertionError where a layout breaks the constraints.
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
        layout_has_as_many_nodes_as_asked,
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
    """A layout has nodes with types and sorted services, is plain JSON, and keeps constraints."""
    layout = case.make().solve(case.template, case.constraints)
    nodes = layout.get("nodes")
    expect(isinstance(nodes, list), f"the layout has no list of nodes: {layout}")
    for node in nodes or []:
        expect(isinstance(node, Mapping), f"a node is no mapping: {node}")
        _look_at(node)
    try:
        json.dumps(layout)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the layout is not plain JSON: {error}") from error
    if case.verify:
        case.verify(layout)


def layout_has_as_many_nodes_as_asked(case: SolverCase) -> None:
    """The counts of a layout's nodes, 1 where none is given, sum up to `nodes`."""
    nodes = case.make().solve(case.template, case.constraints).get("nodes", [])
    total, asked = sum(node.get("count", 1) for node in nodes), case.constraints["nodes"]
    expect(total == asked, f"{asked} nodes were asked for, the layout has {total}")


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
    """Where there is no layout, solve() raises CobwebError; NoLayoutError names the conflict."""
    assert case.impossible is not None
    try:
        layout = case.make().solve(*case.impossible)
    except NoLayoutError as error:
        expect(error.message, "the error says nothing")
        expect(error.conflict, "the error names no constraints in conflict")
        expect(all(error.conflict), f"a constraint of the conflict says nothing: {error.conflict}")
        return
    except CobwebError as error:
        expect(error.message, "the error says nothing")
        return
    raise AssertionError(f"an impossible template got the layout {layout}")


def _look_at(node: Mapping[str, Any]) -> None:
    """Look at one node of a layout, or several that are alike."""
    services: Any = node.get("services")
    expect(isinstance(services, list), f"a node has no list of services: {node}")
    expect(len(set(services)) == len(services), f"a node has a service twice: {node}")
    expect(sorted(services) == services, f"the services of a node are not sorted: {node}")
    for key in ("hardwaretype", "imagetype"):
        expect(isinstance(node.get(key), str), f"a node has no {key}: {node}")
    count = node.get("count", 1)
    whole = isinstance(count, int) and not isinstance(count, bool)
    expect(whole and count > 0, f"the count of a node is no number from 1: {node}")
