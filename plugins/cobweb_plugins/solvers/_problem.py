"""The question of a layout as a value: which services, on which nodes, under which rules.

The words are those of Coopr's cluster templates. Where its own solver reads them in a way of its
own, this one does the same: the services of a must-coexist set that nobody asked for are left out
of it, must-coexist sets that share a service are one, and a can't-coexist set forbids a node with
all of its services, not one with some of them. Two things are different on purpose: a requested
service is placed at least once unless its minimum says 0, and no service is dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """What a node is: hardware type, image type and its services, sorted by name."""

    hardwaretype: str
    imagetype: str
    services: tuple[str, ...]


Comparator = Callable[[NodeLayout], Any]
"""Gives a layout the key that node layouts are sorted by, the most preferred first.

Keys of different layouts differ, so that the order is total.
"""

Rank = Callable[[str, str], Any]
"""Gives a hardware type and an image type the key by which such pairs are preferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What holds for one service: its hardware and image (None: any), and how many nodes have it.

    The number of nodes is at least `low`, at most `high`, and `base` plus a multiple of `step`.
    """

    hardwaretypes: frozenset[str] | None = None
    imagetypes: frozenset[str] | None = None
    low: int = 1
    high: int
    base: int = 1
    step: int = 1

    def counts(self) -> range:
        """Return the numbers of nodes that may have the service."""
        return range(self.low + (self.base - self.low) % self.step, self.high + 1, self.step)

    def allows(self, hardwaretype: str, imagetype: str) -> bool:
        """Say whether the service may be on a node of these types."""
        fits = self.hardwaretypes is None or hardwaretype in self.hardwaretypes
        return fits and (self.imagetypes is None or imagetype in self.imagetypes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """Nodes that are there and alike, and the services that each of them may gain and lose.

    `entries` are the entries of the constraints that they come from: (index, count), by index.
    """

    entries: tuple[tuple[int, int], ...]
    layout: NodeLayout
    may_gain: frozenset[str]
    may_lose: frozenset[str]

    @property
    def count(self) -> int:
        """How many nodes they are."""
        return sum(count for _, count in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutProblem:
    """Everything that decides a layout of `nodes` nodes.

    `services` are sorted by name and each has a rule. `hardwaretypes` and `imagetypes` are those
    of new nodes. `must` and `cant` have only requested services; `existing` is in the order in
    which existing nodes choose.
    """

    nodes: int
    services: tuple[str, ...]
    hardwaretypes: tuple[str, ...]
    imagetypes: tuple[str, ...]
    rules: Mapping[str, Rule]
    must: tuple[frozenset[str], ...] = ()
    cant: tuple[frozenset[str], ...] = ()
    existing: tuple[Existing, ...] = ()

    @property
    def going(self) -> int:
        """How many of the existing nodes have to go."""
        return max(0, sum(group.count for group in self.existing) - self.nodes)

    @property
    def new(self) -> int:
        """How many nodes are new."""
        return max(0, self.nodes - sum(group.count for group in self.existing))

    def faults(self, layout: NodeLayout) -> Iterator[str]:
        """Yield, in words, what keeps a node from being so."""
        services = frozenset(layout.services)
        if not services:
            yield "a node has no service"
        for service in layout.services:
            rule = self.rules.get(service)
            if rule is None:
                yield f"{service} is not requested"
            elif not rule.allows(layout.hardwaretype, layout.imagetype):
                yield f"{service} can't be on {layout.hardwaretype} with {layout.imagetype}"
        for together in self.must:
            if services & together and not together <= services:
                yield f"{_list(together & services)} must be with {_list(together - services)}"
        for apart in self.cant:
            if apart <= services:
                yield f"{_list(apart)} can't be on one node"


def by_rank(rank: Rank) -> Comparator:
    """Return Coopr's order: more services first, then hardware and image, then services by name."""

    def key(layout: NodeLayout) -> tuple[int, Any, tuple[str, ...]]:
        return (-len(layout.services), rank(layout.hardwaretype, layout.imagetype), layout.services)

    return key


def order_of_outcome(group: Existing, comparator: Comparator) -> Comparator:
    """Return the order of what nodes of a group may become.

    More services come first, then fewer changes, then what the comparator prefers.
    """
    before = frozenset(group.layout.services)

    def key(layout: NodeLayout) -> tuple[int, int, Any]:
        changes = len(before ^ frozenset(layout.services))
        return (-len(layout.services), changes, comparator(layout))

    return key


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
