"""`site.lock`: the layouts of a site's clusters, pinned, so that every machine has the same ones.

The file is JSON with sorted keys, beside `site.yml`; its schema is schemas/site-lock.schema.json.
Nodes have numbers that are never given again while the cluster lives.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cobweb.errors import CobwebError
from cobweb.plugin import JsonError, data_dir, json_of

LOCK_FILE = "site.lock"
_FORMAT = 1
_HINT = "take it back from Git, or run `cobweb cluster sync` after removing it"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedNode:
    """A node of a pinned layout; `services` are sorted."""

    hardwaretype: str
    imagetype: str
    services: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedCluster:
    """The layout of a cluster: nodes by number, in order, and the number that comes next.

    `request` is the digest of what the layout was solved from, `solver` who did. `id` is the
    cluster's own for life, in every checkout of the site: machines are found again by it.
    """

    request: str
    solver: str
    id: str = ""
    nodes: Mapping[int, LockedNode] = field(default_factory=dict)
    next: int = 1

    def having(self, service: str) -> tuple[int, ...]:
        """Return the numbers of the nodes with a service, in order."""
        return tuple(number for number, node in self.nodes.items() if service in node.services)


def layout_of(nodes: Iterable[LockedNode]) -> list[dict[str, Any]]:
    """Return nodes as a layout: alike ones counted, in the order in which kinds come first."""
    counts: dict[LockedNode, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    return [
        {
            "count": number,
            "hardwaretype": node.hardwaretype,
            "imagetype": node.imagetype,
            "services": list(node.services),
        }
        for node, number in counts.items()
    ]


def digest_of(value: object) -> str:
    """Return the SHA-256 of plain data in canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def lock_text(clusters: Mapping[str, LockedCluster]) -> str:
    """Return the text of the file; the same for the same clusters."""
    data = {
        "format": _FORMAT,
        "clusters": {name: _written(clusters[name]) for name in sorted(clusters)},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def read_lock(text: str | None) -> dict[str, LockedCluster]:
    """Return the clusters of a lock file (None: there is none); CobwebError for a damaged one."""
    if text is None:
        return {}
    try:
        data = json_of(text, LOCK_FILE)
    except JsonError as error:
        raise CobwebError(f"{LOCK_FILE} is no JSON: {error}", hint=_HINT) from error
    from jsonschema import Draft202012Validator

    problem = next(iter(Draft202012Validator(_schema()).iter_errors(data)), None)
    if problem is not None:
        raise CobwebError(f"{LOCK_FILE}: {problem.json_path}: {problem.message}", hint=_HINT)
    return {name: _read(cluster) for name, cluster in data["clusters"].items()}


def _written(cluster: LockedCluster) -> dict[str, Any]:
    return {
        "id": cluster.id,
        "request": cluster.request,
        "solver": cluster.solver,
        "layout": layout_of(cluster.nodes.values()),
        "nodes": {
            str(number): {
                "hardwaretype": node.hardwaretype,
                "imagetype": node.imagetype,
                "services": list(node.services),
            }
            for number, node in sorted(cluster.nodes.items())
        },
        "next": cluster.next,
    }


def _read(data: Mapping[str, Any]) -> LockedCluster:
    nodes = {
        int(number): LockedNode(
            hardwaretype=node["hardwaretype"],
            imagetype=node["imagetype"],
            services=tuple(sorted(node["services"])),
        )
        for number, node in data["nodes"].items()
    }
    return LockedCluster(
        id=data.get("id", ""),
        request=data["request"],
        solver=data["solver"],
        nodes=dict(sorted(nodes.items())),
        next=max([data["next"], *(number + 1 for number in nodes)]),
    )


@cache
def _schema() -> Any:
    path = data_dir("schemas") / "site-lock.schema.json"
    return json.loads(path.read_text(encoding="utf-8"))
