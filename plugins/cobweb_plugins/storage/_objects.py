"""The objects that depend on how many servers, disks and pairs there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cobweb_plugins.storage._model import Cluster

Objects = Iterator[tuple[str, dict[str, Any]]]


def objects(cluster: Cluster) -> Objects:
    """Yield COBs, each with its name; what a site writes by hand under the same name is merged."""
    yield from _disks(cluster)


def _disks(cluster: Cluster) -> Objects:
    """Yield a file system for each disk; the daemon of a storage server and its bricks need all."""
    disks = next((server.disks for server in cluster.storage()), ())
    for number, disk in enumerate(disks):
        spec = {
            "source": f"{{{{ disks[{number}].device }}}}",
            "path": disk.path,
            "fstype": "ext4",
            "format": "ext4",
        }
        cob = {
            "type": "mount",
            "on": "storage",
            "spec": spec,
            "needs": [{"when": "* -> down", "cob": "bricks", "state": "down"}],
        }
        yield f"disk-{disk.name}", cob
    if disks:
        names = [f"disk-{disk.name}" for disk in disks]
        yield "glusterd", {"after": names}
        yield "bricks", {"after": names}
