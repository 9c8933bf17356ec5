"""A layout as the protocol has it, and what is wrong with one, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cobweb_plugins.solvers._problem import LayoutProblem, NodeLayout

Assignment = Sequence[Sequence[tuple[NodeLayout, int]]]
"""Per group of existing nodes, in the problem's order, then for the new nodes: layouts and how
many nodes have each, the most preferred first. Existing nodes that go are in none.
"""


def answer(problem: LayoutProblem, assignment: Assignment) -> dict[str, Any]:
    """Return the layout: what becomes of each existing entry, in their order, then new nodes.

    Of nodes that are alike the first get the most preferred layout, and the last go.
    """
    existing: list[tuple[int, NodeLayout, int]] = []
    for group, outcomes in zip(problem.existing, assignment, strict=False):
        existing += _shared_out(group.entries, outcomes)
    existing.sort(key=lambda part: part[0])  # stable: outcomes of one entry keep their order
    nodes = [_node(layout, count) | {"existing": index} for index, layout, count in existing]
    nodes += [_node(layout, count) for layout, count in assignment[len(problem.existing)]]
    return {"nodes": nodes}


def violations(problem: LayoutProblem, layout: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with a layout of the protocol; () if it answers the problem."""
    found = [*_wrong_nodes(problem, layout["nodes"]), *_wrong_existing(problem, layout["nodes"])]
    counts: Counter[str] = Counter()
    for node in layout["nodes"]:
        counts.update(dict.fromkeys(node["services"], node["count"]))
    total = sum(node["count"] for node in layout["nodes"])
    if total != problem.nodes:
        found.append(f"the layout has {total} nodes, not {problem.nodes}")
    for service, rule in problem.rules.items():
        if counts[service] not in rule.counts():
            found.append(f"{service} is on {counts[service]} nodes, not on {_range(rule.counts())}")
    return tuple(found)


def _shared_out(
    entries: Sequence[tuple[int, int]], outcomes: Sequence[tuple[NodeLayout, int]]
) -> Iterator[tuple[int, NodeLayout, int]]:
    """Give outcomes to the nodes of entries, both in their order."""
    room = [[index, count] for index, count in entries]
    for layout, count in outcomes:
        left = count
        while left:
            index, free = room[0]
            taken = min(left, free)
            yield index, layout, taken
            left -= taken
            room[0][1] -= taken
            if not room[0][1]:
                room.pop(0)


def _node(layout: NodeLayout, count: int) -> dict[str, Any]:
    return {
        "count": count,
        "hardwaretype": layout.hardwaretype,
        "imagetype": layout.imagetype,
        "services": list(layout.services),
    }


def _wrong_nodes(problem: LayoutProblem, nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for node in nodes:
        layout = _layout(node)
        for fault in problem.faults(layout):
            yield f"{layout.hardwaretype}/{layout.imagetype}/{node['services']}: {fault}"
        if "existing" not in node and layout.hardwaretype not in problem.hardwaretypes:
            yield f"a new node has the hardware type {layout.hardwaretype}"
        if "existing" not in node and layout.imagetype not in problem.imagetypes:
            yield f"a new node has the image type {layout.imagetype}"


def _wrong_existing(problem: LayoutProblem, nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    kept: Counter[int] = Counter()
    groups = {index: group for group in problem.existing for index, _ in group.entries}
    for node in nodes:
        index = node.get("existing")
        if index is None:
            continue
        kept[index] += node["count"]
        group, layout = groups[index], _layout(node)
        before, after = set(group.layout.services), set(layout.services)
        same = (layout.hardwaretype, layout.imagetype)
        if same != (group.layout.hardwaretype, group.layout.imagetype):
            yield f"existing node {index} changes its hardware or image"
        if not after - before <= group.may_gain or not before - after <= group.may_lose:
            yield f"existing node {index} has {sorted(after)} in place of {sorted(before)}"
    counts = {index: count for group in problem.existing for index, count in group.entries}
    for index, count in sorted(counts.items()):
        if kept[index] > count:
            yield f"there are {kept[index]} of {count} existing nodes {index}"
    if problem.new and kept.total() < sum(counts.values()):
        yield "nodes go and others come"


def _layout(node: Mapping[str, Any]) -> NodeLayout:
    return NodeLayout(
        hardwaretype=node["hardwaretype"],
        imagetype=node["imagetype"],
        services=tuple(node["services"]),
    )


def _range(counts: range) -> str:
    if not counts:
        return "any number"
    step = f" by {counts.step}" if counts.step > 1 else ""
    return f"{counts[0]} to {counts[-1]}{step}"
