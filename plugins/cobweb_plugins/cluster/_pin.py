"""From a request to a pinned layout: what a solver is asked, and which node its answer is."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from cobweb.plugin import Solver
from cobweb_plugins.cluster._lock import LockedCluster, LockedNode, digest_of
from cobweb_plugins.cluster._template import Resolved

_ID_BYTES = 6

Kind = LockedNode
"""Nodes that are alike are one entry of what a solver is told."""


def request_digest(resolved: Resolved) -> str:
    """Return the digest of all that the layout of a new cluster depends on, but for the solver."""
    return digest_of(
        {"template": resolved.solver_template(), "constraints": resolved.solver_constraints()}
    )


def pin(resolved: Resolved, solver: Solver, before: LockedCluster | None) -> LockedCluster:
    """Return the layout of a cluster, whose nodes of `before` are constraints.

    Nodes keep their numbers; what goes goes with its highest ones. Services that the cluster did
    not have before may come to nodes that are there, those that it has no more leave them; no other
    one moves. NoLayoutError if there is no layout.
    """
    groups = _groups(before)
    had = {name for node in groups for name in node.services}
    wanted = set(resolved.services)
    existing = [
        {
            "count": len(numbers),
            "hardwaretype": node.hardwaretype,
            "imagetype": node.imagetype,
            "services": list(node.services),
            "may_gain": sorted(wanted - had),
            "may_lose": sorted(had - wanted),
        }
        for node, numbers in groups.items()
    ]
    answer = solver.solve(resolved.solver_template(), resolved.solver_constraints(existing))
    nodes, following = _numbered(answer["nodes"], list(groups.values()), before)
    return LockedCluster(
        id=before.id if before else secrets.token_hex(_ID_BYTES),
        request=request_digest(resolved),
        solver=solver.name,
        nodes=nodes,
        next=following,
    )


def _groups(before: LockedCluster | None) -> dict[Kind, list[int]]:
    """Return the numbers of nodes that are alike, those of a kind that is there first before."""
    groups: dict[Kind, list[int]] = {}
    for number, node in before.nodes.items() if before else ():
        groups.setdefault(node, []).append(number)
    return groups


def _numbered(
    parts: Iterable[Mapping[str, Any]], groups: list[list[int]], before: LockedCluster | None
) -> tuple[dict[int, LockedNode], int]:
    """Return the nodes of an answer by number, and the number that comes next."""
    left = [list(numbers) for numbers in groups]
    following = before.next if before else 1
    nodes: dict[int, LockedNode] = {}
    for part in parts:
        count = part.get("count", 1)
        node = LockedNode(
            hardwaretype=part["hardwaretype"],
            imagetype=part["imagetype"],
            services=tuple(sorted(part["services"])),
        )
        if part.get("existing") is None:
            numbers = list(range(following, following + count))
            following += count
        else:
            old = left[part["existing"]]
            numbers = old[:count]
            del old[:count]
        nodes |= dict.fromkeys(numbers, node)
    return dict(sorted(nodes.items())), following
