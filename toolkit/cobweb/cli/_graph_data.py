"""The graph as plain data: the contract of `cobweb graph -o json` (design, section 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cobweb.cli._plain_data import need_data
from cobweb.model import UNKNOWN, Cob, CobId, Graph, Need, State

__all__ = ["graph_data"]


def graph_data(graph: Graph, current: Mapping[CobId, State]) -> dict[str, Any]:
    """Return all COBs and needs, `*` expanded; a COB that is not in `current` is unknown.

    Two words can ask for the same (`binds` and `requires` both let X wait until A is down): it is
    told once.
    """
    needs: list[Need] = [*graph.transition_needs(), *graph.lock_needs()]
    limits = graph.bounded()
    return {
        "format": 1,
        "cobs": [
            _cob(cob, current.get(cob.id, UNKNOWN), limits.get(cob.id, ()))
            for cob in graph.cobs.values()
        ],
        "needs": [need_data(need) for need in dict.fromkeys(needs)],
    }


def _cob(cob: Cob, current: State, limits: Sequence[str]) -> dict[str, Any]:
    groups = {name: list(states) for name, states in cob.type.groups.items()}
    return {
        "id": str(cob.id),
        "host": cob.host,
        "name": cob.name,
        "type": cob.type.name,
        "states": list(cob.type.states),
        "preferred": cob.preferred,
        "remove": cob.type.remove,
        **({"groups": groups} if groups else {}),
        **({"limits": list(limits)} if limits else {}),
        "transitions": [[step.source, step.dest] for step in cob.type.transitions],
        "current": current,
    }
