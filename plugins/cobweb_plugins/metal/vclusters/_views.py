"""What virtual clusters are like now, as plain data and as tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cobweb.model import CobId, State, cob_id
from cobweb.plugin import Cell, Column, Tone
from cobweb_plugins.metal._commands import _time
from cobweb_plugins.metal._section import MACHINE as MACHINE_COB
from cobweb_plugins.metal.vclusters._expand import NODE

if TYPE_CHECKING:
    from cobweb_plugins.metal.vclusters._desk import Desk
    from cobweb_plugins.metal.vclusters._grants import Member, Request

_LIST = (
    Column(title="VCLUSTER"),
    Column(title="GROUP"),
    Column(title="PRIO", right=True),
    Column(title="NODES", right=True),
    Column(title="PHASE"),
    Column(title="UNTIL"),
)
_NODES = (
    Column(title="NODE"),
    Column(title="ADDRESS"),
    Column(title="MACHINE"),
    Column(title="STATE"),
    Column(title="SINCE"),
    Column(title="NOTE", flexible=True),
)


def vcluster_data(desk: Desk, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return what virtual clusters are like: schemas/vcluster.schema.json; all without `names`."""
    states = desk.access.states()
    requests = desk.grants.requests
    known = sorted(requests) if names is None else [it for it in names if it in requests]
    written = {*(desk.section.get("vclusters") or {})} if names is None else set[str]()
    return {
        "format": 1,
        "revision": desk.decisions.revision,
        "vclusters": [_vcluster(desk, requests[it], states) for it in known],
        "written": sorted(written - requests.keys()),
    }


def _vcluster(desk: Desk, request: Request, states: Mapping[CobId, State]) -> dict[str, Any]:
    nodes = [_node(desk, request, it, states) for it in desk.grants.of(request.name)]
    lease, wanted = request.lease, sum(it.count for it in request.parts)
    return {
        "name": request.name,
        "group": request.group,
        "priority": request.priority,
        "phase": request.phase,
        "created": request.created,
        "subnet": request.subnet,
        "domain": request.domain,
        "lease": lease and {**dataclasses.asdict(lease), "ends": request.ends or lease.until},
        "wanted": wanted,
        "ready": sum(it["ready"] for it in nodes),
        "short": wanted - sum(it["ready"] for it in nodes),
        "nodes": nodes,
    }


def _node(
    desk: Desk, request: Request, member: Member, states: Mapping[CobId, State]
) -> dict[str, Any]:
    part = request.parts[member.part]
    view = desk.views.get(member.machine)
    machine = states.get(cob_id(member.machine, MACHINE_COB), "off")
    return {
        "host": member.host,
        "address": member.address,
        "machine": member.machine,
        "template": part.template,
        "image": member.image,
        "renewable": member.image != desk.images.get(part.template, member.image),
        "since": member.since,
        "machine_state": machine,
        "node_state": states.get(cob_id(member.host, NODE), "absent"),
        "ready": desk.is_ready(member, states),
        "failure": view["failure"] if view and view["over"] else "",
    }


def tell_list(desk: Desk, data: Mapping[str, Any]) -> None:
    """Write a line for each virtual cluster."""
    if not data["vclusters"]:
        desk.access.line("There are no virtual clusters.")
    desk.access.table(_LIST, [_row(it) for it in data["vclusters"]])
    for name in data["written"]:
        desk.access.line(f"{name} is written, and was not created: `cobweb vcluster create {name}`")


def _row(it: Mapping[str, Any]) -> Sequence[str | Cell]:
    tone = Tone.CAREFUL if it["short"] else Tone.NONE
    phase = "short" if it["short"] and it["phase"] == "granted" else it["phase"]
    until = _time(it["lease"]["ends"]) if it["lease"] else ""
    nodes = f"{it['ready']}/{it['wanted']}"
    return it["name"], it["group"], str(it["priority"]), nodes, Cell(text=phase, tone=tone), until


def tell_nodes(desk: Desk, data: Mapping[str, Any]) -> None:
    """Write the nodes of virtual clusters."""
    for it in data["vclusters"]:
        desk.access.table(_NODES, [_node_row(node) for node in it["nodes"]])
        for node in it["nodes"]:
            if node["failure"]:
                desk.access.line(f"{node['host']}: {node['machine']}: {node['failure']}", Tone.BAD)
        if it["short"]:
            text = f"{it['name']} is short of {it['short']} of {it['wanted']} nodes"
            desk.access.line(f"{text}: `cobweb vcluster why {it['name']}`", Tone.CAREFUL)
        if it["lease"]:
            end = "its nodes are to be left" if it["phase"] == "leaving" else "its lease ends"
            desk.access.line(f"{it['name']}: {end}, {_time(it['lease']['ends'])} UTC")


def _node_row(node: Mapping[str, Any]) -> Sequence[str | Cell]:
    note = Cell(text="has an older image" if node["renewable"] else "")
    if node["failure"]:
        note = Cell(text="its machine has failed", tone=Tone.BAD)
    state = "ready" if node["ready"] else f"{node['machine_state']}, node {node['node_state']}"
    place = (node["host"], node["address"], node["machine"])
    return (*place, state, _time(node["since"]), note)
