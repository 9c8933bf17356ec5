"""Commands of `cobweb cluster` that change nothing: list, status, solve, plan."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import click

from cobweb.errors import NoLayoutError, UsageError
from cobweb.model import cob_id, fill_in
from cobweb.plugin import site_access
from cobweb_plugins.cluster._compile import Layout, host_of_node, view_of
from cobweb_plugins.cluster._desk import Desk
from cobweb_plugins.cluster._lock import LockedCluster, layout_of
from cobweb_plugins.cluster._macros import ClusterView, expand_macros
from cobweb_plugins.cluster._section import NODE
from cobweb_plugins.cluster._template import Resolved

_OF_ALL = re.compile(r"%(host|ip(?:\.[A-Za-z0-9_-]+)?)\.service\.([^%\[\]()\s]+)%")
_SHOWN = 5
MOST_NODES = 100_000
"""A cluster has no more nodes than this; its schema says so, too."""

_NAMELESS = "solve"
"""The name of a cluster that is asked for and not in the site."""


def _desk(tenant: str | None) -> Desk:
    return Desk(site_access(click.get_current_context()), tenant)


@click.command("list")
def list_command(tenant: str | None) -> int:
    """List the clusters of the site."""
    desk = _desk(tenant)
    states = desk.access.states()
    rows = []
    for name, said in desk.clusters.items():
        locked = desk.locked.get(name)
        up, known = _settled(name, locked, states, said.get("state", "started"))
        rows.append(
            {
                "name": name,
                "template": said["template"],
                "nodes": said["nodes"],
                "state": said.get("state", "started"),
                "settled": up,
                "objects": known,
                "tenant": said.get("tenant"),
                "expires": (said.get("lease") or {}).get("expires"),
            }
        )
    if not desk.access.data({"format": 1, "clusters": rows}):
        titles = ("CLUSTER", "TEMPLATE", "NODES", "STATE", "SETTLED", "TENANT", "EXPIRES")
        lines = [
            (
                row["name"],
                row["template"],
                str(row["nodes"]),
                row["state"],
                f"{row['settled']} of {row['objects']}",
                row["tenant"] or "",
                row["expires"] or "",
            )
            for row in rows
        ]
        desk.access.table(titles, lines)
        number = len(rows)
        desk.access.summary(f"{number} cluster{'s' * (number != 1)}")
    return 0


@click.command("status")
@click.argument("name")
def status_command(name: str, tenant: str | None) -> int:
    """Show the nodes of a cluster, their machines and services."""
    desk = _desk(tenant)
    said = desk.said(name)
    states, results = desk.access.states(), desk.access.results()
    locked = desk.locked.get(name)
    nodes = [
        {
            "node": host,
            "machine": states.get(cob_id(host, NODE), "absent"),
            "address": results.get(host, {}).get("access_v4"),
            "hardwaretype": node.hardwaretype,
            "imagetype": node.imagetype,
            "services": {it: states.get(cob_id(host, it), "absent") for it in node.services},
        }
        for host, node in _nodes(name, locked)
    ]
    data = {
        "format": 1,
        "cluster": name,
        "template": said["template"],
        "state": said.get("state", "started"),
        "nodes": nodes,
        "links": _links(desk, name, said),
    }
    if not desk.access.data(data):
        rows = [
            (
                row["node"],
                row["machine"],
                row["address"] or "",
                f"{row['hardwaretype']}, {row['imagetype']}",
                ", ".join(f"{key} {state}" for key, state in row["services"].items()),
            )
            for row in nodes
        ]
        desk.access.table(("NODE", "MACHINE", "ADDRESS", "TYPES", "SERVICES"), rows)
        for link in data["links"][:_SHOWN]:
            desk.access.line(f"{link['label']}: {link['url']}")
        if len(data["links"]) > _SHOWN:
            desk.access.line(f"... and {len(data['links']) - _SHOWN} more, see -o json")
        up, known = _settled(name, locked, states, data["state"])
        desk.access.summary(f"{up} of {known} objects are as they are wanted")
    return 0


def request_options(function: Any) -> Any:
    """Add what asks for a cluster that is not in the site; NAME asks for one that is."""
    options = [
        click.argument("name", required=False),
        click.option("--template", help="The template of the catalog."),
        click.option("--nodes", type=click.IntRange(1, MOST_NODES), help="How many nodes."),
        click.option("--services", metavar="A,B", help="Default: those of the template."),
        click.option("--provider", help="Where nodes come from."),
        click.option("--hardwaretype", help="The hardware type of all nodes."),
        click.option("--imagetype", help="The image type of all nodes."),
        click.option("--solver", help="Who lays it out; default cpsat."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("solve")
@request_options
def solve_command(tenant: str | None, **asked: Any) -> int:
    """Find the layout of a cluster of the site, or of one that is only asked for.

    What the layout of NAME has pinned is shown as it is; with --solver it is
    solved anew. Exit code 4 says that there is no layout, and why.
    """
    desk = _desk(tenant)
    started = time.monotonic()
    try:
        resolved, locked = asked_layout(desk, asked)
    except NoLayoutError as error:
        return tell_no_layout(desk, error)
    seconds = time.monotonic() - started
    layout = in_order_of_preference(layout_of(locked.nodes.values()))
    data = {
        "format": 1,
        "layout": layout,
        "solver": locked.solver,
        "seconds": round(seconds, 3),
    }
    if not desk.access.data(data):
        rows = [
            (str(it["count"]), it["hardwaretype"], it["imagetype"], ", ".join(it["services"]))
            for it in layout
        ]
        desk.access.table(("NODES", "HARDWARE", "IMAGE", "SERVICES"), rows)
        nodes = len(locked.nodes)
        desk.access.summary(
            f"{nodes} node{'s' * (nodes != 1)} of {resolved.template.name}, "
            f"by {locked.solver} in {seconds:.2f} s"
        )
    return 0


def tell_no_layout(desk: Desk, error: NoLayoutError) -> int:
    """Say why there is no layout; return the exit code."""
    if not desk.access.data({"layout": None, "conflict": list(error.conflict)}):
        desk.access.line(error.message)
        for each in error.conflict if len(error.conflict) > 1 else ():
            desk.access.line(f"  {each}")
    return error.exit_code


def asked_layout(desk: Desk, asked: Mapping[str, Any]) -> tuple[Resolved, LockedCluster]:
    """Return the cluster that options ask for, and its layout.

    UsageError where they name none; SiteError where it cannot be; NoLayoutError without a layout.
    """
    said = {key: value for key, value in asked.items() if value is not None and key != "name"}
    solver = said.pop("solver", None)
    name = asked["name"]
    if "services" in said:
        said["services"] = [it.strip() for it in said["services"].split(",") if it.strip()]
    if name is None:
        if "template" not in said or "nodes" not in said:
            hint = "name a cluster, or say --template and --nodes"
            raise UsageError("it is not said what to lay out", hint=hint)
        return _nameless(desk, said, solver)
    if "template" in said:
        raise UsageError("--template is for a cluster that is not in the site")
    resolved = desk.resolved(name, {**desk.said(name), **said})
    return resolved, desk.layout(resolved, solver)


def _nameless(
    desk: Desk, said: Mapping[str, Any], solver: str | None
) -> tuple[Resolved, LockedCluster]:
    catalog = desk.catalog_of({**desk.sections, "clusters": {_NAMELESS: said}})
    resolved = desk.resolve(catalog, _NAMELESS)
    return resolved, desk.layout(resolved, solver)


def in_order_of_preference(layout: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a layout with what is preferred first: more services, then by names."""

    def key(kind: Mapping[str, Any]) -> tuple[Any, ...]:
        return (-len(kind["services"]), kind["hardwaretype"], kind["imagetype"], kind["services"])

    return sorted(layout, key=key)


def _nodes(name: str, locked: LockedCluster | None) -> list[tuple[str, Any]]:
    nodes = locked.nodes.items() if locked else ()
    return [(host_of_node(name, number), node) for number, node in nodes]


def _settled(
    name: str, locked: LockedCluster | None, states: Mapping[Any, str], state: str
) -> tuple[int, int]:
    """Return how many objects of a cluster's nodes are where they are wanted, of how many."""
    goal = "started" if state == "started" else "initialized"
    found = [
        states.get(cob_id(host, it)) == (wanted if it == NODE else goal)
        for host, node in _nodes(name, locked)
        for it, wanted in ((NODE, "bootstrapped"), *((each, goal) for each in node.services))
    ]
    return sum(found), len(found)


def _links(desk: Desk, name: str, said: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the links of the template, with the addresses that are known."""
    locked = desk.locked.get(name)
    if locked is None:
        return []
    resolved = desk.resolved(name, said)
    view = view_of(Layout(resolved=resolved, locked=locked))
    results = desk.access.results()
    found = [
        (label, expand_macros(each, view))
        for label, url in resolved.template.links
        for each in _one_by_one(url, view)
    ]
    return [{"label": label, "url": str(fill_in(url, results)[0])} for label, url in found]


def _one_by_one(url: str, view: ClusterView) -> list[str]:
    """Return a link for each node where it names all nodes of a service by a macro."""
    names = {match[2] for match in _OF_ALL.finditer(url)}
    if len(names) != 1 or "(" in url:
        return [url]
    nodes = len(view.hosts_with(names.pop()))
    return [_OF_ALL.sub(rf"%\1.service.\2[{index}]%", url) for index in range(nodes)]
