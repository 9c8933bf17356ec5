"""Values that know where they were written: what the YAML reader makes and modules are merged from.

A `Leaf` holds one scalar, a `Seq` a list, a `Map` a mapping with text keys. A vaulted value is a
leaf whose value is `{"__ansible_vault": text}`: it passes through everything untouched. A text that
is never a template is `{"__ansible_unsafe": text}`, until a spec or a template uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from cobweb.errors import Place
from cobweb.model import Decided

VAULT_KEY = "__ansible_vault"
"""The only key of a vaulted value's mark; its value is the ciphertext."""

UNSAFE_KEY = "__ansible_unsafe"
"""The only key of the mark of a text that is no template; its value is the text."""


class Priority(IntEnum):
    """How strongly a value was written: `!default`, plain, or `!force`."""

    DEFAULT = 0
    NORMAL = 1
    FORCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One scalar: text, int, float, bool, None, or a mark of Ansible's."""

    value: Any
    place: Place
    priority: Priority = Priority.NORMAL
    over: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq:
    """A list; `over` are the places of the definitions that this one has pushed aside."""

    items: tuple[Node, ...]
    place: Place
    priority: Priority = Priority.NORMAL
    over: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """A mapping in the order of writing; `keys` are the places of its keys."""

    items: Mapping[str, Node]
    keys: Mapping[str, Place] = field(default_factory=dict)
    place: Place
    priority: Priority = Priority.NORMAL
    over: tuple[Place, ...] = ()


Node = Leaf | Seq | Map


def plain(node: Node) -> Any:
    """Return a node as plain data: dicts, lists and scalars."""
    if isinstance(node, Leaf):
        return node.value
    if isinstance(node, Seq):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, value in node.items.items()}


def lift(value: object, place: Place) -> Node:
    """Return plain data as a node, all of it at one place but for what was decided."""
    if isinstance(value, Decided):
        return lift(value.value, value.decision.place)
    if isinstance(value, Mapping) and not (len(value) == 1 and _MARKS & value.keys()):
        return Map(items={str(key): lift(item, place) for key, item in value.items()}, place=place)
    if isinstance(value, list | tuple):
        return Seq(items=tuple(lift(item, place) for item in value), place=place)
    return Leaf(value=value, place=place)


def unmarked(value: Any) -> Any:
    """Return plain data with the texts that are no templates as what they are."""
    if isinstance(value, dict):
        if value.keys() == {UNSAFE_KEY}:
            return value[UNSAFE_KEY]
        return {key: unmarked(it) for key, it in value.items()}
    return [unmarked(it) for it in value] if isinstance(value, list) else value


def kind(node: Node) -> str:
    """Return what a node is, in the words of a message."""
    if isinstance(node, Seq):
        return "a list"
    if isinstance(node, Map):
        return "a mapping"
    if node.value is None:
        return "nothing"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(unmarked(node.value)), "a vaulted value")


def at(node: Node, path: Iterator[str | int]) -> Node:
    """Return the deepest node that a path of keys and indices leads to."""
    for part in path:
        if isinstance(node, Map) and part in node.items:
            node = node.items[str(part)]
        elif isinstance(node, Seq) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            break
    return node


def key_place(node: Map, key: str) -> Place:
    """Return the place of a key, or of the mapping where the key has none."""
    return node.keys.get(key, node.place)


def told_apart(value: object) -> tuple[object, ...] | None:
    """Return something hashable that is equal for equal plain values only; None for large ones.

    `1`, `1.0` and `true` are equal to Python and are not the same in a site.
    """
    kind_of = type(value)
    if kind_of in _SCALARS or value is None:
        return (kind_of, value)
    written = repr(value)
    return (kind_of, written) if len(written) <= _SMALL else None


_MARKS = {VAULT_KEY, UNSAFE_KEY}
_SCALARS = (str, int, float, bool)
_SMALL = 1000


def is_vault(value: object) -> bool:
    """Say whether a plain value is the mark of a vaulted one."""
    return isinstance(value, dict) and len(value) == 1 and VAULT_KEY in value


def holds_vault(value: object) -> bool:
    """Say whether a plain value is or contains a vaulted one."""
    if isinstance(value, Mapping):
        return VAULT_KEY in value or any(map(holds_vault, value.values()))
    return isinstance(value, list | tuple | set) and any(map(holds_vault, value))
