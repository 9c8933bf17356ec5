"""The network that machines boot from, as the section `metal` says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

Problem = tuple[tuple[str | int, ...], str, str]
"""Where in a section something is wrong, what, and a hint."""

_RANGE_PART = 4
"""Which part of the network machines boot with, the last one, where the section does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The boot server's own address, and what DHCP gives: nothing where there is no `interface`.

    `first` to `last` is what machines get while they boot. `router` and `domain` may be "".
    """

    own: IPv4Interface
    interface: str
    domain: str
    first: IPv4Address
    last: IPv4Address
    router: str
    dns: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The arguments of `cobweb metal dhcp-server` that say it."""
        found = ["--interface", self.interface, "--address", str(self.own)]
        found += ["--range", f"{self.first}-{self.last}"]
        for name, value in (("domain", self.domain), ("router", self.router)):
            found += [f"--{name}", value] if value else []
        for each in self.dns:
            found += ["--dns", each]
        return found


def network_of(said: Mapping[str, Any]) -> tuple[Network | None, list[Problem]]:
    """Return the network, None where its address is none; and all that is wrong with it."""
    own, text = None, said["address"]
    try:
        own = IPv4Interface(text)
    except ValueError:
        problem = f"`{text}` is no IPv4 address of a network"
    else:
        problem = "" if is_host(own.ip, own) else f"`{text}` is no address that a server can have"
    if problem or own is None:
        hint = "write the server's own address and the length of its network, as in `10.72.0.1/24`"
        return None, [(("network", "address"), problem, hint)]
    whole, problems = own.network, []
    lent = [
        whole.broadcast_address - max(1, whole.num_addresses // _RANGE_PART - 1),
        whole.broadcast_address - 1,
    ]
    for index, each in enumerate(said.get("range", ())):
        problems += _problems(("network", "range", index), each, own)
        lent[index] = _address(each) or lent[index]
    for index, each in enumerate(said.get("dns", ())):
        if _address(each) is None:
            problems.append((("network", "dns", index), f"`{each}` is no IPv4 address", ""))
    if "router" in said:
        problems += _problems(("network", "router"), said["router"], own)
    network = Network(
        own=own,
        interface=said.get("interface", ""),
        domain=said.get("domain", ""),
        first=lent[0],
        last=lent[1],
        router=said.get("router", ""),
        dns=tuple(said.get("dns", ())),
    )
    return network, problems or list(_range_problems(network))


def address_problems(text: str, network: Network) -> Iterator[Problem]:
    """Yield why a machine cannot have an address."""
    yield from _problems(("address",), text, network.own)
    address = _address(text)
    if address == network.own.ip:
        yield ("address",), f"`{text}` is the boot server's own", ""
    elif text == network.router:
        yield ("address",), f"`{text}` is the router's", ""
    elif address and network.interface and network.first <= address <= network.last:
        message = f"`{text}` is in the range that machines boot with"
        hint = f"that is {network.first} to {network.last}; say another one in `network.range`"
        yield ("address",), message, hint


def is_host(address: IPv4Address, network: IPv4Interface) -> bool:
    """Say whether a machine in a network can have an address."""
    whole = network.network
    return address in whole and address not in (whole.network_address, whole.broadcast_address)


def _address(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except ValueError:
        return None


def _problems(keys: tuple[str | int, ...], text: str, own: IPv4Interface) -> list[Problem]:
    address = _address(text)
    if address is None:
        return [(keys, f"`{text}` is no IPv4 address", "")]
    if not is_host(address, own):
        message = f"`{text}` is not in the network of the boot server"
        return [(keys, message, f"that is {own.network}")]
    return []


def _range_problems(network: Network) -> Iterator[Problem]:
    if not network.interface:
        return
    keys = ("network", "range")
    alone = network.first == network.last == network.own.ip
    if alone or not (is_host(network.first, network.own) and network.first <= network.last):
        message = f"`{network.first}` to `{network.last}` is no range of addresses"
        yield keys, message, "write the first and the last, as in `[10.72.0.192, 10.72.0.254]`"
    elif network.router and network.first <= IPv4Address(network.router) <= network.last:
        yield keys, f"the router `{network.router}` is in it", "machines would get its address"
