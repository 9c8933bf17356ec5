"""The tasks of an operation on a cluster, as Coopr orders them, for planners to schedule.

Each service of a node goes through the actions of the operation one after the other, after its
node's own. A service is installed after what it needs for that is, initialized and started after
what it needs at run time has been started, and stopped after all that needs it at run time. A
service that lacks an action passes on what it would have waited for, as its COB does. What n nodes
wait for on m others goes through one join: n + m edges. This is for plans alone: what is carried
out follows from the needs of the COBs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

from cobweb.errors import ModelError
from cobweb.model import Schedule, TaskGraph, TaskGraphBuilder
from cobweb_plugins.cluster._template import ServiceNeeds


class Operation(StrEnum):
    """What is done to a cluster; `SHRINK` takes nodes away whose services are let down first."""

    CREATE = "create"
    ADD_SERVICE = "add-service"
    CONFIGURE = "configure"
    RECONFIGURE = "configure-with-restart"
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    UPGRADE = "upgrade"
    REMOVE_SERVICE = "remove-service"
    SHRINK = "shrink"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceWork:
    """Which actions a service has, and what it needs of others that are on the cluster."""

    actions: Collection[str]
    needs: ServiceNeeds = field(default_factory=ServiceNeeds)


_MACHINE = ("create", "confirm", "bootstrap")
_OF_NODES = (*_MACHINE, "delete")
_ALL = ("install", "configure", "initialize", "start")
_ACTIONS: Mapping[Operation, tuple[str, ...]] = {
    Operation.CREATE: (*_MACHINE, *_ALL),
    Operation.ADD_SERVICE: ("bootstrap", *_ALL),
    Operation.CONFIGURE: ("bootstrap", "configure"),
    Operation.RECONFIGURE: ("bootstrap", "stop", "configure", "start"),
    Operation.START: ("start",),
    Operation.STOP: ("stop",),
    Operation.RESTART: ("stop", "start"),
    Operation.UPGRADE: ("stop", "install", "configure", "start"),
    Operation.REMOVE_SERVICE: ("stop", "remove"),
    Operation.SHRINK: ("stop", "remove", "delete"),
    Operation.DELETE: ("delete",),
}
_ORDER = ("stop", "remove", *_ALL)
"""The actions of services; no operation has any two of them the other way round."""

_RUNNING = ("stop", "start")
"""What is done to services that are not concerned themselves, but run with those that are."""

Kind = tuple[int, str]
"""An action (an index of `_ORDER`) of a service, on all nodes that have it."""


def tasks_of(
    nodes: Mapping[str, Collection[str]],
    services: Mapping[str, ServiceWork],
    operation: Operation,
    *,
    concerned: Collection[str] | None = None,
    seconds: Callable[[str, str | None], float] = lambda _action, _service: 1.0,
) -> TaskGraph:
    """Return the tasks of an operation on nodes, given the services that are on each.

    `concerned` are the services that it is about, None for all. With them are stopped and started
    again those that require them, and what is started with them is what they require. `seconds`
    says how long an action takes (a service's, or for None a node's). ModelError where services
    wait for each other in a circle.
    """
    done = _done(nodes, services, operation, concerned)
    held = {
        node: [name for name in sorted(there) if name in done]
        for node, there in nodes.items()
        if concerned is None or not done.keys().isdisjoint(there)
    }
    waits = _waits(services, done)
    wanted = {kind for kinds in waits.values() for kind in kinds}
    tasks = _Tasks(held, seconds)
    for action in _ACTIONS[operation]:
        if action in _OF_NODES and action != "delete":
            tasks.of_nodes(action)
    for kind in _ordered(waits):
        action, name = _ORDER[kind[0]], kind[1]
        upgrade = operation is Operation.UPGRADE and action == "install"
        names = ("upgrade", "install") if upgrade else (action,)
        found = [each for each in names if each in services[name].actions]
        tasks.of_service(name, found[0] if found else None, waits[kind])
        if kind in wanted:
            tasks.join(kind)
    if "delete" in _ACTIONS[operation]:
        tasks.of_nodes("delete")
    return tasks.build()


def stage_data(tasks: TaskGraph, schedule: Schedule) -> list[list[dict[str, str | None]]]:
    """Return the stages of a schedule as plain data; `service` is None for what a node does."""
    keys = ("node", "action", "service")
    return [
        [dict(zip(keys, tasks.names(task), strict=True)) for task in stage]
        for stage in schedule.stages
    ]


def _done(
    nodes: Mapping[str, Collection[str]],
    services: Mapping[str, ServiceWork],
    operation: Operation,
    concerned: Collection[str] | None,
) -> dict[str, tuple[str, ...]]:
    """Return what is done to each service that is on a node, in order."""
    there = {name for names in nodes.values() for name in names}
    actions = tuple(action for action in _ACTIONS[operation] if action not in _OF_NODES)
    if not actions:
        return {}
    if concerned is None:
        return dict.fromkeys(sorted(there), actions)
    done = dict.fromkeys(sorted(there.intersection(concerned)), actions)
    running = tuple(action for action in actions if action in _RUNNING)
    others = _run_with(services, operation)
    found = list(done)
    for name in found:  # grows while it is gone through
        new = [other for other in others(name) if other in there and other not in done]
        done |= dict.fromkeys(new, running)
        found += new
    return done


def _run_with(
    services: Mapping[str, ServiceWork], operation: Operation
) -> Callable[[str], Collection[str]]:
    """Return what says of a service which others are stopped, or are started, with it."""
    if operation is Operation.START:
        return lambda name: services[name].needs.binding
    if "stop" not in _ACTIONS[operation]:
        return lambda _name: ()
    bound: dict[str, list[str]] = {}
    for name in sorted(services):
        for other in services[name].needs.binding:
            bound.setdefault(other, []).append(name)
    return lambda name: bound.get(name, ())


def _waits(
    services: Mapping[str, ServiceWork], done: Mapping[str, tuple[str, ...]]
) -> dict[Kind, list[Kind]]:
    """Return for each kind of task the kinds of other services that it waits for."""
    users: dict[str, list[str]] = {}
    for name in done:
        for other in services[name].needs.runtime:
            users.setdefault(other, []).append(name)
    waits: dict[Kind, list[Kind]] = {}
    for name, actions in done.items():
        needs = services[name].needs
        wanted: dict[str, tuple[str, Iterable[str]]] = {
            "install": ("install", needs.install),
            "initialize": ("start", needs.runtime),
            "start": ("start", needs.runtime),
            "stop": ("stop", users.get(name, ())),
        }
        for action in actions:
            before, others = wanted.get(action, ("", ()))
            waits[_ORDER.index(action), name] = [
                (_ORDER.index(before), other) for other in others if before in done.get(other, ())
            ]
    return waits


def _ordered(waits: Mapping[Kind, list[Kind]]) -> Iterator[Kind]:
    """Yield all kinds, each after those that it waits for and those of its own before it."""
    before = {kind: list(others) for kind, others in waits.items()}
    mine: dict[str, Kind] = {}
    for kind in waits:  # those of a service are together and in order
        before[kind] += [mine[kind[1]]] if kind[1] in mine else []
        mine[kind[1]] = kind
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        raise _circle(error.args[1]) from None
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield from ready
        sorter.done(*ready)


def _circle(kinds: Iterable[Kind]) -> ModelError:
    names = [f"{_ORDER[place]} {name}" for place, name in kinds]
    path = ("catalog", "services", names[0].partition(" ")[2])
    message = f"services wait for each other in a circle: {' -> '.join(reversed(names))}"
    return ModelError([(path, message, "take one of their dependencies away")])


class _Tasks:
    """The graph while it is made: of each service its nodes, and the last task on each of them.

    `pending` is what a service still waits for whose actions are all missing so far.
    """

    def __init__(
        self, nodes: Mapping[str, list[str]], seconds: Callable[[str, str | None], float]
    ) -> None:
        self._builder = TaskGraphBuilder(list(nodes))
        self._seconds = seconds
        self._of_node: list[tuple[int, ...]] = [() for _ in nodes]
        self._on: dict[str, list[int]] = {}
        for number, names in enumerate(nodes.values()):
            for name in names:
                self._on.setdefault(name, []).append(number)
        self._last: dict[str, list[tuple[int, ...]]] = {}
        self._pending: dict[str, list[int]] = {}
        self._joins: dict[Kind, int] = {}

    def of_nodes(self, action: str) -> None:
        """Add a task of each node, after all that is done on it so far."""
        after = [list(last) for last in self._of_node]
        for name, last in self._last.items():
            for number, vertices in zip(self._on[name], last, strict=True):
                after[number] += vertices
        seconds = self._seconds(action, None)
        self._of_node = [
            (self._builder.task(number, action, seconds=seconds, after=vertices),)
            for number, vertices in enumerate(after)
        ]

    def of_service(self, name: str, action: str | None, waits: Iterable[Kind]) -> None:
        """Add a task of a service on each of its nodes, after others; None adds but the waits."""
        on = self._on[name]
        last = self._last.setdefault(name, [self._of_node[number] for number in on])
        pending = self._pending.setdefault(name, [])
        pending += [self._joins[kind] for kind in waits]
        if action is None:
            return
        task, seconds, after = self._builder.task, self._seconds(action, name), tuple(pending)
        self._last[name] = [
            (task(number, action, name, seconds=seconds, after=before + after),)
            for number, before in zip(on, last, strict=True)
        ]
        pending.clear()

    def join(self, kind: Kind) -> None:
        """Add what is over when all that was added of a service is."""
        name = kind[1]
        vertices = [vertex for last in self._last[name] for vertex in last]
        self._joins[kind] = self._builder.join([*vertices, *self._pending[name]])

    def build(self) -> TaskGraph:
        """Return the graph."""
        return self._builder.build()
