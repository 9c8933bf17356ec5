"""A corner of this machine where the provider `namespaces` can work, apart from other tests."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobweb.plugin import Machine, NodeRequest
from cobweb_plugins.namespaces._provider import Namespaces
from cobweb_plugins.namespaces._system import cgroup_root

OWNER = "tests"


class Corner:
    """Folders, network and bridge of its own; `close` takes away what is left, and says so."""

    def __init__(self, folder: Path, number: int) -> None:
        self.state = folder / "machines"
        self.bridge = f"cwt{number}"
        self.network = f"10.214.{number}.0/24"
        self.fields: Mapping[str, Any] = {
            "state_dir": str(self.state),
            "network": self.network,
            "bridge": self.bridge,
        }

    def request(self, node: str, image: str = "plain", **fields: Any) -> NodeRequest:
        """Return what asks for a node."""
        cluster, _, number = node.rpartition("-")
        return NodeRequest(
            node=node,
            owner=OWNER,
            cluster=cluster,
            number=int(number),
            fields={**self.fields, **fields},
            image={"image": image},
            timeout_s=60,
        )

    def run(self, machine: Machine, command: str) -> str:
        """Run a command on a machine by SSH, as Ansible would; return what it printed."""
        way = machine.connection
        ssh = ["ssh", *way["ansible_ssh_common_args"].split(), "-o", "BatchMode=yes"]
        ssh += ["-i", way["ansible_ssh_private_key_file"]]
        target = f"{way['ansible_user']}@{way['ansible_host']}"
        done = subprocess.run(
            [*ssh, target, command], check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    def cgroup(self, node: str) -> Path | None:
        """Return the cgroup of a node's machine; None if it has none."""
        root = cgroup_root()
        assert root is not None
        return next((root / "cobweb-namespaces").glob(f"{node}@*"), None)

    def traces(self) -> list[str]:
        """Return all that there is of machines: folders, cgroups, cables, the bridge."""
        folders = [path.name for path in self.state.glob("machines/*")]
        done = subprocess.run(
            ["ip", "-brief", "link", "show"], check=True, capture_output=True, text=True
        )
        links = [line.split()[0] for line in done.stdout.splitlines()]
        return folders + [it for it in links if it == self.bridge or self._port(it)]

    def close(self, owner: str = OWNER) -> None:
        """Take away what is left of an owner's; AssertionError if there was anything."""
        provider = Namespaces()
        left = [path.name.partition("@")[0] for path in self.state.glob("machines/*")]
        for node in left:
            request = replace(self.request(node), owner=owner)
            machine = provider.find(request)
            if machine is not None:
                provider.delete(request, machine)
        assert not left, f"machines were left: {left}"
        assert not self.traces()

    def _port(self, link: str) -> bool:
        third = int(self.network.split(".")[2])
        return link.startswith(f"cw0ad6{third:02x}")
