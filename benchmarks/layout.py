"""What a cluster layout costs: beside it the algorithm of the Coopr paper, on what that can do."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks._row import Row, cost
from cobweb.errors import NoLayoutError
from cobweb_plugins.solvers import CpsatSolver, PreferenceSolver

__all__ = ["measure", "random_template"]

SEEDS = 10
COOPR = (
    "Coopr's own solver took, on another machine, 35 s for 16 services, "
    "and 21 s for 22 with many conflicts"
)


def measure(size: str) -> Iterator[Row]:
    """Yield CPU seconds of layouts; the slowest of some random templates each."""
    seeds = SEEDS if size == "full" else 2
    with cost() as spent:
        importlib.import_module("ortools.sat.python.cp_model")
    yield Row(
        what="import of OR-tools, CPU",
        value=spent.cpu_s,
        note="once per process, and only for a question that needs it; not in the rows below",
    )
    yield from _beside_the_paper(12 if size == "full" else 8, seeds)
    for services, types, target in ((30, 3, 0.5), (40, 5, 3.0)):
        templates = [random_template(seed, services=services, types=types) for seed in range(seeds)]
        yield Row(
            what=f"{services} services ({types} hardware, {types} images) on 10,000 nodes, CPU",
            value=max(_cpu_s(template, 10_000) for template in templates),
            target=target,
            note=f"slowest of {seeds} random templates; {COOPR}",
        )
        yield Row(
            what=f"{services} services on 12 nodes, CPU",
            value=max(_cpu_s(template, 12) for template in templates),
            note=f"slowest of {seeds} random templates; no layout: the proof and why",
        )
    yield Row(
        what="infeasible: ratios of 4 exclusive services, 40 services, 10,000 nodes, CPU",
        value=_cpu_s(_full(), 10_000, possible=False),
        note="proven, with the smallest conflict",
    )
    yield Row(
        what="4 exclusive kinds of workers on 400 nodes, CPU",
        value=_cpu_s(_workers(), 400),
        note="Coopr's own solver took 69 s, on another machine",
    )


def random_template(seed: int, *, services: int, types: int) -> dict[str, Any]:
    """Return a template with conflicts, types and bounds at random."""
    draw = random.Random(seed)  # noqa: S311  # a template that comes out the same each time
    names = [f"s{number:02}" for number in range(services)]
    hardware = [f"hw{number}" for number in range(types)]
    images = [f"img{number}" for number in range(types)]
    rules = {}
    for name in names:
        rule: dict[str, Any] = {}
        if types > 1 and draw.random() < 0.3:
            rule["hardwaretypes"] = draw.sample(hardware, types - 1)
        if types > 1 and draw.random() < 0.3:
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


def _beside_the_paper(services: int, seeds: int) -> Iterator[Row]:
    """Compare both solvers where the one of the paper comes to an end."""
    constraints = {"nodes": 20}
    mine, paper = [], []
    for seed in range(seeds):
        template = random_template(seed, services=services, types=2)
        with cost() as spent:
            layout = CpsatSolver().solve(template, constraints)
        mine.append(spent.cpu_s)
        with cost() as spent:
            assert PreferenceSolver().solve(template, constraints) == layout
        paper.append(spent.cpu_s)
    yield Row(
        what=f"{services} services on 20 nodes, CPU",
        value=sum(mine),
        peer="solver preference (the paper's algorithm)",
        peer_value=sum(paper),
        note=f"sum of {seeds} random templates, the same layouts",
    )


def _cpu_s(template: Mapping[str, Any], nodes: int, *, possible: bool | None = None) -> float:
    with cost() as spent:
        try:
            CpsatSolver().solve(template, {"nodes": nodes})
            found = True
        except NoLayoutError:
            found = False
    assert possible is None or found is possible
    return spent.cpu_s


def _full() -> dict[str, Any]:
    """Return a template whose four largest services need more nodes than there are."""
    template = random_template(1, services=40, types=5)
    names = template["services"][:4]
    apart = [[one, other] for one in names for other in names if one < other]
    rules = {name: {"ratio": 0.3} for name in names}
    return template | {"rules": rules, "cantcoexist": [*template["cantcoexist"], *apart]}


def _workers() -> dict[str, Any]:
    """Return a template of masters and of four kinds of workers that exclude each other."""
    kinds = ["worker-a", "worker-b", "worker-c", "worker-d"]
    masters = ["master", "manager", "history"]
    return {
        "services": ["base", *masters, *kinds],
        "hardwaretypes": ["large", "small"],
        "imagetypes": ["debian"],
        "rules": {
            **{name: {"min": 1, "max": 1, "hardwaretypes": ["large"]} for name in masters},
            **{name: {"min": 10, "max": 100} for name in kinds[1:]},
        },
        "cantcoexist": [
            *([one, other] for one in kinds for other in kinds if one < other),
            *([one, other] for one in masters for other in kinds),
        ],
    }
