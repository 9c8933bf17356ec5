"""What the data model of a storage cluster says, with its defaults, and what cannot be."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Problem = tuple[tuple[str | int, ...], str, str]
"""The keys that lead to a value, what is wrong, a hint."""

PAIR_SIZE = 2
LEAST_STORAGE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk of a server: the replica set that it belongs to has its name."""

    name: str
    device: str

    @property
    def path(self) -> str:
        """Return where it is mounted."""
        return f"/bricks/{self.name}"

    @property
    def brick(self) -> str:
        """Return the folder that is the brick: never the mount point itself."""
        return f"{self.path}/brick"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server; its `number` is its own for good."""

    name: str
    address: str
    number: int
    pair: str
    disks: tuple[Disk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The whole model, defaults filled in; `power_url` is "" for none."""

    name: str
    present: bool
    connection: Mapping[str, Any]
    domain: str
    interface: str
    prefix: int
    virtual_ip: str
    power_url: str
    servers: tuple[Server, ...]
    clients: Mapping[str, str]
    volume: str
    mount: str
    volume_options: Mapping[str, Any]
    log_level: str
    heal_wait_s: int
    postgres_version: int
    primary: str
    standbys: tuple[str, ...]
    postgres_settings: Mapping[str, Any]
    monitoring_port: int

    def pairs(self) -> dict[str, list[Server]]:
        """Return the servers of each HA pair, in their order."""
        found: dict[str, list[Server]] = {}
        for server in self.servers:
            found.setdefault(server.pair, []).append(server)
        return found

    def storage(self) -> list[Server]:
        """Return the servers that have disks."""
        return [server for server in self.servers if server.disks]

    def bricks(self) -> list[tuple[Server, Disk]]:
        """Return the bricks of the volume, those of one replica set beside each other."""
        sets = max((len(server.disks) for server in self.servers), default=0)
        return [(server, server.disks[each]) for each in range(sets) for server in self.storage()]


def read_cluster(model: Mapping[str, Any]) -> Cluster:
    """Return the cluster that a model without problems describes."""
    network, volume = model["network"], model.get("volume") or {}
    postgres, power = model["postgres"], model.get("power") or {}
    name = volume.get("name", "data")
    return Cluster(
        name=model["cluster"],
        present=model.get("present", True),
        connection=model.get("connection") or {},
        domain=network.get("domain", f"{model['cluster']}.internal"),
        interface=network.get("interface", "eth0"),
        prefix=network["prefix"],
        virtual_ip=network["virtual_ip"],
        power_url=power.get("url", ""),
        servers=tuple(
            _server(name, it, place) for place, (name, it) in enumerate(model["servers"].items(), 1)
        ),
        clients={name: it["address"] for name, it in model["clients"].items()},
        volume=name,
        mount=volume.get("mount", f"/mnt/{name}"),
        volume_options=volume.get("options") or {},
        log_level=volume.get("log_level", "INFO"),
        heal_wait_s=volume.get("heal_wait_s", 120),
        postgres_version=postgres.get("version", 15),
        primary=postgres["primary"],
        standbys=tuple(postgres["standbys"]),
        postgres_settings=postgres.get("settings") or {},
        monitoring_port=(model.get("monitoring") or {}).get("port", 8080),
    )


def _server(name: str, said: Mapping[str, Any], place: int) -> Server:
    devices = said.get("disks") or ()
    return Server(
        name=name,
        address=said["address"],
        number=said.get("number", place),
        pair=said["pair"],
        disks=tuple(Disk(name=f"d{n}", device=it) for n, it in enumerate(devices, 1)),
    )


def problems(model: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what no cluster can be, of a model that fits its schema."""
    yield from _addresses(model)
    yield from _numbers(model["servers"])
    yield from _pairs(model["servers"])
    yield from _disks(model["servers"])
    yield from _database(model)


def _addresses(model: Mapping[str, Any]) -> Iterator[Problem]:
    """Each address is one, once, and of one network."""
    hosts = [
        ((group, name, "address"), it["address"])
        for group in ("servers", "clients")
        for name, it in model[group].items()
    ]
    named = [*hosts, (("network", "virtual_ip"), model["network"]["virtual_ip"])]
    prefix, seen, network = model["network"]["prefix"], dict[str, str](), None
    for path, address in named:
        try:
            here = ipaddress.ip_interface(f"{address}/{prefix}").network
        except ValueError:
            yield path, f"{address} is no address", "four numbers from 0 to 255"
            continue
        network = network or here
        if here != network:
            yield path, f"{address} is not in the network {network}", "see network.prefix"
        if address in seen:
            yield path, f"{address} is that of {seen[address]} already", "give it its own"
        seen[address] = path[-2] if len(path) > PAIR_SIZE else "the virtual IP"
    names = [name for (_, name, *_), _ in hosts]
    for name in sorted({it for it in names if names.count(it) > 1}):
        yield ("clients", name), f"{name} is a server and a client", "rename one of them"


def _numbers(servers: Mapping[str, Any]) -> Iterator[Problem]:
    owners: dict[int, str] = {}
    for place, (name, it) in enumerate(servers.items(), 1):
        number = it.get("number", place)
        if number in owners:
            hint = "write `number` for all servers once one has gone from the middle"
            yield ("servers", name), f"{name} has the number {number} of {owners[number]}", hint
        owners.setdefault(number, name)


def _pairs(servers: Mapping[str, Any]) -> Iterator[Problem]:
    members: dict[str, list[str]] = {}
    for name, it in servers.items():
        members.setdefault(it["pair"], []).append(name)
    for pair, names in members.items():
        for name in names[PAIR_SIZE:]:
            message = f"the pair {pair} has {', '.join(names[:PAIR_SIZE])} already"
            yield ("servers", name, "pair"), message, "a pair has two servers"


def _disks(servers: Mapping[str, Any]) -> Iterator[Problem]:
    counts = {name: len(it["disks"]) for name, it in servers.items() if it.get("disks")}
    if len(counts) < LEAST_STORAGE:
        hint = "the servers that have disks keep the copies of the volume"
        yield ("servers",), f"{len(counts)} servers have disks, and a volume needs two", hint
        return
    first, wanted = next(iter(counts.items()))
    for name, number in counts.items():
        if number != wanted:
            message = f"{name} has {number} disks, {first} has {wanted}"
            hint = "each disk is a replica set over all servers that have disks"
            yield ("servers", name, "disks"), message, hint


def _database(model: Mapping[str, Any]) -> Iterator[Problem]:
    postgres, servers = model["postgres"], model["servers"]
    named: list[tuple[tuple[str | int, ...], str]]
    named = [(("postgres", "primary"), postgres["primary"])]
    standbys = postgres["standbys"]
    named += [(("postgres", "standbys", n), name) for n, name in enumerate(standbys)]
    for path, name in named:
        if name not in servers:
            yield path, f"{name} is no server", f"servers are {', '.join(servers)}"
    for number, name in enumerate(standbys):
        if name == postgres["primary"]:
            path = ("postgres", "standbys", number)
            yield path, f"{name} is the primary already", "leave it out"
