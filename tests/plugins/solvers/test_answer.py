"""What is wrong with a layout is said in words: each mistake made on purpose is found."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb_plugins.solvers import PreferenceSolver
from cobweb_plugins.solvers._answer import violations
from cobweb_plugins.solvers._parse import build, read

TEMPLATE: dict[str, Any] = {
    "services": ["a", "b", "c"],
    "hardwaretypes": ["h"],
    "imagetypes": ["i"],
    "cantcoexist": [["a", "b"]],
    "mustcoexist": [["b", "c"]],
    "rules": {"b": {"imagetypes": ["i"], "min": 1, "max": 4, "step": 2}},
}
OLD: dict[str, Any] = {"hardwaretype": "k", "imagetype": "i", "services": ["a"]}
NEW: dict[str, Any] = {"count": 1, "hardwaretype": "h", "imagetype": "i", "services": ["b", "c"]}
RIGHT: list[dict[str, Any]] = [OLD | {"count": 2, "existing": 0}, NEW]

WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "too-few": (RIGHT[:1], "the layout has 2 nodes, not 3"),
    "steps": ([RIGHT[0], NEW | {"count": 2}], "b is on 2 nodes, not on 1 to 3 by 2"),
    "nowhere": ([RIGHT[0], NEW | {"services": ["a"]}], "c is on 0 nodes, not on 1 to 3"),
    "empty": ([RIGHT[0], NEW | {"services": []}], "a node has no service"),
    "apart": ([RIGHT[0], NEW | {"services": ["a", "b", "c"]}], "a, b can't be on one node"),
    "together": ([RIGHT[0], NEW | {"services": ["b"]}], "b must be with c"),
    "image": ([RIGHT[0], NEW | {"imagetype": "j"}], "b can't be on h with j"),
    "unknown": ([RIGHT[0], NEW | {"services": ["b", "c", "x"]}], "x is not requested"),
    "hardware": ([RIGHT[0], NEW | {"hardwaretype": "k"}], "a new node has the hardware type k"),
    "new-image": ([RIGHT[0], NEW | {"imagetype": "j"}], "a new node has the image type j"),
    "moved": ([RIGHT[0] | {"hardwaretype": "h"}, NEW], "node 0 changes its hardware or image"),
    "changed": (
        [RIGHT[0] | {"services": ["a", "c"]}, NEW],
        "existing node 0 has ['a', 'c'] in place of ['a']",
    ),
    "more-than-there-are": ([RIGHT[0] | {"count": 3}, NEW], "there are 3 of 2 existing nodes 0"),
    "replaced": ([RIGHT[0] | {"count": 1}, NEW | {"count": 2}], "nodes go and others come"),
}


def _wrong(nodes: list[dict[str, Any]]) -> tuple[str, ...]:
    constraints = {"nodes": 3, "existing": [OLD | {"count": 2}]}
    problem = build(read(TEMPLATE, constraints, PreferenceSolver.comparator))
    return violations(problem, {"nodes": nodes})


def test_nothing_is_wrong_with_the_right_layout() -> None:
    assert _wrong(RIGHT) == ()


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_mistake_in_a_layout_is_found(name: str) -> None:
    nodes, message = WRONG[name]
    assert any(message in text for text in _wrong(nodes)), _wrong(nodes)
