"""The objects that depend on how many servers, disks and pairs there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cobweb_plugins.storage._model import Cluster, Disk, Server

__all__ = ["objects"]


def objects(cluster: Cluster) -> dict[str, Any]:
    """Return COBs by name."""
    return dict(_disks(cluster))


def _disks(cluster: Cluster) -> Iterator[tuple[str, Any]]:
    """Yield a file system for each disk, on the servers that have it."""
    owners: dict[Disk, list[Server]] = {}
    for server in cluster.servers:
        for disk in server.disks:
            owners.setdefault(disk, []).append(server)
    for disk, servers in owners.items():
        on = ":".join(server.name for server in servers)
        yield (
            f"disk-{disk.name}",
            {
                "type": "mount",
                "on": on,
                "spec": {
                    "source": disk.device,
                    "path": disk.path,
                    "fstype": "ext4",
                    "format": "ext4",
                },
            },
        )
