"""From a request for a cluster and its template to what a solver is asked.

As in Coopr: a cluster's services are those it names, or those of its template; each that one of
them requires must be among them (a virtual one: a service that provides it). The hardware type that
the cluster or else its template names is that of all nodes; where neither names one, the solver
chooses among those that the template allows and the provider knows; so it is with image types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cobweb.errors import ModelError
from cobweb_plugins.cluster._catalog import (
    Catalog,
    Cluster,
    HardwareType,
    ImageType,
    Provider,
    Service,
    Template,
)
from cobweb_plugins.cluster._merge import merged
from cobweb_plugins.cluster._problems import Problem, circle_in


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNeeds:
    """What one service needs of others that are on the cluster; virtual services are resolved.

    `install` must be present before it is installed, `runtime` started before it is initialized
    and started; of these it must be stopped before `binding` are.
    """

    install: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    binding: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A cluster with all that its template says; `None` types are for the solver to choose.

    `hardwaretypes` and `imagetypes` are those that are allowed and that the provider knows.
    """

    cluster: Cluster
    template: Template
    provider: Provider
    services: tuple[str, ...]
    hardwaretype: str | None
    imagetype: str | None
    hardwaretypes: tuple[str, ...]
    imagetypes: tuple[str, ...]
    config: Mapping[str, Any]
    needs: Mapping[str, ServiceNeeds]
    conflicts: tuple[tuple[str, str], ...]

    def solver_template(self) -> dict[str, Any]:
        """Return what a `Solver` gets as its template: plain data, for these services alone.

        A rule about services that are not on the cluster does not count.
        """
        return {
            "services": list(self.services),
            "hardwaretypes": list(self.hardwaretypes),
            "imagetypes": list(self.imagetypes),
            "size": {"min": self.template.size_min, "max": self.template.size_max},
            "mustcoexist": self._present(self.template.mustcoexist),
            "cantcoexist": self._whole(self.template.cantcoexist),
            "rules": {
                name: {
                    "hardwaretypes": list(rule.hardwaretypes),
                    "imagetypes": list(rule.imagetypes),
                    **asdict(rule.quantities),
                }
                for name, rule in self.template.rules.items()
                if name in self.services
            },
            "conflicts": [list(pair) for pair in self.conflicts],
        }

    def solver_constraints(self, existing: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Return what a `Solver` gets as constraints; `existing` are nodes in its words."""
        return {
            "nodes": self.cluster.nodes,
            "existing": [dict(each) for each in existing],
            "hardwaretype": self.hardwaretype,
            "imagetype": self.imagetype,
        }

    def _present(self, groups: Sequence[Sequence[str]]) -> list[list[str]]:
        found = [[name for name in group if name in self.services] for group in groups]
        return [group for group in found if len(group) > 1]

    def _whole(self, groups: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the groups that are on the cluster as a whole: no node can have all of others."""
        return [list(group) for group in groups if set(self.services).issuperset(group)]


def resolve(catalog: Catalog, cluster: Cluster) -> Resolved:
    """Return a cluster with all that its template says.

    ModelError with all problems: services that are not allowed, or require what is not on the
    cluster; types that the provider does not know. `cluster` is of `catalog.clusters`, so that
    names, size and locks have been checked: for a request that is not in the site, read the
    catalog with it among the `clusters`.
    """
    template = catalog.templates[cluster.template]
    services = template.defaults.services if cluster.services is None else cluster.services
    provider = cluster.provider or template.defaults.provider
    hardware = cluster.hardwaretype or template.defaults.hardwaretype
    image = cluster.imagetype or template.defaults.imagetype
    allowed = template.compatibility
    machines = _known_to(provider, catalog.hardwaretypes)
    systems = _known_to(provider, catalog.imagetypes)
    needs = {name: _needs(catalog, catalog.services[name], services) for name in services}
    problems = [
        *_service_problems(catalog, cluster, services, needs),
        *_provider_problems(cluster, provider),
        *_type_problems(cluster, "hardware type", hardware, machines, allowed.hardwaretypes),
        *_type_problems(cluster, "image type", image, systems, allowed.imagetypes),
    ]
    if problems or provider is None:
        raise ModelError(problems)
    return Resolved(
        cluster=cluster,
        template=template,
        provider=catalog.providers[provider],
        services=tuple(sorted(services)),
        hardwaretype=hardware,
        imagetype=image,
        hardwaretypes=_allowed(machines, allowed.hardwaretypes),
        imagetypes=_allowed(systems, allowed.imagetypes),
        config=merged(template.defaults.config, cluster.config),
        needs=needs,
        conflicts=tuple(sorted(_conflicts(catalog, services))),
    )


def _known_to(
    provider: str | None, types: Mapping[str, HardwareType | ImageType]
) -> tuple[str, ...]:
    """Return the types that a provider knows; one that names no provider is known to all."""
    return tuple(name for name, it in types.items() if not it.providers or provider in it.providers)


def _allowed(names: Sequence[str], allowed: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if not allowed or name in allowed))


def _standing_for(
    catalog: Catalog, names: Sequence[str], services: Sequence[str]
) -> tuple[str, ...]:
    """Return the services of the cluster that are, or provide, one of `names`."""
    found = [each for name in names for each in catalog.providers_of(name) if each in services]
    return tuple(dict.fromkeys(found))


def _needs(catalog: Catalog, service: Service, services: Sequence[str]) -> ServiceNeeds:
    def others(*names: str) -> tuple[str, ...]:
        found = _standing_for(catalog, names, services)
        return tuple(name for name in found if name != service.name)

    return ServiceNeeds(
        install=others(*service.install_requires, *service.install_uses),
        runtime=others(*service.runtime_requires, *service.runtime_uses),
        binding=others(*service.runtime_requires),
    )


def _conflicts(catalog: Catalog, services: Sequence[str]) -> set[tuple[str, str]]:
    found = set()
    for name in services:
        for other in _standing_for(catalog, catalog.services[name].conflicts, services):
            if other != name:
                found.add((min(name, other), max(name, other)))
    return found


def _service_problems(
    catalog: Catalog,
    cluster: Cluster,
    services: Sequence[str],
    needs: Mapping[str, ServiceNeeds],
) -> Iterator[Problem]:
    path = ("clusters", cluster.name, "services")
    if not services:
        yield path, f"`{cluster.name}` has no services", "name some; its template has none"
    allowed = catalog.templates[cluster.template].compatibility.services
    for place, name in enumerate(services):
        if allowed and name not in allowed:
            message = f"the template `{cluster.template}` does not allow the service `{name}`"
            yield (*path, place), message, f"it allows {', '.join(sorted(allowed))}"
        for required in catalog.services[name].requires:
            if not _standing_for(catalog, [required], services):
                message = f"`{name}` requires `{required}`, which is not on the cluster"
                known = " or ".join(f"`{each}`" for each in catalog.providers_of(required))
                yield (*path, place), message, f"add {known} to the services"
    for phase in ("install", "runtime"):
        edges = {name: getattr(needs[name], phase) for name in services}
        circle = circle_in(edges)
        if circle:
            message = f"services need each other in a circle ({phase}): {' -> '.join(circle)}"
            yield path, message, "leave one of them out"


def _provider_problems(cluster: Cluster, provider: str | None) -> Iterator[Problem]:
    if provider is None:
        message = f"`{cluster.name}` has no provider, and its template names none"
        yield ("clusters", cluster.name, "provider"), message, "as in `provider: lab`"


def _type_problems(
    cluster: Cluster, kind: str, wanted: str | None, known: Sequence[str], allowed: Sequence[str]
) -> Iterator[Problem]:
    """Yield why there is no type at all; that a known one is not allowed, a solver says."""
    path = ("clusters", cluster.name, kind.replace(" ", ""))
    if wanted is not None and wanted not in known:
        message = f"the provider of `{cluster.name}` does not know the {kind} `{wanted}`"
        yield path, message, f"it knows {', '.join(known) or 'none'}"
    elif not _allowed(known, allowed):
        message = f"`{cluster.name}` can have no {kind}: its provider knows none that is allowed"
        yield path, message, f"the provider knows {', '.join(known) or 'none'}"
