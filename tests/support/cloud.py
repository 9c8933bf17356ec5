"""A provider of nodes in memory that can fail at every point of every call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from cobweb.errors import ProviderError
from cobweb.plugin import Machine, NodeRequest

Fault = Callable[[str], None]
"""Is told each point as it is reached; raises to let the call fail there."""


class KilledError(BaseException):
    """The coordinator ends here: nothing of it goes on."""


def no_fault(point: str) -> None:
    """Let every call go well."""


class Cloud:
    """Does what it is told and no more: a second `create` makes a second machine."""

    name: ClassVar[str] = "cloud"
    fields: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.machines: list[tuple[str, Machine]] = []
        self.most = 0
        self.fault: Fault = no_fault
        self._serial = 0

    def find(self, request: NodeRequest) -> Machine | None:
        with self._points("find"):
            return next((it for node, it in self.machines if node == request.node), None)

    def create(self, request: NodeRequest) -> Machine:
        with self._points("create"):
            self._serial += 1
            machine = Machine(id=f"m{self._serial}")
            self.machines.append((request.node, machine))
            self.most = max(self.most, len(self.machines))
        return machine

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        with self._points("confirm"):
            if (request.node, machine) not in self.machines:
                raise ProviderError(f"there is no machine {machine.id}")
            ready = replace(
                machine,
                ready=True,
                addresses={"access_v4": f"192.0.2.{machine.id[1:]}"},
                connection={"ansible_host": f"192.0.2.{machine.id[1:]}"},
            )
            self.machines[self.machines.index((request.node, machine))] = (request.node, ready)
        return ready

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        with self._points("delete"):
            self.machines = [
                (node, it)
                for node, it in self.machines
                if (node, it.id) != (request.node, machine.id)
            ]

    @contextmanager
    def _points(self, call: str) -> Iterator[None]:
        self.fault(f"{call}, before")
        yield
        self.fault(f"{call}, after")
