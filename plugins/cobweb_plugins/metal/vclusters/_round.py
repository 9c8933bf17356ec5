"""A round over all virtual clusters: leases end, failed machines are replaced, idle ones go off."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cobweb_plugins.metal.vclusters._changes import Ground, Writes, fitted, let_go, replaced
from cobweb_plugins.metal.vclusters._choice import Stock, UnmetError
from cobweb_plugins.metal.vclusters._grants import (
    GRANTED,
    LEAVING,
    MACHINE,
    Grants,
    Member,
    Request,
    request_body,
)

Said = tuple[Writes, list[str]]
"""What is to be decided, and what people are told of it."""


def due(name: str, ground: Ground) -> Said:
    """Return what the lease of a virtual cluster asks for now: notice, then the end."""
    now, request = ground.stock.now, ground.grants.requests.get(name)
    lease = request.lease if request else None
    if request is None or lease is None or now < lease.until - lease.notice_s:
        return {}, []
    if not request.told:
        body = request_body(replace(request, phase=LEAVING, told=now))
        return {request.key: body}, [f"{name}: its lease ends, its nodes are to be left"]
    if now < request.ends:
        return {}, []
    writes = {request.key: None, **let_go(ground.grants.of(name), ground, lease.grace_s)}
    return writes, [f"{name}: its lease has ended, its nodes go"]


def late(grants: Grants, now: float) -> dict[str, list[str]]:
    """Return the nodes that go by power now, by machine."""
    current = {it.host for it in grants.members.values()}
    overdue = ((it, hosts) for it, hosts in grants.left.items() if grants.cut[it] <= now)
    found = {it: [host for host in hosts if host not in current] for it, hosts in overdue}
    return {machine: hosts for machine, hosts in found.items() if hosts}


def cold(grants: Grants, now: float, cold_after_s: float) -> Writes:
    """Return that idle machines wait no longer: they go off unless they are of the reserve."""
    return {
        f"{MACHINE}{name}": None
        for name, since in grants.freed.items()
        if not grants.left.get(name) and since + cold_after_s <= now
    }


def mended(request: Request, ground: Ground, grace_s: float) -> Said:
    """Return what gives a virtual cluster one node that it lacks, and what is told of it.

    A machine that has failed is replaced, unless its image has failed on another one, too: then
    that is to blame. Nothing is returned where nothing is lacking, or nothing can be had.
    """
    if request.phase != GRANTED:
        return {}, []
    said = []
    for member in ground.grants.of(request.name):
        if not (why := _failure(member, ground.stock)):
            continue
        if _failures(ground)[member.image] > 1:
            said.append(f"{member.host}: {why}; its image has failed elsewhere, too: not replaced")
            continue
        try:
            writes = replaced(request, member, ground, grace_s)
        except UnmetError as error:
            said.append(f"{member.host}: {why}; {error.message}")
            continue
        return writes, [*said, f"{member.host}: {member.machine} {why}; it gets another machine"]
    grown, text = _grown(request, ground, grace_s)
    return grown, [*said, *text]


def _grown(request: Request, ground: Ground, grace_s: float) -> Said:
    said, has = list[str](), Counter(it.part for it in ground.grants.of(request.name))
    for number, part in enumerate(request.parts):
        if has[number] >= part.count:
            continue
        counts = [replace(it, count=has[index]) for index, it in enumerate(request.parts)]
        counts[number] = replace(part, count=has[number] + 1)
        try:
            writes = fitted(replace(request, parts=tuple(counts)), ground, grace_s)
        except UnmetError as error:
            said.append(error.message)
            continue
        del writes[request.key]
        return writes, [*said, f"{request.name}: it is short of nodes, and gets one"]
    return {}, said


def _failure(member: Member, stock: Stock) -> str:
    found = (it.unfit for it in stock.machines if it.name == member.machine)
    return next(found, "")


def _failures(ground: Ground) -> Counter[str]:
    """Return on how many machines each image has failed, with those that were put aside."""
    members = ground.grants.members.values()
    now = (it.image for it in members if _failure(it, ground.stock))
    return Counter([*now, *ground.grants.failed.values()])
