"""What to decide: nodes that are added, taken away, replaced. Pure functions that return writes.

Writes are bodies by key, as decisions of the section `metal` have them. All of one change are
stored at once, or none of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from cobweb_plugins.metal._network import Network, is_host
from cobweb_plugins.metal.vclusters._choice import (
    Stock,
    UnmetError,
    addresses,
    choose,
    lowest_free,
)
from cobweb_plugins.metal.vclusters._grants import (
    MACHINE,
    Grants,
    Member,
    Part,
    Request,
    failed_body,
    freed_body,
    member_body,
    request_body,
)

Writes = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What choices are made on: the stock, the network, and which addresses and names are taken.

    `pinned` and `names` are those of machines and of what is pinned to them, `images` the SHA-256
    of what templates stand for now.
    """

    stock: Stock
    network: Network
    pinned: Collection[str]
    names: Collection[str]
    images: Mapping[str, str]

    @property
    def grants(self) -> Grants:
        """What is decided."""
        return self.stock.grants


def missing(request: Request, members: Iterable[Member]) -> dict[int, int]:
    """Return how many nodes each part lacks; negative where it has too many, or is gone."""
    lacks = Counter({number: part.count for number, part in enumerate(request.parts)})
    lacks.subtract(it.part for it in members)
    return {number: count for number, count in lacks.items() if count}


def fitted(request: Request, ground: Ground, grace_s: float) -> Writes:
    """Return what makes a virtual cluster as its request says; UnmetError where that cannot be."""
    members = ground.grants.of(request.name)
    lacks = missing(request, members)
    writes: Writes = {request.key: request_body(request)}
    for part, count in lacks.items():
        theirs = [it for it in members if it.part == part]
        writes |= let_go(theirs[len(theirs) + min(0, count) :], ground, grace_s)
    wanted = {part: count for part, count in lacks.items() if count > 0}
    if wanted:
        _refuse_taken(request, ground)
        chosen = choose(request, wanted, ground.stock)
        numbers = lowest_free({it.number for it in members}, len(chosen))
        writes |= _joined(request, list(zip(chosen, numbers, strict=True)), ground, grace_s)
    return writes


def let_go(members: Sequence[Member], ground: Ground, grace_s: float) -> Writes:
    """Return that machines are nobody's any more."""
    now = ground.stock.now
    return {
        f"{MACHINE}{it.machine}": freed_body(
            now, [*ground.grants.left.get(it.machine, ()), it.host], now + grace_s
        )
        for it in members
    }


def replaced(request: Request, member: Member, ground: Ground, grace_s: float) -> Writes:
    """Return that another machine is a node; UnmetError where there is none.

    The one that has failed is put aside. Where its system may still run, so that its name and
    address are nobody else's, the node is let go, and there is another one for it.
    It keeps its name and address: the new machine gets them once the old one is off for sure.
    """
    ((_, machine),) = choose(request, {member.part: 1}, ground.stock)
    template = request.parts[member.part].template
    now = ground.stock.now
    new = replace(member, machine=machine, since=now, image=ground.images[template])
    left, earlier = _left(machine, ground), ground.grants.left.get(member.machine, ())
    if any(it.may_run for it in ground.stock.machines if it.name == member.machine):
        taken = {it.number for it in ground.grants.of(request.name)}
        node = ((member.part, machine), lowest_free(taken, 1)[0])
        aside = failed_body(now, member.image, [*earlier, member.host])
        return {**_joined(request, [node], ground, grace_s), f"{MACHINE}{member.machine}": aside}
    return {
        f"{MACHINE}{machine}": member_body(new, left, now + grace_s),
        f"{MACHINE}{member.machine}": failed_body(now, member.image, earlier),
    }


def _joined(
    request: Request, nodes: Sequence[tuple[tuple[int, str], int]], ground: Ground, grace_s: float
) -> Writes:
    now, numbers = ground.stock.now, [number for _, number in nodes]
    found = addresses(_subnet(request, ground), _is_free(request, ground), numbers)
    writes = {}
    for ((part, machine), number), address in zip(nodes, found, strict=True):
        member = Member(
            machine=machine,
            vcluster=request.name,
            number=number,
            part=part,
            image=ground.images[request.parts[part].template],
            address=str(address),
            since=now,
        )
        writes[f"{MACHINE}{machine}"] = member_body(member, _left(machine, ground), now + grace_s)
    return writes


def _left(machine: str, ground: Ground) -> list[str]:
    """Return which nodes a machine was that may not be gone yet."""
    member = ground.grants.members.get(machine)
    return [*ground.grants.left.get(machine, ()), *([member.host] if member else [])]


def _subnet(request: Request, ground: Ground) -> IPv4Network:
    return IPv4Network(request.subnet) if request.subnet else ground.network.own.network


def _is_free(request: Request, ground: Ground) -> Callable[[IPv4Address], bool]:
    """Return what says whether a new node can have an address."""
    network = ground.network
    router = (network.router,) if network.router else ()
    members = (it.address for it in ground.grants.members.values())
    taken = {network.own.ip, *map(IPv4Address, (*ground.pinned, *members, *router))}
    requests = ground.grants.requests.values()
    others = [IPv4Network(it.subnet) for it in requests if it.subnet and it.name != request.name]

    def is_free(address: IPv4Address) -> bool:
        lent = bool(network.interface) and network.first <= address <= network.last
        foreign = not request.subnet and any(address in it for it in others)
        return is_host(address, network.own) and not (lent or foreign or address in taken)

    return is_free


def _refuse_taken(request: Request, ground: Ground) -> None:
    """Raise UnmetError where a machine has the name of a node, or others a part of the subnet."""
    mine = re.compile(rf"{re.escape(request.name)}-\d+")
    if theirs := sorted(it for it in ground.names if mine.fullmatch(it)):
        message = f"a node of {request.name} would be called as the machine {theirs[0]}"
        raise UnmetError(message, hint="nothing was changed; give it another name")
    for other in ground.grants.requests.values():
        both = other.name != request.name and request.subnet and other.subnet
        if both and IPv4Network(request.subnet).overlaps(IPv4Network(other.subnet)):
            message = f"the subnet {request.subnet} overlaps that of {other.name}, {other.subnet}"
            raise UnmetError(message, hint="nothing was changed; give it another one")


def counted(request: Request, part: int, count: int) -> Request:
    """Return a request with so many nodes of a part; its `min` is never more than these."""
    old = request.parts[part]
    new = replace(old, count=count, min=min(old.min, count))
    parts: list[Part] = [*request.parts]
    parts[part] = new
    return replace(request, parts=tuple(parts))
