"""The choice of machines for a request: as a whole or not at all, at the least cost.

Pure functions. Machines that nobody has come first, then those of virtual clusters of a lower
priority, the lowest first: only what they have beyond their `min`, and no node that is new. That
parts of a request that few machines are fit for get these is the flow's to see (`_flow.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from typing import Any

from cobweb.errors import CobwebError
from cobweb_plugins.metal.vclusters._flow import cheapest
from cobweb_plugins.metal.vclusters._grants import Grants, Member, Part, Request

Properties = Mapping[str, Any]
Accepts = Callable[[str, Properties], bool]
"""Says whether a filter (a text) accepts a machine with such properties."""

_ORDER = ("cost", "cores", "memory_mb", "disk_gb")
"""The properties by which machines are cheaper than others, the first one first."""

_Key = tuple[str, object]
_Edge = tuple[_Key, _Key, int, int]


class UnmetError(CobwebError):
    """A request that cannot be met as a whole; nothing was decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine of the site that was pinned to nothing.

    `unfit` is why it can be had by nobody now, "" where it can. `is_warm` says that it is on the
    trampoline, `may_run` that its system may be running under its name and address.
    """

    name: str
    properties: Properties
    unfit: str = ""
    is_warm: bool = False
    may_run: bool = False

    @property
    def order(self) -> tuple[object, ...]:
        """By what it is cheaper than others; one of which nothing is known comes last."""
        found = (self.properties.get(it) for it in _ORDER)
        costs = tuple(it if isinstance(it, int | float) else 0 for it in found)
        return ("cores" not in self.properties, *costs, not self.is_warm, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """All machines that can be chosen, what is decided of them, and when that is looked at.

    `now` is in seconds since the epoch. For `immunity_s` seconds a new node is taken by nobody.
    """

    machines: Sequence[Machine]
    grants: Grants
    accepts: Accepts
    now: float
    immunity_s: float

    def unfit(self, machine: Machine, part: Part, request: Request) -> str:
        """Return why a machine cannot be a node of a part, "" where it can."""
        if machine.name in self.grants.failed:
            return f"was put aside; `cobweb metal release {machine.name}`, when it is well"
        if machine.unfit:
            return machine.unfit
        if part.where and not self.accepts(part.where, machine.properties):
            is_known = "cores" in machine.properties
            unknown = "" if is_known else " (its hardware is not known yet: no trampoline told it)"
            return f"not {part.where}{unknown}"
        member = self.grants.members.get(machine.name)
        return self._held(member, request) if member else ""

    def _held(self, member: Member, request: Request) -> str:
        holder = self.grants.requests[member.vcluster]
        if holder.name == request.name:
            return f"is {member.host}"
        if holder.priority >= request.priority:
            return f"is in {holder.name}, of priority {holder.priority}"
        if not self.spare(holder, member.part):
            return f"is in {holder.name}, which has no more than it must have"
        left_s = member.since + self.immunity_s - self.now
        return f"is new in {holder.name}, for {left_s:.0f} s more" if left_s > 0 else ""

    def spare(self, holder: Request, part: int) -> int:
        """Return how many nodes of a part can be taken from a virtual cluster."""
        has = sum(it.part == part for it in self.grants.of(holder.name))
        return max(0, has - holder.parts[part].min)


def choose(request: Request, wanted: Mapping[int, int], stock: Stock) -> list[tuple[int, str]]:
    """Return part and machine of new nodes, `wanted` by part; UnmetError where not all are there.

    Of what is returned some may be nodes of others, which lose them.
    """
    ranks = {it.name: rank for rank, it in enumerate(sorted(stock.machines, key=_order))}
    edges = list(_edges(request, wanted, stock, ranks))
    used = cheapest(edges, ("source", 0), ("sink", 0))
    found = [
        (int(str(source[1])), str(dest[1]))
        for (source, dest, *_), count in zip(edges, used, strict=True)
        if count and source[0] == "part"
    ]
    if len(found) < sum(wanted.values()):
        raise _unmet(request, wanted, len(found), stock)
    return sorted(found, key=lambda it: (it[0], ranks[it[1]]))


def _edges(
    request: Request, wanted: Mapping[int, int], stock: Stock, ranks: Mapping[str, int]
) -> Iterator[_Edge]:
    """Yield the ways of nodes: from a part to a machine, from there out, or on to its holder."""
    for part, count in wanted.items():
        yield ("source", 0), ("part", part), count, 0
        for it in stock.machines:
            if not stock.unfit(it, request.parts[part], request):
                yield ("part", part), ("machine", it.name), 1, 0
    for machine in stock.machines:
        yield _exit(machine.name, ranks[machine.name], stock)
    holders = {(it.vcluster, it.part) for it in stock.grants.members.values()}
    for name, part in sorted(holders):
        spare = stock.spare(stock.grants.requests[name], part)
        yield ("holder", (name, part)), ("sink", 0), spare, 0


def _order(machine: Machine) -> tuple[object, ...]:
    return machine.order


def _exit(name: str, rank: int, stock: Stock) -> _Edge:
    """Return how a machine comes to be had, and what that costs: free, or from its holder."""
    member, most = stock.grants.members.get(name), len(stock.machines) + 1
    if member is None:
        return ("machine", name), ("sink", 0), 1, rank
    priorities = sorted({it.priority for it in stock.grants.requests.values()})
    tier = 1 + priorities.index(stock.grants.requests[member.vcluster].priority)
    newest = sum(it.since > member.since for it in stock.grants.members.values())
    return ("machine", name), ("holder", (member.vcluster, member.part)), 1, tier * most**2 + newest


def _unmet(request: Request, wanted: Mapping[int, int], had: int, stock: Stock) -> UnmetError:
    asked = "; ".join(f"{count} {request.parts[it]}" for it, count in wanted.items())
    reasons = dict[str, list[str]]()
    for machine in stock.machines:
        whys = {stock.unfit(machine, request.parts[it], request) for it in wanted}
        for why in whys if "" not in whys else ["could be had"]:
            reasons.setdefault(why, []).append(machine.name)
    said = "; ".join(f"{', '.join(sorted(names))}: {why}" for why, names in reasons.items())
    total = sum(wanted.values())
    more = f"{total} more node{'s' * (total > 1)} ({asked})"
    can = f"{f'only {had}' if had else 'none'} can be had"
    message = f"{request.name} cannot have {more}: {can}; {said or 'there is no machine'}"
    return UnmetError(message, hint="nothing was changed")


def lowest_free(taken: set[int], count: int) -> list[int]:
    """Return so many of the lowest numbers from 1 on that are not taken."""
    found = (it for it in range(1, len(taken) + count + 1) if it not in taken)
    return [next(found) for _ in range(count)]


def addresses(
    subnet: IPv4Network, is_free: Callable[[IPv4Address], bool], numbers: Sequence[int]
) -> Iterator[IPv4Address]:
    """Yield an address of a subnet for each number, at that place of it where it is free."""
    taken = set[IPv4Address]()
    for number in numbers:
        there = subnet.network_address + number
        hosts = (it for it in chain((there,), subnet.hosts()) if it in subnet and it not in taken)
        found = next(filter(is_free, hosts), None)
        if found is None:
            hint = "nothing was changed; give the virtual cluster a larger `subnet`"
            raise UnmetError(f"{subnet} has no address left for node {number}", hint=hint)
        taken.add(found)
        yield found
