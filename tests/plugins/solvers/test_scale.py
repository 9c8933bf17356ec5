"""Large questions cost few steps; steps are counted, not seconds."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cobweb.errors import NoLayoutError
from cobweb_plugins.solvers import CpsatSolver, PreferenceSolver
from cobweb_plugins.solvers._answer import answer, violations
from cobweb_plugins.solvers._cpsat import Effort, most_preferred
from cobweb_plugins.solvers._parse import build, read

SOLVER = CpsatSolver()


def _question(seed: int, services: int, types: int) -> dict[str, Any]:
    """Return a template that has a layout, with conflicts, types and bounds at random."""
    draw = random.Random(seed)
    names = [f"s{number:02}" for number in range(services)]
    hardware = [f"hw{number}" for number in range(types)]
    images = [f"img{number}" for number in range(types)]
    rules = {}
    for name in names:
        rule: dict[str, Any] = {}
        if draw.random() < 0.3:
            rule["hardwaretypes"] = draw.sample(hardware, types - 1)
        if draw.random() < 0.3:
            rule["imagetypes"] = draw.sample(images, types - 1)
        if draw.random() < 0.5:
            rule["min"] = draw.randint(1, 3)
            rule["max"] = rule["min"] + draw.choice([0, 2, 1000])
        rules[name] = rule
    return {
        "services": names,
        "hardwaretypes": hardware,
        "imagetypes": images,
        "rules": rules,
        "cantcoexist": [draw.sample(names, 2) for _ in range(3 * services)],
    }


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("services", "types"), [(30, 3), (40, 5)], ids=["30", "40"])
def test_few_layouts_are_looked_at(services: int, types: int, seed: int) -> None:
    template, constraints = _question(seed, services, types), {"nodes": 10_000}
    problem, effort = build(read(template, constraints, PreferenceSolver.comparator)), Effort()
    assignment = most_preferred(problem, SOLVER.rank, effort)
    assert assignment is not None
    assert violations(problem, answer(problem, assignment)) == ()
    assert effort.layouts <= 2 * services
    assert effort.looks <= 100 * services
    assert effort.asked <= 20


def test_bounds_alone_do_not_make_it_try_all_sets() -> None:
    names = [f"s{number:02}" for number in range(40)]
    template = {
        "services": names,
        "hardwaretypes": ["h"],
        "imagetypes": ["i"],
        "rules": {name: {"max": 1} for name in names},
    }
    problem, effort = build(read(template, {"nodes": 30}, PreferenceSolver.comparator)), Effort()
    (layouts,) = most_preferred(problem, SOLVER.rank, effort) or [[]]
    assert [len(layout.services) for layout, _ in layouts] == [11] + [1] * 29
    assert effort.looks <= 2000


def test_ten_thousand_existing_nodes_take_a_service_each() -> None:
    node = {"hardwaretype": "h", "imagetype": "i", "services": ["a"], "may_gain": ["b"]}
    template = {
        "services": ["a", "b"],
        "hardwaretypes": ["h"],
        "imagetypes": ["i"],
        "rules": {"b": {"max": 7000}},
    }
    nodes = SOLVER.solve(template, {"nodes": 10_000, "existing": [node] * 10_000})["nodes"]
    assert [node["existing"] for node in nodes] == [*range(10_000)]
    gained = [node["existing"] for node in nodes if node["services"] == ["a", "b"]]
    assert gained == [*range(7000)]


def test_a_cluster_that_is_full_is_proven_to_be() -> None:
    names = [f"s{number:02}" for number in range(40)]
    template = {
        "services": names,
        "hardwaretypes": ["h"],
        "imagetypes": ["i"],
        "rules": {name: {"ratio": 0.3} for name in names[:4]},
        "cantcoexist": [[one, other] for one in names[:4] for other in names[:4] if one < other],
    }
    with pytest.raises(NoLayoutError) as caught:
        SOLVER.solve(template, {"nodes": 10_000})
    assert len(caught.value.conflict) == 10
    assert not caught.value.hint
