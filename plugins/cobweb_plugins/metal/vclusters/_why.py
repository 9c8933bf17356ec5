"""Why virtual clusters and machines are as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cobweb.errors import UsageError
from cobweb_plugins.metal.vclusters._grants import MACHINE
from cobweb_plugins.metal.vclusters._views import vcluster_data
from cobweb_plugins.metal.vclusters._written import request_of

if TYPE_CHECKING:
    from cobweb_plugins.metal.vclusters._desk import Desk
    from cobweb_plugins.metal.vclusters._grants import Request


def why_data(desk: Desk, name: str) -> dict[str, Any]:
    """Return what was decided of a virtual cluster or machine, and why machines cannot be had.

    `reasons` have the machine, the virtual cluster with the index of its kind of node, and the
    reason, "" where it can be had.
    """
    machines = {it.name: it for it in desk.ground().stock.machines}
    requests: Mapping[str, Request]
    nothing = f"nothing is decided of {name}"
    if name in desk.grants.requests:
        request = desk.grants.requests[name]
        keys = [request.key, *(f"{MACHINE}{it.machine}" for it in desk.grants.of(name))]
        known, requests = machines, {name: request}
    elif name in (written := desk.section.get("vclusters") or {}):
        keys, known, requests = (
            [],
            machines,
            {name: request_of(name, {**written[name], "lease": None}, 0.0)},
        )
        nothing = f"{name} is written, and was not created"
    elif name in (desk.section.get("machines") or {}):
        keys, requests = [f"{MACHINE}{name}"], desk.grants.requests
        known = {key: it for key, it in machines.items() if key == name}
        if not known:
            nothing = f"{name} is pinned by the site, and is never chosen"
    else:
        hint = "`cobweb vcluster list` and `cobweb metal list` say what there is"
        raise UsageError(f"there is no virtual cluster and no machine `{name}`", hint=hint)
    stock = desk.ground().stock
    found = [desk.grants.by_key[it] for it in keys if it in desk.grants.by_key]
    return {
        **vcluster_data(desk, list(requests)),
        "decisions": [str(it) for it in found] or [nothing],
        "reasons": [
            {
                "machine": it.name,
                "vcluster": request.name,
                "part": number,
                "reason": stock.unfit(it, part, request),
            }
            for request in requests.values()
            for number, part in enumerate(request.parts)
            for it in known.values()
        ],
    }


def reasons(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines: which machines could be further nodes, and why the others cannot."""
    for it in data["reasons"]:
        what = f"{it['vcluster']}, kind {it['part'] + 1}"
        yield f"{it['machine']} for {what}: {it['reason'] or 'can be had'}"
