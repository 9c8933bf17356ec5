"""Contexts of graphs that no site file says: what a run or a prediction of them sets out with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobweb.generation import EvaluatedSite
from cobweb.model import CobId, Graph, Host, State
from cobweb.operations.context._context import ExecutionContext, context_from_nothing
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._known_states import KnownStates, known_states

__all__ = ["context_over", "desired_over"]


def desired_over(graph: Graph) -> Desired:
    """Return a graph as what is desired of all of its hosts."""
    hosts = {name: Host(name=name) for name in graph.hosts()}
    evaluated = EvaluatedSite(graph, hosts, roots={})
    return Desired(
        name="over",
        graph=graph,
        hosts=hosts,
        chosen=frozenset(hosts),
        evaluated=evaluated,
        whole=lambda: evaluated,
        roots={},
        dir=Path(),
        commit=str,
        files=dict,
        secrets=dict,
    )


def context_over(
    graph: Graph,
    known: Mapping[CobId, State] | None = None,
    *,
    found: Mapping[CobId, State] | None = None,
    applied: Mapping[CobId, Mapping[str, Any] | None] | None = None,
    before: KnownStates | None = None,
    **changes: Any,
) -> ExecutionContext:
    """Return a context over a graph whose hosts have all switched.

    `known` and `found` are what is known and what checks will find, or `before` says both;
    `applied` is what the journal has. `changes` are those of the context itself.
    """
    context = context_from_nothing(desired_over(graph))
    if before is None:
        nothing = known_states(graph, {})
        known = dict(known or {})
        guesses = {**nothing.found, **(found or {})}
        before = replace(
            nothing,
            known=known,
            found={cob: state for cob, state in guesses.items() if cob not in known},
            applied=applied or {},
        )
    return replace(context, **{"before": before, **changes})
