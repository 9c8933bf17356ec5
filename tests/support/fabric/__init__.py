"""Hosts made of namespaces, each with an sshd, for tests on real systems (Linux, root)."""

from __future__ import annotations

from tests.support.fabric._fabric import Fabric, FabricError, in_namespace, what_is_missing
from tests.support.fabric._spec import BRIDGE_ADDRESS, OPERATOR, FabricHost, Init
from tests.support.fabric._watch import Change, Watch

__all__ = [
    "BRIDGE_ADDRESS",
    "OPERATOR",
    "Change",
    "Fabric",
    "FabricError",
    "FabricHost",
    "Init",
    "Watch",
    "in_namespace",
    "what_is_missing",
]
