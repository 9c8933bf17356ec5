"""Gates: transitions that tell when they have begun and go on when the test lets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator

__all__ = ["await_gate", "gated_site", "is_marked", "lift_gate", "open_gate", "set_gate"]

MARK = "/var/lib/marked"


@contextmanager
def gated_site(fabric: Fabric, operator: Operator) -> Iterator[Operator]:
    """Give the site `gated` three hosts with gates, each with a host whose object needs it."""
    hosts = fabric.plain
    names = ("cut", "killed", "free", "after_cut", "after_killed", "after_free")
    groups = {name: [host] for name, host in zip(names, hosts, strict=True)}
    operator.write_inventory({**groups, "gates": hosts[:3]})
    yield operator
    for host in hosts:
        fabric.run(host, "rm", "-f", MARK, "/var/lib/gate", "/run/begun", "/run/gate")
    assert fabric.visitors() == []


def set_gate(fabric: Fabric, host: FabricHost) -> None:
    """Make the pipes of a gate: its transition then waits for the test."""
    fabric.run(host, "mkfifo", "/run/begun", "/run/gate")


def await_gate(fabric: Fabric, host: FabricHost) -> None:
    """Wait until the gate's transition is at work on its host."""
    assert fabric.run(host, "cat", "/run/begun").stdout == "begun\n"


def open_gate(fabric: Fabric, host: FabricHost) -> None:
    """Let the gate's transition go on, and later ones pass."""
    fabric.run(host, "sh", "-c", "rm /run/begun; echo > /run/gate")


def lift_gate(fabric: Fabric, host: FabricHost) -> None:
    """Let later transitions pass; none waits."""
    fabric.run(host, "rm", "/run/begun")


def is_marked(fabric: Fabric, host: FabricHost) -> bool:
    """Say whether the object that needs a gate has come up on its host."""
    return fabric.run(host, "test", "-e", MARK, check=False).returncode == 0
