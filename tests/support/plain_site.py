"""The evaluated site as plain data, built in one piece: what its canonical JSON must say.

Of a host all variables are there, as where nobody can look into what its objects work with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from cobweb.generation import redact
from cobweb.model import (
    Action,
    Budget,
    Cob,
    CobType,
    Graph,
    Host,
    Limit,
    LockNeed,
    Missing,
    Need,
    Nothing,
    PythonAction,
    Role,
    Tasks,
    Unit,
)

__all__ = ["evaluated_site"]


def evaluated_site(
    graph: Graph,
    hosts: Mapping[str, Host],
    *,
    roots: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the evaluated site as plain JSON data without secrets; `files` are digests."""
    folders = tuple(sorted((roots or {}).items(), key=lambda root: (-len(root[1]), root)))
    types = {cob.type.name: cob.type for cob in graph.cobs.values()}
    return {
        "format": 4,
        "budgets": [_budget(it) for it in sorted(graph.budgets, key=lambda it: it.name)],
        "hosts": {name: _host(hosts[name]) for name in sorted(hosts)},
        "types": {name: _type(types[name], folders) for name in sorted(types)},
        "cobs": {cob: _cob(graph.cobs[cob]) for cob in sorted(graph.cobs)},
        "confirm": {
            cob: {
                "within_s": it.confirm.within_s,
                "revert": it.confirm.revert,
                "prepare": it.confirm.prepare,
            }
            for cob, it in graph.cobs.items()
            if it.confirm
        },
        "needs": [_need(need) for need in graph.needs],
        "limits": [_limit(limit) for limit in sorted(graph.limits, key=lambda it: it.name)],
        "files": dict(files or {}),
    }


def _host(host: Host) -> dict[str, Any]:
    return {"groups": list(host.groups), "variables": redact(host.variables)}


def _cob(cob: Cob) -> dict[str, Any]:
    return {"type": cob.type.name, "spec": redact(cob.spec)}


def _type(kind: CobType, folders: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    groups = {name: list(states) for name, states in kind.groups.items()}
    return {
        "states": list(kind.states),
        "preferred": kind.preferred,
        "remove": kind.remove,
        "check": _action(kind.check, folders),
        "check_timeout_s": kind.check_timeout_s,
        "folder": "",
        "revert": kind.revert,
        "prepare": kind.prepare,
        **({"groups": groups} if groups else {}),
        "transitions": [
            {
                "from": step.source,
                "to": step.dest,
                "action": _action(step.action, folders),
                "timeout_s": step.timeout_s,
                "attempts": step.attempts,
            }
            for step in kind.transitions
        ],
    }


def _action(action: Action, folders: tuple[tuple[str, str], ...]) -> dict[str, str]:
    match action:
        case Tasks(path=path):
            return {"tasks": _relative(path, folders)}
        case Role(name=name):
            return {"role": _relative(name, folders)}
        case PythonAction(type_name=name, method=method):
            return {"python": f"{name}.{method}"}
        case Nothing():
            return {}
        case Missing(message=message):
            return {"missing": message}
        case _:
            assert_never(action)


def _relative(path: str, folders: tuple[tuple[str, str], ...]) -> str:
    for word, folder in folders:
        start = folder.rstrip("/") + "/"
        if path.startswith(start):
            return f"{word}:{path.removeprefix(start)}"
    return path


def _need(need: Need) -> dict[str, str]:
    if isinstance(need, LockNeed):
        return {"cob": need.cob, "in": need.within, "on": need.on, "state": need.state}
    return {
        "cob": need.cob,
        "from": need.source,
        "to": need.dest,
        "on": need.on,
        "state": need.state,
    }


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "name": limit.name,
        "from": limit.source,
        "to": limit.dest,
        "groups": [
            {"name": group.name, "members": sorted(group.members), "bound": group.bound}
            for group in limit.groups
        ],
    }


def _budget(budget: Budget) -> dict[str, Any]:
    data: dict[str, Any] = {"name": budget.name, "count": budget.count}
    data["units"] = [_unit(unit) for unit in budget.units]
    for key in ("percent", "group", "first", "pause_s", "trust_s"):
        if getattr(budget, key):
            data[key] = getattr(budget, key)
    return data


def _unit(unit: Unit) -> dict[str, Any]:
    data: dict[str, Any] = {"name": unit.name, "members": sorted(unit.members)}
    if unit.domains:
        data["domains"] = list(unit.domains)
    if unit.order != (0, 0.0, ""):
        data["order"] = list(unit.order)
    return data
