"""From the section `pools` and what was decided to objects: the members of services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb.errors import CobwebError, ModelError
from cobweb.model import Decided, Decision, Expansion
from cobweb.plugin import ExpandContext
from cobweb_plugins.pools._adapters import (
    POINT,
    Adapters,
    AdapterService,
    Membership,
    ServiceAdapter,
    broken,
    setting_problems,
)
from cobweb_plugins.pools._holdings import SERVICES, Book, book_of

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Pools, Resource

NAME = "pools"
POLICY_POINT = "pool_policy"

Problem = tuple[tuple[str | int, ...], str, str]


def expand_pools(sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
    """Return the objects of all members; ModelError with all that is wrong."""
    section = sections[NAME]
    files = adapter_files(section, context.site_dir, context.read)
    layout = layout_of(section, Adapters(context.extensions_at(POINT), files))
    policy, known = layout.pools.policy, context.extensions_at(POLICY_POINT)
    if policy not in known:
        hint = f"known are {', '.join(sorted(known))}"
        raise ModelError([((NAME, "policy"), f"there is no policy `{policy}`", hint)])
    return _expansion(layout, context.decisions)


class Layout:
    """What a section says, with the adapter of each service."""

    def __init__(self, pools: Pools, section: Mapping[str, Any], adapters: Adapters) -> None:
        self.pools = pools
        self._section = section
        self._adapters = adapters

    def adapter(self, service: str) -> ServiceAdapter:
        """Return the adapter of a service."""
        return self._adapters[self.pools.services[service].adapter]

    def settings(self, name: str) -> dict[str, Any]:
        """Return what the section says of a service to its adapter: `on` and `with`."""
        return settings_of(self._section["services"][name])

    def service(self, name: str, known: Mapping[str, Any] | None = None) -> AdapterService:
        """Return a service as its adapter sees it, now or by the settings that are `known`."""
        said = self.settings(name) if known is None else known
        return AdapterService(name=name, host=said.get("on", ""), settings=said.get("with", {}))

    def expand(self, service: AdapterService, members: list[Membership]) -> Expansion:
        """Return what the adapter of a service makes of its members."""
        adapter = self.adapter(service.name)
        try:
            return adapter.expand(service, members)
        except CobwebError:
            raise
        except Exception as error:
            name = self.pools.services[service.name].adapter
            raise broken(name, f"failed at `expand`: {error!r}") from error

    def object_hosts(self, service: AdapterService, resource: Resource) -> dict[str, str]:
        """Return the host of each object that a resource has in a service, by its name."""
        name = member_name(service.name, resource.id)
        member = Membership(resource=resource, name=name, want="down")
        cobs = self.expand(service, [member]).cobs
        return {it: str(_plain(cobs[it])["on"]) for it in (name, member.entry) if it in cobs}


def settings_of(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the body of a service says to its adapter: `on` and `with`."""
    return {key: service[key] for key in ("on", "with") if key in service}


def member_name(service: str, resource: str) -> str:
    """Return what the object of a resource in a service is called."""
    return f"pool-{service}-{resource}"


def adapter_files(section: Mapping[str, Any], folder: Path, read: Any) -> Any:
    """Return path and text of each adapter that is a file of the site, by its name."""
    found = {}
    for name, file in section.get("adapters", {}).items():
        text = read(file)
        if text is None:
            problem = ((NAME, "adapters", name), f"there is no file {file}", "")
            raise ModelError([problem])
        found[name] = (folder / file, text)
    return found


def layout_of(section: Mapping[str, Any], adapters: Adapters) -> Layout:
    """Return what a section says; ModelError with all that is wrong."""
    from cobweb_plugins.pools.decision import pools_of

    bodies = (section.get("resources") or {}).values()
    types = frozenset((body or {}).get("type", "host") for body in bodies)
    problems: list[Problem] = []
    for name, body in section["services"].items():
        if body["adapter"] in adapters.names():
            problems += _service_problems(name, body, adapters[body["adapter"]])
    pools = None
    try:
        used = {body["adapter"] for body in section["services"].values()}
        pools = pools_of(section, adapters.facts(types, used))
    except ModelError as error:
        problems += error.problems
    if problems or pools is None:
        raise ModelError([((NAME, *keys), message, hint) for keys, message, hint in problems])
    return Layout(pools, section, adapters)


def _service_problems(
    name: str, body: Mapping[str, Any], adapter: ServiceAdapter
) -> Iterator[Problem]:
    keys = ("services", name)
    if not adapter.direct and "on" not in body:
        message = f"service `{name}` lacks `on`, the host that it is on itself"
        yield keys, message, "as in `on: master1`"
    for more, message, hint in setting_problems(adapter, body.get("with", {})):
        yield (*keys, "with", *more), f"`with` of service `{name}`: {message}", hint


def _expansion(layout: Layout, decisions: Mapping[str, Decision]) -> Expansion:
    """Return the objects of all members, which follow from what was decided."""
    problems: list[Problem] = []
    # Those of one service that have joined by other settings are asked for apart.
    members: dict[str, tuple[AdapterService, list[tuple[Membership, Decision]]]] = {}
    releases: list[str] = []
    for key, decision in sorted(decisions.items()):
        found = list(_decision_problems(layout.pools, decision))
        problems += found
        if found or key.startswith(SERVICES) or key not in layout.pools.resources:
            continue
        book, resource = book_of(decision.body), layout.pools.resources[key]
        for service, member in _memberships(layout, resource, book):
            members.setdefault(repr(service), (service, []))[1].append((member, decision))
        releases += _released(layout, resource, book)
    if problems:
        raise ModelError(problems)
    cobs: dict[str, Any] = {}
    inventory, limits, types = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for service, pairs in members.values():
        made = layout.expand(service, [member for member, _ in pairs])
        by_name = {name: it for it in pairs for name in (it[0].name, it[0].entry)}
        if doubled := sorted(cobs.keys() & made.cobs.keys()):
            message = f"two members have the object `{doubled[0]}`"
            raise ModelError([((NAME, "services", service.name), message, "rename the service")])
        cobs |= {name: it for name, it in made.cobs.items() if name not in by_name}
        for name in by_name.keys() & made.cobs.keys():
            member, decision = by_name[name]
            cob = _object(member, name, made.cobs)
            if not (member.is_lost and cob["on"] == member.resource.id):
                cobs[name] = Decided(cob, decision)
        inventory |= made.inventory
        limits |= made.limits
        types |= made.types
    return Expansion(cobs=cobs, inventory=inventory, limits=limits, types=types, releases=releases)


def _released(layout: Layout, resource: Resource, book: Book) -> Iterator[str]:
    """Yield the objects that a resource may have in services which do not have it by decision."""
    holding, key = book.holding, resource.id
    stays = holding.service if holding and holding.phase != "failed" else None
    for name in dict.fromkeys([*layout.pools.services, *book.was]):
        service = layout.pools.services.get(name)
        if name == stays or (service and (service.direct or resource.type not in service.holds)):
            continue
        member = member_name(name, key)
        yield f"{key}/{member}"
        known = book.settings.get(name) or (layout.settings(name) if service else {})
        if on := known.get("on"):
            yield from (f"{on}/{member}", f"{on}/{member}-entry")


def _object(member: Membership, name: str, cobs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object of a member, or its entry, which goes only after that."""
    cob = _plain(cobs[name])
    if member.want != "down":
        return cob
    needs = list(cob.get("needs", ()))
    if name == member.entry and not member.is_lost:
        host = _plain(cobs[member.name])["on"]
        needs.append({"when": "* -> down", "cob": member.name, "on": host, "state": "down"})
    # Others join on the strength of this: it is looked at again before they do.
    return {**cob, "needs": needs, "trust": 0}


def _plain(cob: Any) -> Mapping[str, Any]:
    value: Mapping[str, Any] = cob.value if isinstance(cob, Decided) else cob
    return value


def _memberships(
    layout: Layout, resource: Resource, book: Book
) -> Iterator[tuple[AdapterService, Membership]]:
    """Yield the services that a resource has objects of, with what these are to be."""
    services, holding = layout.pools.services, book.holding
    left = [it for it in book.was if it in services and not layout.adapter(it).direct]
    needs: list[Mapping[str, Any]] = []
    for each in left:
        name = member_name(each, resource.id)
        service = layout.service(each, book.settings.get(each))
        objects = layout.object_hosts(service, resource)
        last = max(objects, key=len)  # the entry, where there is one
        needs.append({"when": "* -> up", "cob": last, "on": objects[last], "state": "down"})
        member = Membership(resource=resource, name=name, want="down", is_lost=book.lost)
        yield service, member
    if holding is not None and not book.lost and not layout.adapter(holding.service).direct:
        want = {"in": "up", "leaving": "draining", "failed": "down"}[holding.phase]
        name = member_name(holding.service, resource.id)
        service = layout.service(holding.service, book.settings.get(holding.service))
        yield service, Membership(resource=resource, name=name, want=want, needs=tuple(needs))


def _is_at_rest(pools: Pools, body: Any) -> bool:
    """Say whether a resource is nobody's, or spare: a site may drop it then."""
    if not isinstance(body, Mapping) or "service" not in body or body.get("was"):
        return False
    service = pools.services.get(body["service"])
    return body["service"] is None or (service is not None and service.direct)


def _decision_problems(pools: Pools, decision: Decision) -> Iterator[Problem]:
    """Yield why a decision cannot hold in the section as it is."""
    key, take_back = decision.key, f"or `cobweb decide {NAME} {decision.key} null`"
    if key.startswith(SERVICES):
        if key.removeprefix(SERVICES) not in pools.services:
            yield (NAME, "services"), f"{decision}, and there is no such service", take_back
        elif "stopped" not in decision.body:
            yield (NAME, "services"), f"{decision}, which is about a resource", take_back
        return
    if key not in pools.resources:
        if not _is_at_rest(pools, decision.body):
            yield (NAME, "resources"), f"{decision}, and there is no such resource", take_back
        return
    if not isinstance(decision.body, Mapping) or "service" not in decision.body:
        yield (NAME, "resources"), f"{decision}, which is about a service", take_back
        return
    service = decision.body["service"]
    if service is None:
        return
    if service not in pools.services:
        message = f"{key} is in the service `{service}` ({decision}), which there is not"
        hint = f"write it back, then `cobweb pool stop {service} --free-resources`; {take_back}"
        yield (NAME, "services"), message, hint
    elif pools.resources[key].type not in pools.services[service].holds:
        message = f"{key} is in the service `{service}` ({decision}), which cannot use it"
        yield (NAME, "services", service), message, take_back
