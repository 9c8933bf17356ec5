"""Merge modules as Nix does (lib/modules.nix): by key, by concatenation, or by priority.

Of the definitions of one value only those with the highest priority count. If several are left,
mappings merge by key, lists are joined in the order of the modules, and scalars must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cobweb.errors import Place
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Map, Node, Seq, kind, plain


def merge(nodes: Sequence[Node], findings: Findings, name: str = "") -> Node:
    """Return one value from its definitions (at least one), in the order of the modules.

    `name` is the path of the value in messages. On a conflict the first definition is kept.
    """
    highest = max(node.priority for node in nodes)
    chosen = [node for node in nodes if node.priority == highest]
    pushed = [node.place for node in nodes if node.priority != highest]
    pushed += [place for node in nodes for place in node.over]
    merged = chosen[0] if len(chosen) == 1 else _join(chosen, findings, name)
    return replace(merged, over=tuple(dict.fromkeys(pushed))) if pushed else merged


def _join(nodes: Sequence[Node], findings: Findings, name: str) -> Node:
    first = nodes[0]
    maps = [node for node in nodes if isinstance(node, Map)]
    if len(maps) == len(nodes):
        return _join_maps(maps, findings, name)
    lists = [node for node in nodes if isinstance(node, Seq)]
    if len(lists) == len(nodes):
        items = tuple(item for node in lists for item in node.items)
        return replace(lists[0], items=items)
    for other in nodes[1:]:
        if not _same(first, other):
            _conflict(first, other, findings, name)
    return first


def _join_maps(maps: Sequence[Map], findings: Findings, name: str) -> Map:
    found: dict[str, list[Node]] = {}
    keys: dict[str, Place] = {}
    for node in maps:
        for key, value in node.items.items():
            found.setdefault(key, []).append(value)
            keys.setdefault(key, node.keys.get(key, node.place))
    items = {
        key: values[0] if len(values) == 1 else merge(values, findings, f"{name}.{key}".strip("."))
        for key, values in found.items()
    }
    return replace(maps[0], items=items, keys=keys)


def _same(one: Node, other: Node) -> bool:
    if not (isinstance(one, Leaf) and isinstance(other, Leaf)):
        return False
    return type(one.value) is type(other.value) and plain(one) == plain(other)


def _conflict(one: Node, other: Node, findings: Findings, name: str) -> None:
    what = "another value" if kind(one) == kind(other) else f"{kind(one)}, not {kind(other)},"
    findings.add(
        other.place,
        f"`{name}` has {what} at {one.place}",
        "keep one of them, or mark one with `!default` or `!force`",
    )
