"""The hosts and groups of an inventory, as Ansible understands them.

Order: a group's hosts are its own, then those of its children, breadth first. `all` holds every
host, `ungrouped` those that are in no other group. A group's depth is the longest way down from
`all`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cobweb.errors import Place
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Node

ALL = "all"
UNGROUPED = "ungrouped"


@dataclass(slots=True, kw_only=True)
class Group:
    """A group while the inventory is read; `variables` are those written in the inventory."""

    place: Place
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    variables: dict[str, Node] = field(default_factory=dict)

    @property
    def priority(self) -> int:
        """Ansible's `ansible_group_priority`: the higher wins among groups of one depth."""
        value = self.variables.get("ansible_group_priority")
        return value.value if isinstance(value, Leaf) and isinstance(value.value, int) else 1

    def put_first(self, hosts: Iterable[str]) -> None:
        """Have these hosts before all that it has by now."""
        self.hosts = dict.fromkeys([*hosts, *self.hosts])


@dataclass(slots=True, kw_only=True)
class HostEntry:
    """A host while the inventory is read; `variables` are those written in the inventory itself."""

    place: Place
    variables: dict[str, Node] = field(default_factory=dict)


class Inventory:
    """Tables of hosts and groups; `close` completes them, after which nothing is added."""

    def __init__(self, place: Place) -> None:
        self.hosts: dict[str, HostEntry] = {}
        self.groups: dict[str, Group] = {}
        self.add_group(ALL, place)
        self.add_group(UNGROUPED, place)
        self.groups[ALL].children[UNGROUPED] = None
        self._members: dict[str, tuple[str, ...]] = {}
        self._groups_of: dict[str, tuple[str, ...]] = {}

    def add_group(self, name: str, place: Place) -> Group:
        """Return the group, made if it is new."""
        return self.groups.setdefault(name, Group(place=place))

    def add_host(self, name: str, group: str, place: Place) -> HostEntry:
        """Return the host, made if it is new, as a member of `group`."""
        self.groups[group].hosts[name] = None
        return self.hosts.setdefault(name, HostEntry(place=place))

    def close(self, findings: Findings) -> None:
        """Work out depth and membership; circles of groups are findings and are cut."""
        done: dict[str, None] = {}
        for name in self.groups:
            self._walk(name, done, findings)
        self._adopt()
        depth = self._depths(findings)
        member_of: dict[str, dict[str, None]] = {name: {} for name in self.hosts}
        for name in self.groups:
            self._members[name] = self._collect(name)
            for host in self._members[name]:
                member_of[host][name] = None
        rank = {name: (depth[name], it.priority, name) for name, it in self.groups.items()}
        shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        for host, names in member_of.items():
            key = tuple(names)
            if key not in shared:
                shared[key] = tuple(sorted(key, key=rank.__getitem__))
            self._groups_of[host] = shared[key]

    def members(self, group: str) -> tuple[str, ...]:
        """Return the hosts of a group and of its descendants, in the inventory's order."""
        return self._members[group]

    def groups_of(self, host: str) -> tuple[str, ...]:
        """Return the groups of a host from the weakest (`all`) to the strongest."""
        return self._groups_of[host]

    def _adopt(self) -> None:
        """Put groups without a parent under `all`, and hosts without a group into `ungrouped`."""
        children = {child for group in self.groups.values() for child in group.children}
        for name in self.groups:
            if name != ALL and name not in children:
                self.groups[ALL].children[name] = None
        others = (group for name, group in self.groups.items() if name not in (ALL, UNGROUPED))
        grouped = {host for group in others for host in group.hosts}
        ungrouped = self.groups[UNGROUPED]
        hosts = dict.fromkeys([*ungrouped.hosts, *self.hosts])
        ungrouped.hosts = {host: None for host in hosts if host not in grouped}

    def _walk(self, top: str, done: dict[str, None], findings: Findings) -> None:
        """Add a group and those below it to `done`, children first; a loop, for depth has no limit.

        A child that is further up the way is cut off.
        """
        way = {} if top in done else {top: iter(list(self.groups[top].children))}
        while way:
            name = next(reversed(way))
            child = next(way[name], None)
            if child is None:
                done[name] = None
                del way[name]
            elif child in way:
                ring = [*way, child]
                shown = " -> ".join(ring[ring.index(child) :])
                hint = "leave one of the children out"
                findings.add(self.groups[child].place, f"groups go in a circle: {shown}", hint)
                del self.groups[name].children[child]
            elif child not in done:
                way[child] = iter(list(self.groups[child].children))

    def _depths(self, findings: Findings) -> dict[str, int]:
        """Return the longest way down from `all` to each group, each looked at once."""
        children_first: dict[str, None] = {}
        self._walk(ALL, children_first, findings)
        depth = dict.fromkeys(self.groups, 0)
        for name in reversed(children_first):
            for child in self.groups[name].children:
                depth[child] = max(depth[child], depth[name] + 1)
        return depth

    def _collect(self, name: str) -> tuple[str, ...]:
        order = {name: None}
        level = [name]
        while level:
            below = [child for group in level for child in self.groups[group].children]
            level = [child for child in dict.fromkeys(below) if child not in order]
            order.update(dict.fromkeys(level))
        return tuple(dict.fromkeys(host for group in order for host in self.groups[group].hosts))
