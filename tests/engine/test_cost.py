"""A run costs in proportion to objects and needs: lines carried out and effects, not seconds."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import replace
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest

from cobweb.engine import (
    CheckEnded,
    Effect,
    Engine,
    StartCheck,
    StartTransition,
    TransitionEnded,
)
from cobweb.model import CobId, Graph, State
from tests.support.graphs import budget_of, graph_of, type_of

FEW, MANY = 30, 300
SLACK = 1.1


def chain(count: int) -> Graph:
    """Make objects that need each other in a row."""
    names = [f"h{number:04}/a" for number in range(count)]
    needs = (f"{b} *>up {a} up" for a, b in pairwise(names))
    return graph_of(" ".join(names), *needs)


def needed_by_all(count: int) -> Graph:
    """Make one object that all others need, and that goes down only after them."""
    names = [f"h{number:04}/a" for number in range(count)]
    needs = [f"{name} *>up x/hub up" for name in names] + [f"{name} up x/hub up" for name in names]
    return graph_of(" ".join([*names, "x/hub"]), *needs)


def needs_all(count: int) -> Graph:
    """Make one object that needs all others."""
    names = [f"h{number:04}/a" for number in range(count)]
    needs = [f"x/hub *>up {name} up" for name in names]
    return graph_of(" ".join([*names, "x/hub"]), *needs)


def pairs(count: int) -> Graph:
    """Make pairs of which one is stopped for the other's change, under a budget."""
    names = [f"h{number:04}" for number in range(count)]
    needs = [
        need
        for name in names
        for need in (f"{name}/c outdated>* {name}/s down", f"{name}/s *>up {name}/c up")
    ]
    graph = graph_of(" ".join(f"{name}/{cob}" for name in names for cob in "cs"), *needs)
    budget = budget_of(" ".join(f"{name}/s" for name in names), count)
    return replace(graph, budgets=(budget,))


def rolled(count: int) -> Graph:
    """Make objects that get new content under a budget of a tenth of them."""
    names = " ".join(f"h{number:04}/a" for number in range(count))
    kind = replace(
        type_of("outdated down up", "outdated>down down>up up>down", "up", "down"),
        serving=("up", "outdated"),
    )
    return graph_of(dict.fromkeys(names.split(), kind), budgets=(budget_of(names, count // 10),))


@pytest.mark.gate("counts steps on two sizes of graphs")
@pytest.mark.parametrize("shape", [chain, needed_by_all, needs_all, pairs, rolled])
@pytest.mark.parametrize("found", ["down", "outdated"])
def test_the_cost_grows_as_the_graph(shape: Any, found: str) -> None:
    """Ten times the objects and needs cost ten times as much, whatever their shape."""
    few, many = shape(FEW), shape(MANY)
    size = (len(many.cobs) + len(many.needs)) / (len(few.cobs) + len(few.needs))
    assert cost(many, found) <= SLACK * size * cost(few, found)


def cost(graph: Graph, found: str) -> int:
    """Count the lines of the engine and the effects from unknown to up; none of a compiled one."""
    count = 0

    def line(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal count
        if "cobweb/engine" not in frame.f_code.co_filename:
            return None
        count += kind == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        effects = run(graph, found)
    finally:
        sys.settrace(before)
    return count + effects


def run(graph: Graph, found: str) -> int:
    """Bring all up, first in first out; return how many effects that took."""
    engine = Engine(graph)
    states: dict[CobId, State] = {}
    told = 0
    todo: deque[Effect] = deque(engine.start({}))
    while todo:
        effect = todo.popleft()
        told += 1
        if isinstance(effect, StartCheck):
            state = states.get(effect.cob, found)
            todo.extend(engine.step(CheckEnded(cob=effect.cob, state=state)))
        elif isinstance(effect, StartTransition):
            states[effect.cob] = effect.transition.dest
            todo.extend(engine.step(TransitionEnded(cob=effect.cob, ok=True)))
    assert engine.unsettled() == ()
    return told
