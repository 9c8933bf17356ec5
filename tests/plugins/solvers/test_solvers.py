"""Both solvers keep the kit's promises, and do what Coopr's own solver does not."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from cobweb.errors import CobwebError, NoLayoutError
from cobweb.plugin import Solver
from cobweb.testing import NamedCheck, SolverCase, solver_checks
from cobweb_plugins.solvers import (
    CpsatSolver,
    PreferenceSolver,
    _atoms,
    _choices,
    _cover,
    _models,
    _order,
)
from cobweb_plugins.solvers._problem import NodeLayout

SOLVERS = [PreferenceSolver(), CpsatSolver()]
by_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
TYPES = {"hardwaretypes": ["hw1", "hw2"], "imagetypes": ["img1", "img2"]}
PAPER = TYPES | {
    "services": ["s1", "s2", "s3"],
    "mustcoexist": [["s1", "s3"]],
    "cantcoexist": [["s1", "s2"]],
    "rules": {
        "s1": {"hardwaretypes": ["hw1"], "max": 1},
        "s2": {"imagetypes": ["img1"], "min": 1},
    },
}
"""The example of the paper: s1 on one node only, with s3 and on hw1; s2 on img1."""

APART = TYPES | {"services": ["a", "b"], "cantcoexist": [["a", "b"]]}
CHECKS = [
    check
    for make in (PreferenceSolver, CpsatSolver)
    for check in solver_checks(
        SolverCase(
            make=make,
            template=PAPER,
            constraints={"nodes": 5},
            impossible=(APART, {"nodes": 1}),
        )
    )
]


def _short(layout: Any) -> list[Any]:
    """Return (count, types, services) per part, and which entry it is if it exists."""
    return [
        (
            node["count"],
            f"{node['hardwaretype']} {node['imagetype']}",
            " ".join(node["services"]),
            *([node["existing"]] if "existing" in node else []),
        )
        for node in layout["nodes"]
    ]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_solvers_conform(check: NamedCheck) -> None:
    check()


@by_solver
def test_the_example_of_the_paper(solver: Solver) -> None:
    layout = solver.solve(PAPER, {"nodes": 5})
    assert _short(layout) == [(1, "hw1 img1", "s1 s3"), (4, "hw1 img1", "s2")]


@by_solver
def test_a_greedy_start_that_is_too_short_is_no_end(solver: Solver) -> None:
    """As many as possible of {a, b} leaves nothing for the other nodes; Coopr stops there."""
    template = TYPES | {
        "services": ["a", "b"],
        "rules": {"a": {"max": 2}, "b": {"max": 2}},
    }
    layout = solver.solve(template, {"nodes": 3})
    assert _short(layout) == [
        (1, "hw1 img1", "a b"),
        (1, "hw1 img1", "a"),
        (1, "hw1 img1", "b"),
    ]


@by_solver
def test_a_requested_service_does_not_vanish(solver: Solver) -> None:
    """Without a minimum Coopr puts a on both nodes, and b on none."""
    assert _short(solver.solve(APART, {"nodes": 2})) == [
        (1, "hw1 img1", "a"),
        (1, "hw1 img1", "b"),
    ]
    may_vanish = APART | {"rules": {"b": {"min": 0}}}
    assert _short(solver.solve(may_vanish, {"nodes": 2})) == [(2, "hw1 img1", "a")]


@by_solver
def test_a_service_that_cannot_be_added_is_not_dropped(solver: Solver) -> None:
    node = {"hardwaretype": "hw1", "imagetype": "img1", "services": ["a"], "may_gain": ["b"]}
    with pytest.raises(NoLayoutError):
        solver.solve(APART, {"nodes": 1, "existing": [node]})


@by_solver
def test_three_that_cannot_coexist_may_by_twos(solver: Solver) -> None:
    template = TYPES | {"services": ["a", "b", "c"], "cantcoexist": [["a", "b", "c"]]}
    assert _short(solver.solve(template, {"nodes": 2})) == [
        (1, "hw1 img1", "a b"),
        (1, "hw1 img1", "a c"),
    ]


@by_solver
def test_what_nobody_requested_is_left_out_of_must_coexist(solver: Solver) -> None:
    template = TYPES | {"services": ["a"], "mustcoexist": [["a", "b"]]}
    assert _short(solver.solve(template, {"nodes": 1})) == [(1, "hw1 img1", "a")]


@by_solver
def test_a_grown_cluster_keeps_its_nodes(solver: Solver) -> None:
    node = {"hardwaretype": "hw2", "imagetype": "img2", "services": ["s2"]}
    first = {"hardwaretype": "hw1", "imagetype": "img2", "services": ["s1", "s3"]}
    template = PAPER | {"rules": {"s1": {"hardwaretypes": ["hw1"], "max": 1}}}
    layout = solver.solve(template, {"nodes": 4, "existing": [node, first], "imagetype": "img2"})
    assert _short(layout) == [
        (1, "hw2 img2", "s2", 0),
        (1, "hw1 img2", "s1 s3", 1),
        (2, "hw1 img2", "s2"),
    ]


@by_solver
def test_of_nodes_that_are_alike_the_last_go(solver: Solver) -> None:
    web = {"hardwaretype": "hw1", "imagetype": "img1", "services": ["web"]}
    both = web | {"services": ["db", "web"]}
    template = TYPES | {"services": ["db", "web"]}
    layout = solver.solve(template, {"nodes": 3, "existing": [web, both, web | {"count": 2}]})
    assert _short(layout) == [
        (1, "hw1 img1", "web", 0),
        (1, "hw1 img1", "db web", 1),
        (1, "hw1 img1", "web", 2),
    ]


@by_solver
def test_a_node_that_is_needed_does_not_go(solver: Solver) -> None:
    web = {"hardwaretype": "hw1", "imagetype": "img1", "services": ["log", "web"], "count": 3}
    database = web | {"services": ["db"], "count": 1}
    template = TYPES | {"services": ["db", "log", "web"], "cantcoexist": [["db", "web"]]}
    layout = solver.solve(template, {"nodes": 2, "existing": [web, database]})
    assert _short(layout) == [(1, "hw1 img1", "log web", 0), (1, "hw1 img1", "db", 1)]


@by_solver
def test_an_added_service_goes_onto_as_many_nodes_as_in_a_new_cluster(solver: Solver) -> None:
    node = {"hardwaretype": "hw1", "imagetype": "img1", "services": ["a"], "may_gain": ["b"]}
    template = TYPES | {"services": ["a", "b"], "rules": {"b": {"max": 2}}}
    layout = solver.solve(template, {"nodes": 3, "existing": [node, node, node]})
    assert [part[2:] for part in _short(layout)] == [("a b", 0), ("a b", 1), ("a", 2)]


@by_solver
def test_nothing_changes_without_need(solver: Solver) -> None:
    """A node keeps b and c, although a and b are as many and come first by name."""
    node = {
        "hardwaretype": "hw1",
        "imagetype": "img1",
        "services": ["b", "c"],
        "may_gain": ["a"],
        "may_lose": ["c"],
    }
    template = TYPES | {
        "services": ["a", "b", "c"],
        "cantcoexist": [["a", "c"]],
        "rules": {"a": {"min": 0}},
    }
    layout = solver.solve(template, {"nodes": 1, "existing": [node]})
    assert _short(layout) == [(1, "hw1 img1", "b c", 0)]


@by_solver
def test_a_removed_service_leaves_every_node(solver: Solver) -> None:
    node = {"hardwaretype": "h9", "imagetype": "i9", "services": ["a", "old"], "may_lose": ["old"]}
    layout = solver.solve(TYPES | {"services": ["a"]}, {"nodes": 2, "existing": [node, node]})
    assert _short(layout) == [(1, "h9 i9", "a", 0), (1, "h9 i9", "a", 1)]


class _Reversed(CpsatSolver):
    """Prefers the types that come last."""

    @staticmethod
    def rank(hardwaretype: str, imagetype: str) -> Any:
        return (-int(hardwaretype[-1]), -int(imagetype[-1]))


class _Fewest(PreferenceSolver):
    """Prefers nodes with few services."""

    @staticmethod
    def comparator(layout: NodeLayout) -> Any:
        return (len(layout.services), layout.hardwaretype, layout.imagetype, layout.services)


def test_another_rank_and_another_comparator_prefer_otherwise() -> None:
    template = TYPES | {"services": ["a", "b"]}
    assert _short(_Reversed().solve(template, {"nodes": 2})) == [(2, "hw2 img2", "a b")]
    assert _short(_Fewest().solve(template, {"nodes": 2})) == [
        (1, "hw1 img1", "a"),
        (1, "hw1 img1", "b"),
    ]


def _five_in_a_ring() -> dict[str, Any]:
    """Return services that need three nodes although no three of them are foes of each other."""
    ring = ["a", "b", "c", "d", "e"]
    pairs = [[ring[i], ring[i - 1]] for i in range(5)]
    return TYPES | {"services": ring, "cantcoexist": pairs}


@by_solver
def test_a_ring_of_five_needs_three_nodes(solver: Solver) -> None:
    with pytest.raises(NoLayoutError) as caught:
        solver.solve(_five_in_a_ring(), {"nodes": 2})
    assert len(caught.value.conflict) == 5
    assert len(_short(solver.solve(_five_in_a_ring(), {"nodes": 3}))) == 3


@pytest.mark.parametrize("few", [_cover.FEW, 0], ids=["by-nodes", "by-sets"])
def test_cp_sat_decides_either_way(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cover, "FEW", few)
    template = _five_in_a_ring() | {"rules": {name: {"min": 400} for name in "abcde"}}
    layout = CpsatSolver().solve(template, {"nodes": 1000})
    assert _short(layout) == [
        (200, "hw1 img1", "a c"),
        (200, "hw1 img1", "a d"),
        (200, "hw1 img1", "b d"),
        (200, "hw1 img1", "b e"),
        (200, "hw1 img1", "c e"),
    ]
    with pytest.raises(NoLayoutError):
        CpsatSolver().solve(template, {"nodes": 999})


def test_without_or_tools_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    assert CpsatSolver().solve(PAPER, {"nodes": 5})["nodes"]
    with pytest.raises(CobwebError, match=r"OR-tools.*with its extra `cluster`"):
        CpsatSolver().solve(_five_in_a_ring(), {"nodes": 2})


class _Tired:
    """A CP-SAT that comes to no end."""

    def solve(self, model: Any) -> Any:
        del model
        return importlib.import_module("ortools.sat.python.cp_model").UNKNOWN


@pytest.mark.parametrize(
    ("module", "limit", "value", "nodes"),
    [
        (_order, "MAX_LOOKS", 3, 3),
        (_models, "MAX_COLUMNS", 1, 2),
        (_models, "_solver", _Tired, 2),
    ],
    ids=["looks", "columns", "effort"],
)
def test_a_limit_is_no_proof(
    module: Any, limit: str, value: Any, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, value)
    monkeypatch.setattr(_cover, "FEW", 0)
    with pytest.raises(CobwebError, match="whether there is a layout is not known") as caught:
        CpsatSolver().solve(_five_in_a_ring(), {"nodes": nodes})
    assert not isinstance(caught.value, NoLayoutError)
    assert caught.value.exit_code == 1


def test_too_many_ways_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"s{number:02}" for number in range(23)]
    with pytest.raises(CobwebError, match="23 services have more than 4,194,304 combinations"):
        PreferenceSolver().solve(TYPES | {"services": names}, {"nodes": 1})
    assert _choices.MAX_SETS == 2**22
    monkeypatch.setattr(_atoms, "MAX_OUTCOMES", 100)
    node = {"hardwaretype": "hw1", "imagetype": "img1", "services": names[:1], "may_gain": names}
    with pytest.raises(CobwebError, match="may become more than 100 things"):
        CpsatSolver().solve(TYPES | {"services": names}, {"nodes": 1, "existing": [node]})
