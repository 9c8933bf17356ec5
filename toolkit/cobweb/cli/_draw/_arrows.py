"""Needs between two COBs, gathered into one arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobweb.model import CobId, Graph, LockNeed, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """`cob` needs `on`; `labels` say when and which state, in order, each once.

    `steady` says that one of the needs is a lock dependency: it holds while a state lasts, not only
    during a transition. `forward` says that one asks for the preferred state: of the needs that
    `requires` makes, this is the one that people think of; the way back belongs to going down.
    """

    cob: CobId
    on: CobId
    labels: tuple[str, ...]
    steady: bool
    forward: bool


def arrows_of(graph: Graph) -> tuple[Arrow, ...]:
    """Return the arrows of a graph, sorted by their ends."""
    pairs: dict[tuple[CobId, CobId], list[Need]] = {}
    for need in graph.needs:
        pairs.setdefault((need.cob, need.on), []).append(need)
    return tuple(_arrow(graph, pairs[cob, on]) for cob, on in sorted(pairs))


def _arrow(graph: Graph, needs: Sequence[Need]) -> Arrow:
    cob, on = needs[0].cob, needs[0].on
    kind = graph.cobs[on].type
    return Arrow(
        cob=cob,
        on=on,
        labels=tuple(dict.fromkeys(_label(need) for need in needs)),
        steady=any(isinstance(need, LockNeed) for need in needs),
        forward=any(kind.preferred in kind.members(need.state) for need in needs),
    )


def _label(need: Need) -> str:
    if isinstance(need, LockNeed):
        return f"in {need.within}: {need.state}"
    return f"{need.source} -> {need.dest}: {need.state}"
