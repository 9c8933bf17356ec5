"""The conformance kit for solvers: each broken promise is caught by the check named for it."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import pytest

from cobweb.errors import CobwebError, NoLayoutError
from cobweb.testing import (
    NamedCheck,
    SolverCase,
    check_solver,
    solver_checks,
)

Failing = Callable[[Iterable[NamedCheck]], set[str]]


def _node(services: Iterable[str]) -> dict[str, Any]:
    return {"hardwaretype": "h", "imagetype": "i", "services": list(services)}


class OneNode:
    """A solver that puts all services on one node."""

    name: ClassVar[str] = "one-node"

    def solve(
        self, template: Mapping[str, Any], constraints: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if constraints["nodes"] != 1:
            raise NoLayoutError("no layout", conflict=["one node has all services"])
        return {"nodes": [_node(template["services"])]}


class NoNodes(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        del template, constraints
        return {}


class NoServices(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        del template, constraints
        return {"nodes": [{}]}


class NoJson(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        return {**super().solve(template, constraints), "at": object()}


class Twice(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        del constraints
        return {"nodes": [_node(sorted([*template["services"], *template["services"]]))]}


class Changing(OneNode):
    calls: ClassVar[list[int]] = []

    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        self.calls.append(1)
        return {**super().solve(template, constraints), "call": len(self.calls)}


class Meddling(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        layout = super().solve(template, constraints)
        template["services"].append("more")
        return layout


class NeverSaysNo(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        del constraints
        return super().solve(template, {"nodes": 1})


class Unsorted(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        del constraints
        return {"nodes": [_node(reversed(template["services"]))]}


class NoTypes(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        del constraints
        return {"nodes": [{"services": list(template["services"])}]}


class NoCount(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        del constraints
        return {"nodes": [_node(template["services"]) | {"count": 0}]}


class TooMany(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        del constraints
        return {"nodes": [_node(template["services"]) | {"count": 2}]}


class NoConflict(OneNode):
    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        if constraints["nodes"] != 1:
            raise NoLayoutError("no layout", conflict=[])
        return super().solve(template, constraints)


class NoProof(OneNode):
    """It finds no layout and cannot say whether there is one."""

    def solve(self, template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Any:
        if constraints["nodes"] != 1:
            raise CobwebError("no layout found")
        return super().solve(template, constraints)


def _wants_a(layout: Mapping[str, Any]) -> None:
    assert any("a" in node["services"] for node in layout["nodes"]), "a is nowhere"


def _solver_case(make: Callable[[], OneNode]) -> SolverCase:
    return SolverCase(
        make=make,
        template={"services": ["a", "b"]},
        constraints={"nodes": 1},
        impossible=({"services": ["a"]}, {"nodes": 0}),
        verify=_wants_a,
    )


def test_a_good_solver_passes_all_checks() -> None:
    assert len(solver_checks(_solver_case(OneNode))) == 6
    check_solver(_solver_case(OneNode))
    check_solver(_solver_case(NoProof))


@pytest.mark.parametrize(
    ("make", "caught"),
    [
        (NoNodes, "layout_has_nodes_with_services"),
        (NoServices, "layout_has_nodes_with_services"),
        (NoJson, "layout_has_nodes_with_services"),
        (Twice, "layout_has_nodes_with_services"),
        (Unsorted, "layout_has_nodes_with_services"),
        (NoTypes, "layout_has_nodes_with_services"),
        (NoCount, "layout_has_nodes_with_services"),
        (TooMany, "layout_has_as_many_nodes_as_asked"),
        (NoConflict, "no_layout_is_an_error"),
        (Changing, "same_question_same_layout"),
        (Meddling, "question_is_left_as_it_was"),
        (NeverSaysNo, "no_layout_is_an_error"),
    ],
)
def test_a_solver_that_breaks_a_promise_is_caught(
    make: type[OneNode], caught: str, failing: Failing
) -> None:
    assert caught in failing(solver_checks(_solver_case(make)))
