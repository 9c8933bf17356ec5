"""The dumb second implementation: every layout of a small cluster, node by node, in order.

It shares no line with the solvers: it reads the plain data of the protocol, writes out all layouts
of all types (also those that the paper narrows away), and takes the first that fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, groupby, product
from math import ceil
from typing import Any

Node = tuple[str, str, tuple[str, ...]]
"""Hardware type, image type, services."""


def brute_force(template: Mapping[str, Any], constraints: Mapping[str, Any]) -> list[Any] | None:
    """Return the most preferred layout as the list of the protocol; None if there is none."""
    nodes, size = constraints["nodes"], template.get("size", {})
    if nodes < size.get("min", 0) or nodes > size.get("max", nodes):
        return None
    services = set(template["services"])
    if any(services.issuperset(pair) for pair in template.get("conflicts", [])):
        return None
    there = _in_order(constraints.get("existing", []))
    options = [_options(template, entry, goes=len(there) > nodes) for _, entry in there]
    new = max(0, nodes - len(there))
    layouts = sorted(_new_nodes(template, constraints), key=_preference)
    for chosen in product(*options):
        if sum(node is not None for node in chosen) + new != nodes:
            continue
        kept = [node for node in chosen if node is not None]
        for added in combinations_with_replacement(layouts, new):
            if _counts_fit(template, [*kept, *added], nodes):
                return [*_existing_part(there, chosen), *_parts(added)]
    return None


def _in_order(existing: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return (index, entry) per existing node, in the order in which they choose."""
    found = [(i, entry) for i, entry in enumerate(existing) for _ in range(entry.get("count", 1))]
    return sorted(
        found,
        key=lambda item: (
            _preference(_node(item[1])),
            sorted(item[1].get("may_gain", [])),
            sorted(item[1].get("may_lose", [])),
            item[0],
        ),
    )


def _options(template: Mapping[str, Any], entry: Mapping[str, Any], *, goes: bool) -> list[Any]:
    hardware, image, before = _node(entry)
    found = []
    for services in _subsets(template["services"]):
        gained, lost = set(services) - set(before), set(before) - set(services)
        allowed = gained <= set(entry.get("may_gain", [])) and lost <= set(
            entry.get("may_lose", [])
        )
        if allowed and _valid(template, (hardware, image, services)):
            found.append((-len(services), len(gained | lost), services))
    options: list[Node | None] = [(hardware, image, services) for *_, services in sorted(found)]
    return [*options, None] if goes else options


def _new_nodes(template: Mapping[str, Any], constraints: Mapping[str, Any]) -> Iterator[Node]:
    for hardware in template["hardwaretypes"]:
        for image in template["imagetypes"]:
            if constraints.get("hardwaretype") not in {None, hardware}:
                continue
            if constraints.get("imagetype") not in {None, image}:
                continue
            for services in _subsets(template["services"]):
                if _valid(template, (hardware, image, services)):
                    yield hardware, image, services


def _valid(template: Mapping[str, Any], node: Node) -> bool:
    hardware, image, services = node
    asked, here = set(template["services"]), set(services)
    for service in services:
        rule = template.get("rules", {}).get(service, {})
        if rule.get("hardwaretypes") and hardware not in rule["hardwaretypes"]:
            return False
        if rule.get("imagetypes") and image not in rule["imagetypes"]:
            return False
    for together in template.get("mustcoexist", []):
        if here & set(together) and not asked & set(together) <= here:
            return False
    return not any(set(apart) <= here for apart in template.get("cantcoexist", []))


def _counts_fit(template: Mapping[str, Any], nodes: Sequence[Node], total: int) -> bool:
    counts = Counter(service for *_, services in nodes for service in services)
    for service in template["services"]:
        rule = template.get("rules", {}).get(service, {})
        least = 1 if rule.get("min") is None else rule["min"]
        most = total if rule.get("max") is None else rule["max"]
        share = ceil(Fraction(str(rule.get("ratio") or 0)) * total)
        count = counts[service]
        if not max(least, share) <= count <= most or (count - least) % (rule.get("step") or 1):
            return False
    return True


def _existing_part(there: Sequence[Any], chosen: Sequence[Node | None]) -> list[Any]:
    """Return what becomes of the entries, in their order."""
    pairs = [
        (index, node) for (index, _), node in zip(there, chosen, strict=True) if node is not None
    ]
    pairs.sort(key=lambda pair: pair[0])
    return [
        _part(node, len(list(same))) | {"existing": index} for (index, node), same in groupby(pairs)
    ]


def _parts(nodes: Sequence[Node]) -> list[Any]:
    return [_part(node, len(list(same))) for node, same in groupby(nodes)]


def _part(node: Node, count: int) -> dict[str, Any]:
    hardware, image, services = node
    return {
        "count": count,
        "hardwaretype": hardware,
        "imagetype": image,
        "services": list(services),
    }


def _node(entry: Mapping[str, Any]) -> Node:
    return entry["hardwaretype"], entry["imagetype"], tuple(sorted(entry.get("services", [])))


def _preference(node: Node) -> Any:
    hardware, image, services = node
    return (-len(services), hardware, image, services)


def _subsets(services: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(1, len(services) + 1):
        yield from combinations(sorted(services), size)
