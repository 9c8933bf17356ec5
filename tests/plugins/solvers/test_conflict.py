"""A question without a layout gets the smallest set of constraints in conflict, in words."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cobweb.errors import NoLayoutError
from cobweb.plugin import Solver
from cobweb_plugins.solvers import CpsatSolver, PreferenceSolver, _conflict
from cobweb_plugins.solvers._conflict import Constraint, constraints_of, without
from cobweb_plugins.solvers._parse import Question, build, read
from cobweb_plugins.solvers._preference import first_fitting
from tests.plugins.solvers.cases import questions
from tests.support.examples import examples

SOLVERS = [PreferenceSolver(), CpsatSolver()]
by_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)

BASE = {"hardwaretypes": ["hw2"], "imagetypes": ["img1", "img2"]}
NODE = {"hardwaretype": "hw2", "imagetype": "img1"}
CONFLICTS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "hardware-that-is-not-allowed": (
        {"services": ["s1"], "rules": {"s1": {"hardwaretypes": ["hw1"]}}},
        {"nodes": 1},
        ["s1 needs hw1, which the template does not allow"],
    ),
    "hardware-that-no-node-has": (
        {"services": ["s1", "s2"], "rules": {"s1": {"hardwaretypes": ["hw1"]}}},
        {"nodes": 1, "existing": [NODE | {"services": ["s2"], "may_gain": ["s1"]}]},
        ["s1 needs hw1, which no node has"],
    ),
    "image-as-requested": (
        {"services": ["s1"], "rules": {"s1": {"imagetypes": ["img1"]}}},
        {"nodes": 1, "imagetype": "img2"},
        ["new nodes get the image type img2", "s1 needs img1"],
    ),
    "hardware-requested-in-vain": (
        {"services": ["s1"]},
        {"nodes": 1, "hardwaretype": "hw9"},
        ["the hardware type hw9 is requested, which the template does not allow"],
    ),
    "nothing-allowed": (
        {"services": ["s1"], "imagetypes": []},
        {"nodes": 1},
        ["the template allows no image type"],
    ),
    "together-and-apart": (
        {
            "services": ["a", "b", "c"],
            "mustcoexist": [["a", "b"]],
            "cantcoexist": [["b", "c"]],
            "rules": {"c": {"ratio": 1}},
        },
        {"nodes": 3},
        ["c needs 1 of 3 nodes, which is 3", "b can't be with c"],
    ),
    "together-on-other-images": (
        {
            "services": ["a", "b"],
            "mustcoexist": [["a", "b"]],
            "rules": {"a": {"imagetypes": ["img1"]}, "b": {"imagetypes": ["img2"]}},
        },
        {"nodes": 3},
        ["a needs img1", "b needs img2", "a must be with b"],
    ),
    "too-few-nodes": (
        {"services": ["mysql"], "rules": {"mysql": {"min": 3}}},
        {"nodes": 2},
        ["mysql needs at least 3 nodes, the cluster has 2"],
    ),
    "too-many-nodes": (
        {"services": ["mysql"], "rules": {"mysql": {"max": 1}}},
        {"nodes": 2},
        ["mysql may be on at most 1 of 2 nodes"],
    ),
    "steps": (
        {"services": ["db"], "rules": {"db": {"min": 1, "step": 2}}},
        {"nodes": 4},
        ["the number of nodes with db is 1 plus a multiple of 2"],
    ),
    "cluster-too-small": (
        {"services": ["a"], "size": {"min": 3}},
        {"nodes": 2},
        ["the template needs at least 3 nodes, the cluster has 2"],
    ),
    "cluster-too-large": (
        {"services": ["a"], "size": {"max": 3}},
        {"nodes": 4},
        ["the template allows at most 3 nodes, the cluster has 4"],
    ),
    "services-in-conflict": (
        {"services": ["a", "b"], "conflicts": [["b", "a"], ["a", "z"]]},
        {"nodes": 4},
        ["a conflicts with b: one cluster can't have both"],
    ),
    "no-service": (
        {"services": []},
        {"nodes": 1},
        ["no service is requested, and each node needs one"],
    ),
    "existing-node-in-the-way": (
        {"services": ["a", "b"], "cantcoexist": [["a", "b"]]},
        {"nodes": 2, "existing": [NODE | {"count": 2, "services": ["a"], "may_gain": ["b"]}]},
        ["2 existing nodes with a may gain b and lose nothing", "a can't be with b"],
    ),
    "existing-nodes-of-many-kinds": (
        {"services": ["a", "b", "c", "d", "e", "x"]},
        {
            "nodes": 5,
            "existing": [NODE | {"services": [name], "may_lose": ["y"]} for name in "abcde"],
        },
        ["5 existing nodes may gain nothing and lose y"],
    ),
    "service-that-may-not-go": (
        {"services": ["a"]},
        {"nodes": 1, "existing": [NODE | {"services": ["a", "old"]}]},
        ["1 existing node with a, old may gain nothing and lose nothing"],
    ),
}


@pytest.mark.gate("the first of them loads the solver")
@by_solver
@pytest.mark.parametrize("name", sorted(CONFLICTS))
def test_the_conflict_is_said_in_words(solver: Solver, name: str) -> None:
    template, constraints, conflict = CONFLICTS[name]
    with pytest.raises(NoLayoutError) as caught:
        solver.solve(BASE | template, constraints)
    assert caught.value.conflict == tuple(conflict)
    assert caught.value.exit_code == 4
    assert not caught.value.hint
    for text in conflict:
        assert text in caught.value.message


@by_solver
@given(data=st.data())
@settings(max_examples=examples(20))
def test_no_smaller_set_is_in_conflict(solver: Solver, data: st.DataObject) -> None:
    template, constraints = data.draw(questions(existing=data.draw(st.booleans())))
    question = read(template, constraints, PreferenceSolver.comparator)
    try:
        solver.solve(template, constraints)
        assume(False)  # noqa: FBT003  # hypothesis takes no keyword
    except NoLayoutError as error:
        conflict = error.conflict
    named = constraints_of(question)
    core = [constraint for constraint in named if constraint.text in conflict]
    assert {constraint.text for constraint in core} == set(conflict)
    assume(len(core) == len(conflict))  # else two entries of existing nodes are told alike
    assert not _possible(question, named, core)
    for fewer in combinations(named, len(core) - 1):
        assert _possible(question, named, fewer), fewer


@pytest.mark.parametrize("questions_asked", [0, 3])
def test_a_set_that_may_not_be_the_smallest_says_so(
    questions_asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_conflict, "MAX_QUESTIONS", questions_asked)
    services = ["a", "b", "c", "d"]
    template = BASE | {"services": services, "cantcoexist": [*combinations(services, 2)]}
    with pytest.raises(NoLayoutError, match="a smaller set may be in conflict too") as caught:
        CpsatSolver().solve(template, {"nodes": 3})
    assert len(caught.value.conflict) == 6


def _possible(question: Question, named: Any, kept: Any) -> bool:
    dropped: list[Constraint] = [constraint for constraint in named if constraint not in kept]
    problem = build(without(question, dropped))
    return first_fitting(problem, PreferenceSolver.comparator) is not None
