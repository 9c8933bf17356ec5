"""Needs between two COBs, gathered into one arrow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cobweb.model import CobId, Graph, LockNeed, Need

__all__ = ["Arrow", "arrows_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """`cob` needs `on`; `labels` say when and which state, in order, each once.

    `steady` says that one of the needs is a lock dependency: it holds while a state lasts, not only
    during a transition.
    """

    cob: CobId
    on: CobId
    labels: tuple[str, ...]
    steady: bool


def arrows_of(graph: Graph) -> tuple[Arrow, ...]:
    """Return the arrows of a graph, sorted by their ends."""
    pairs: dict[tuple[CobId, CobId], list[Need]] = {}
    for need in graph.needs:
        pairs.setdefault((need.cob, need.on), []).append(need)
    return tuple(_arrow(cob, on, pairs[cob, on]) for cob, on in sorted(pairs))


def _arrow(cob: CobId, on: CobId, needs: Iterable[Need]) -> Arrow:
    labels = dict.fromkeys(_label(need) for need in needs)
    steady = any(isinstance(need, LockNeed) for need in needs)
    return Arrow(cob=cob, on=on, labels=tuple(labels), steady=steady)


def _label(need: Need) -> str:
    if isinstance(need, LockNeed):
        return f"in {need.within}: {need.state}"
    return f"{need.source} -> {need.dest}: {need.state}"
