"""Malformed questions are found whole, with the keys that lead to each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.errors import ModelError
from cobweb.plugin import Solver
from cobweb_plugins.solvers import CpsatSolver, PreferenceSolver

SOLVERS = [PreferenceSolver(), CpsatSolver()]
TEMPLATE = {"services": ["a"], "hardwaretypes": ["h"], "imagetypes": ["i"]}
NODE = {"hardwaretype": "h", "imagetype": "i", "services": ["a"]}
Keys = tuple[str | int, ...]

WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], Keys, str]] = {
    "no-number-of-nodes": ({}, {"nodes": None}, ("nodes",), "is missing"),
    "no-nodes": ({}, {"nodes": 0}, ("nodes",), "must be a whole number from 1, not 0"),
    "nodes-true": ({}, {"nodes": True}, ("nodes",), "must be a whole number from 1, not True"),
    "nodes-text": ({}, {"nodes": "3"}, ("nodes",), "must be a whole number from 1, not '3'"),
    "services-text": ({"services": "abc"}, {}, ("services",), "must be a list, not 'abc'"),
    "service-number": ({"services": ["a", 1]}, {}, ("services", 1), "must be a name, not 1"),
    "empty-name": ({"imagetypes": [""]}, {}, ("imagetypes", 0), "must be a name, not ''"),
    "size-list": ({"size": [1, 2]}, {}, ("size",), "must be a mapping"),
    "size-text": ({"size": {"min": "x"}}, {}, ("size", "min"), "must be a whole number from 0"),
    "rules-list": ({"rules": ["a"]}, {}, ("rules",), "must be a mapping"),
    "rule-number": ({"rules": {"a": 3}}, {}, ("rules", "a"), "must be a mapping, not 3"),
    "min-negative": ({"rules": {"a": {"min": -1}}}, {}, ("rules", "a", "min"), "from 0, not -1"),
    "step-zero": ({"rules": {"a": {"step": 0}}}, {}, ("rules", "a", "step"), "from 1, not 0"),
    "ratio-2": ({"rules": {"a": {"ratio": 2}}}, {}, ("rules", "a", "ratio"), "from 0 to 1, not 2"),
    "ratio-nan": (
        {"rules": {"a": {"ratio": float("nan")}}},
        {},
        ("rules", "a", "ratio"),
        "must be a number from 0 to 1",
    ),
    "hardware-of-rule": (
        {"rules": {"a": {"hardwaretypes": "h"}}},
        {},
        ("rules", "a", "hardwaretypes"),
        "must be a list",
    ),
    "flat-sets": ({"cantcoexist": ["a"]}, {}, ("cantcoexist", 0), "must be a list of names"),
    "set-of-numbers": (
        {"mustcoexist": [["a", 2]]},
        {},
        ("mustcoexist", "0", 1),
        "must be a name, not 2",
    ),
    "hardware-number": ({}, {"hardwaretype": 5}, ("hardwaretype",), "must be a name, not 5"),
    "existing-text": ({}, {"existing": ["n"]}, ("existing", 0), "must be a mapping, not 'n'"),
    "existing-bare": ({}, {"existing": [{}]}, ("existing", 0), "must have `hardwaretype` and"),
    "existing-count": (
        {},
        {"existing": [NODE | {"count": -1}]},
        ("existing", 0, "count"),
        "must be a whole number from 0, not -1",
    ),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_mistake_is_named_with_its_keys(name: str) -> None:
    template, constraints, keys, message = WRONG[name]
    with pytest.raises(ModelError) as caught:
        CpsatSolver().solve(TEMPLATE | template, {"nodes": 1} | constraints)
    ((found, text, _),) = caught.value.problems
    assert found == keys
    assert message in text


def test_all_mistakes_are_found_at_once() -> None:
    template = {"services": [1], "rules": {"a": {"min": "x", "max": "y"}}}
    with pytest.raises(ModelError) as caught:
        CpsatSolver().solve(template, {"nodes": 0, "imagetype": 3})
    assert len(caught.value.problems) == 5


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
@pytest.mark.parametrize(
    ("ratio", "nodes", "least"),
    [(0.1, 30, 3), (0.1, 31, 4), (0.07, 100, 7), (0, 5, 1), (1, 3, 3)],
)
def test_a_ratio_is_taken_as_it_is_written(
    solver: Solver, ratio: float, nodes: int, least: int
) -> None:
    template = TEMPLATE | {
        "services": ["a", "b"],
        "rules": {"b": {"ratio": ratio, "hardwaretypes": ["k"]}},
        "hardwaretypes": ["h", "k"],
        "cantcoexist": [["a", "b"]],
    }
    if least == nodes:
        template["rules"] = {"b": {"ratio": ratio}, "a": {"min": 0}}
    layout = solver.solve(template, {"nodes": nodes})
    assert sum(n["count"] for n in layout["nodes"] if n["services"] == ["b"]) == least


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_entries_of_no_nodes_are_none(solver: Solver) -> None:
    existing = [NODE | {"count": 0}, NODE]
    layout = solver.solve(TEMPLATE, {"nodes": 2, "existing": existing})
    assert [node.get("existing") for node in layout["nodes"]] == [1, None]
