"""Conformance checks for solvers: from a template and constraints to a layout."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.errors import CobwebError, NoLayoutError
from cobweb.plugin import Kind, Solver
from cobweb.testing._checks import Kit, expect, plain, refusal, satisfies

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


def layout_has_nodes_with_services(case: SolverCase) -> None:
    """A layout has nodes with types and sorted services, is plain JSON, and keeps constraints."""
    layout = case.make().solve(case.template, case.constraints)
    nodes = layout.get("nodes")
    expect(isinstance(nodes, list), f"the layout has no list of nodes: {layout}")
    for node in nodes or []:
        expect(isinstance(node, Mapping), f"a node is no mapping: {node}")
        _look_at(node)
    plain("the layout", layout)
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


def no_layout_is_an_error(case: SolverCase, impossible: Mappings) -> None:
    """Where there is no layout, solve() raises CobwebError; NoLayoutError names the conflict."""
    error = refusal(CobwebError, lambda: case.make().solve(*impossible))
    if isinstance(error, NoLayoutError):
        expect(error.conflict, "the error names no constraints in conflict")
        expect(all(error.conflict), f"a constraint of the conflict says nothing: {error.conflict}")


_KIT = Kit(
    always=[
        satisfies(Kind.SOLVERS),
        layout_has_nodes_with_services,
        layout_has_as_many_nodes_as_asked,
        same_question_same_layout,
        question_is_left_as_it_was,
    ],
    given={"impossible": [no_layout_is_an_error]},
)
solver_checks, check_solver = _KIT.checks, _KIT.check


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
