"""What a catalog is made of, as values: the words of Coopr, defaults filled in.

`read_catalog` in `_catalog_read.py` makes them of a site's sections; what it has returned refers to
nothing that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ACTIONS = (
    *("install", "configure", "initialize", "start"),
    *("stop", "remove", "upgrade", "check"),
)
"""The actions that a service may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where nodes come from; `type` is the name of a `NodeProvider`, `fields` are by its schema."""

    name: str
    type: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareType:
    """A kind of machine; `providers` are the fields that each provider knows it by."""

    name: str
    cores: float = 0
    memory_mb: int = 0
    cost: float = 0
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    description: str = ""

    def cores_at(self, provider: str) -> float:
        """Return the cores of one that is from a provider, which may say it itself; 0: unknown."""
        own = self.providers.get(provider, {}).get("cores")
        return own if isinstance(own, int | float) else self.cores


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageType:
    """A kind of system; `user` is who nodes are reached as, "" for the connection's default."""

    name: str
    user: str = ""
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Automator:
    """How actions that name it are carried out: one of `tasks` (a file of the site) and `role`."""

    name: str
    tasks: str = ""
    role: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action of a service: one of `tasks` and `role` is there, that of `automator` if any."""

    name: str
    tasks: str = ""
    role: str = ""
    automator: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 1800
    attempts: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service: `requires` must be on the cluster, `uses` come first where they are there.

    `config` are the keys of the cluster's configuration that it gets; None for all of them.
    """

    name: str
    version: str = ""
    config: tuple[str, ...] | None = None
    provides: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    install_requires: tuple[str, ...] = ()
    install_uses: tuple[str, ...] = ()
    runtime_requires: tuple[str, ...] = ()
    runtime_uses: tuple[str, ...] = ()
    actions: Mapping[str, Action] = field(default_factory=dict)
    description: str = ""

    @property
    def requires(self) -> tuple[str, ...]:
        """Return all that must be on the cluster with it, each once."""
        return tuple(dict.fromkeys((*self.install_requires, *self.runtime_requires)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantities:
    """On how many nodes a service is; `ratio` is of all nodes, `step` counts from `min`."""

    min: int = 1
    max: int | None = None
    ratio: float | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Bounds of one service; no hardware or image types means all.

    `max_unavailable`, a number or a percentage, is how many of its nodes may be without it at once
    while it is changed; None for any number.
    """

    hardwaretypes: tuple[str, ...] = ()
    imagetypes: tuple[str, ...] = ()
    quantities: Quantities = Quantities()
    max_unavailable: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a cluster has that says nothing else; None for what the solver chooses."""

    services: tuple[str, ...] = ()
    provider: str | None = None
    hardwaretype: str | None = None
    imagetype: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """What clusters of a template may use; empty means all."""

    hardwaretypes: tuple[str, ...] = ()
    imagetypes: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """How long clusters live, in seconds; 0 means for ever, for `step` any prolongation."""

    initial_s: float = 0
    max_s: float = 0
    step_s: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A kind of cluster, with all that it has from `extends` and `includes` in it already."""

    name: str
    extends: str = ""
    includes: tuple[str, ...] = ()
    defaults: Defaults = Defaults()
    compatibility: Compatibility = Compatibility()
    size_min: int = 1
    size_max: int | None = None
    mustcoexist: tuple[tuple[str, ...], ...] = ()
    cantcoexist: tuple[tuple[str, ...], ...] = ()
    rules: Mapping[str, Rule] = field(default_factory=dict)
    locked: tuple[str, ...] = ()
    lease: Lease = Lease()
    links: tuple[tuple[str, str], ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster as somebody asks for it; None for what its template says.

    `versions` are those of services that are not as in the catalog; `restarts` counts how often all
    services were asked to start again.
    """

    name: str
    template: str
    nodes: int
    services: tuple[str, ...] | None = None
    provider: str | None = None
    hardwaretype: str | None = None
    imagetype: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    tenant: str | None = None
    owner: str = ""
    state: str = "started"
    lease_created: str | None = None
    lease_expires: str | None = None
    solver: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Limits on what one tenant has in all; None for any number."""

    name: str
    clusters: int | None = None
    nodes: int | None = None
    cores: float | None = None
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The sections `catalog`, `clusters`, `tenants` of a site, by name; all names are right."""

    providers: Mapping[str, Provider] = field(default_factory=dict)
    hardwaretypes: Mapping[str, HardwareType] = field(default_factory=dict)
    imagetypes: Mapping[str, ImageType] = field(default_factory=dict)
    automators: Mapping[str, Automator] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)
    templates: Mapping[str, Template] = field(default_factory=dict)
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    tenants: Mapping[str, Tenant] = field(default_factory=dict)

    def providers_of(self, name: str) -> tuple[str, ...]:
        """Return the services that are `name` or stand for it, in the catalog's order."""
        return tuple(
            service.name
            for service in self.services.values()
            if service.name == name or name in service.provides
        )
