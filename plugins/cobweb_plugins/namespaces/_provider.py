"""The provider `namespaces` as it is registered; what makes machines is imported when needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from cobweb.plugin import Machine, NodeRequest
    from cobweb_plugins.namespaces._machines import NamespaceMachines

STATE_DIR = "/run/cobweb-namespaces"
CACHE_DIR = "/var/cache/cobweb-namespaces"
NETWORK = "10.213.77.0/24"
BRIDGE = "cobweb0"
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}


class Namespaces:
    """Makes machines of namespaces; image types say `image: plain` (sshd) or `image: systemd`."""

    name: ClassVar[str] = "namespaces"
    fields: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "state_dir": _TEXT
            | {"description": f"Where it keeps what it knows of machines (default: {STATE_DIR})."},
            "network": _TEXT
            | {"description": f"A private network, only of this machine (default: {NETWORK})."},
            "bridge": _TEXT
            | {
                "maxLength": 15,
                "description": f"The name of its bridge on this machine (default: {BRIDGE}).",
            },
            "packages": {
                "type": "array",
                "items": _TEXT,
                "description": "What machines can install with apt, besides what is there: fetched"
                " with all that it needs from this machine's apt sources. Without this, machines"
                " have these sources, and no way to them.",
            },
            "cache_dir": _TEXT
            | {"description": f"Where packages are kept (default: {CACHE_DIR})."},
        },
        "additionalProperties": False,
    }

    def find(self, request: NodeRequest) -> Machine | None:
        """Return a node's machine; see `NamespaceMachines`."""
        return _machines().find(request)

    def create(self, request: NodeRequest) -> Machine:
        """Start a machine."""
        return _machines().create(request)

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        """Wait until its sshd answers."""
        return _machines().confirm(request, machine)

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        """End a machine and take away all that it was made of."""
        _machines().delete(request, machine)


def _machines() -> NamespaceMachines:
    from cobweb_plugins.namespaces._machines import NamespaceMachines

    return NamespaceMachines()
