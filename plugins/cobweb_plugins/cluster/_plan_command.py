"""`cobweb cluster plan`: the tasks of an operation, as a planner orders them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any

import click

from cobweb.errors import ModelError, NoLayoutError, UsageError
from cobweb.model import TaskGraph
from cobweb.plugin import TaskPlanner, json_file, site_access
from cobweb_plugins.cluster._compile import host_of_node
from cobweb_plugins.cluster._desk import Desk
from cobweb_plugins.cluster._lock import LockedCluster
from cobweb_plugins.cluster._look import asked_layout, request_options, tell_no_layout
from cobweb_plugins.cluster._tasks import Operation, ServiceWork, stage_data, tasks_of
from cobweb_plugins.cluster._template import Resolved

DEFAULT_PLANNER = "event"
_NAMELESS = "node"
_SHOWN = 6


@click.command("plan")
@request_options
@click.option(
    "--operation",
    type=click.Choice([str(each) for each in Operation]),
    default=str(Operation.CREATE),
    show_default=True,
    help="What is done to the cluster.",
)
@click.option("--only", metavar="A,B", help="The services that it is about; default: all.")
@click.option("--planner", default=DEFAULT_PLANNER, show_default=True, help="Who orders the tasks.")
@click.option("--workers", type=click.IntRange(min=1), help="How many tasks at once; default: any.")
@click.option(
    "--durations",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='JSON: seconds by action, or SERVICE.ACTION; default: {"...": 1}.',
)
def plan_command(tenant: str | None, **asked: Any) -> int:
    """Show the order of the tasks of an operation on a cluster, stage by stage.

    The cluster is one of the site, or one that is only asked for. What is
    carried out follows from the needs of the objects: `cobweb plan` says it.
    """
    desk = Desk(site_access(click.get_current_context()), tenant)
    own = {key: asked.pop(key) for key in ("operation", "only", "planner", "workers", "durations")}
    planners = desk.access.plugins.task_planners
    if own["planner"] not in planners:
        hint = f"there is {', '.join(sorted(planners)) or 'none'}"
        raise UsageError(f"there is no planner {own['planner']} of tasks", hint=hint)
    try:
        resolved, locked = asked_layout(desk, asked)
    except NoLayoutError as error:
        return tell_no_layout(desk, error)
    try:
        tasks = _tasks(desk, resolved, locked, own)
    except ModelError as error:
        raise desk.access.placed(error) from error
    _tell(desk, tasks, planners, own)
    return 0


def _tasks(
    desk: Desk, resolved: Resolved, locked: LockedCluster, own: Mapping[str, Any]
) -> TaskGraph:
    cluster = resolved.cluster.name if resolved.cluster.name in desk.clusters else _NAMELESS
    services = desk.catalog_services
    only = _concerned(own["only"], resolved)
    return tasks_of(
        {host_of_node(cluster, number): node.services for number, node in locked.nodes.items()},
        {
            name: ServiceWork(actions=services[name].actions, needs=resolved.needs[name])
            for name in resolved.services
        },
        Operation(own["operation"]),
        concerned=only,
        seconds=_durations(own["durations"]),
    )


def _concerned(only: str | None, resolved: Resolved) -> list[str] | None:
    if only is None:
        return None
    names = [it.strip() for it in only.split(",") if it.strip()]
    for name in names:
        if name not in resolved.services:
            hint = f"it has {', '.join(resolved.services)}"
            raise UsageError(f"the cluster has no service {name}", hint=hint)
    return names


def _durations(path: Path | None) -> Callable[[str, str | None], float]:
    if path is None:
        return lambda _action, _service: 1.0
    try:
        said = json_file(path)
        known = {str(key): float(value) for key, value in said.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"cannot read durations from {path}: {error}") from error
    if not all(0 <= value < inf for value in known.values()):
        raise UsageError(f"{path}: a duration is a number of seconds, 0 or more")
    return lambda action, service: known.get(f"{service}.{action}", known.get(action, 1.0))


def _tell(
    desk: Desk, tasks: TaskGraph, planners: Mapping[str, TaskPlanner], own: Mapping[str, Any]
) -> None:
    schedules = {
        name: planner.schedule(tasks, own["workers"]) for name, planner in planners.items()
    }
    stages = stage_data(tasks, schedules[own["planner"]])
    data = {
        "format": 1,
        "operation": own["operation"],
        "planner": own["planner"],
        "stages": stages,
        "makespan": {name: round(it.makespan_s, 3) for name, it in schedules.items()},
    }
    if desk.access.data(data):
        return
    rows = [(str(number), _stage_text(stage)) for number, stage in enumerate(stages, 1)]
    desk.access.table(("STAGE", "TASKS"), rows)
    unit = " s" if own["durations"] else ""
    spans = ", ".join(f"{name} {it.makespan_s:g}{unit}" for name, it in sorted(schedules.items()))
    count, if_one = sum(map(len, stages)), "" if unit else ", if each task took 1"
    desk.access.summary(f"{count} tasks in {len(stages)} stages; makespan{if_one}: {spans}")


def _stage_text(stage: list[dict[str, str | None]]) -> str:
    """Return the tasks of a stage, those that are alike together."""
    nodes: dict[str, list[str]] = {}
    for task in stage:
        what = " ".join(filter(None, (task["action"], task["service"])))
        nodes.setdefault(what, []).append(str(task["node"]))
    return "; ".join(f"{what} on {_few(hosts)}" for what, hosts in sorted(nodes.items()))


def _few(hosts: list[str]) -> str:
    more = len(hosts) - _SHOWN
    return ", ".join(hosts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
