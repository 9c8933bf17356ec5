"""Ansible's precedence of variables, from the weakest to the strongest.

`vars` of `all`, `vars` of other groups (by depth, `ansible_group_priority`, name), group_vars/all
beside the inventory, then beside the site, group_vars of other groups likewise; then a host's own
in the inventory, host_vars beside the inventory, host_vars beside the site. A stronger value
replaces a weaker one whole. What hosts of the same groups share is merged once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cobweb._lazy import Lazy
from cobweb.errors import Place
from cobweb.model import Host
from cobweb.site.hosts._connection import check_variables
from cobweb.site.hosts._hosts import ALL, Inventory
from cobweb.site.reading._files import Files, Member
from cobweb.site.reading._nodes import Node, plain
from cobweb.site.reading._settings import as_map
from cobweb.site.reading._yaml import ALL_KEYS


class Variables:
    """The variables of hosts as nodes; nothing is templated here."""

    def __init__(self, inventory: Inventory, folders: Sequence[Path], files: Files) -> None:
        self._inventory = inventory
        self._group_files = [VarFiles(folder / "group_vars", files) for folder in folders]
        self._host_files = [VarFiles(folder / "host_vars", files) for folder in folders]
        self._shared: dict[tuple[str, ...], Mapping[str, Node]] = {}
        self._own: dict[str, Mapping[str, Node]] = {}

    def read_groups(self) -> None:
        """Read group_vars, so that mistakes in them are found."""
        for name in self._inventory.groups:
            for files in self._group_files:
                files.get(name)

    def read_all(self) -> None:
        """Read every file of variables, so that all mistakes in them are found."""
        self.read_groups()
        for name in self._inventory.hosts:
            for files in self._host_files:
                files.get(name)

    def shared(self, groups: tuple[str, ...]) -> Mapping[str, Node]:
        """Return what the groups give to a host; `groups` from the weakest."""
        if groups not in self._shared:
            merged: dict[str, Node] = {}
            for layer in self._group_layers(groups):
                merged.update(layer)
            self._shared[groups] = merged
        return self._shared[groups]

    def of(self, host: str) -> tuple[Mapping[str, Node], Mapping[str, Node]]:
        """Return the host's own variables and those it has from its groups."""
        if host not in self._own:
            layers = [layer for layer in self._host_layers(host) if layer]
            merged = layers[0] if layers else {}
            if len(layers) > 1:
                merged = {key: value for layer in layers for key, value in layer.items()}
            self._own[host] = merged
        return self._own[host], self.shared(self._inventory.groups_of(host))

    def definitions(self, host: str, name: str) -> list[Node]:
        """Return all definitions of a variable for a host, the one that counts first."""
        layers = [*self._group_layers(self._inventory.groups_of(host)), *self._host_layers(host)]
        return [layer[name] for layer in reversed(layers) if name in layer]

    def _group_layers(self, groups: tuple[str, ...]) -> Iterator[Mapping[str, Node]]:
        for name in groups:
            yield self._inventory.groups[name].variables
        for files in self._group_files:
            yield files.get(ALL)
        for files in self._group_files:
            for name in groups:
                if name != ALL:
                    yield files.get(name)

    def _host_layers(self, host: str) -> Iterator[Mapping[str, Node]]:
        yield self._inventory.hosts[host].variables
        for files in self._host_files:
            yield files.get(host)


class Hosts(Lazy[str, Host]):
    """The hosts of a site in the inventory's order, each made when it is asked for."""

    def __init__(self, inventory: Inventory, variables: Variables) -> None:
        super().__init__(inventory.hosts, cache(self._host))
        self._inventory = inventory
        self._variables = variables

    def _host(self, name: str) -> Host:
        own, shared = self._variables.of(name)
        values: dict[str, Any] = {key: plain(node) for key, node in shared.items()}
        values.update((key, plain(node)) for key, node in own.items())
        groups = tuple(sorted(set(self._inventory.groups_of(name)) - {ALL}))
        source = self._inventory.hosts[name].place.file
        return Host(name=name, groups=groups, variables=values, source=source)


_SUFFIXES = ("", ".yml", ".yaml", ".json")
_NOTHING: Mapping[str, Node] = {}


class VarFiles:
    """The variables of one folder `group_vars` or `host_vars`, read when they are asked for."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._files = files
        self._entries: dict[str, list[Member]] = {}
        self._variables = cache(self._load)
        for member in files.members(folder):
            self._note(member)

    def get(self, name: str) -> Mapping[str, Node]:
        """Return the variables of one group or host."""
        return self._variables(name) if name in self._entries else _NOTHING

    def _note(self, member: Member) -> None:
        """File a path under its name: without suffix, and for a host with dots as it is, too."""
        path = member.path
        if path.name.startswith(".") or path.name.endswith("~"):
            return
        self._entries.setdefault(path.name, []).append(member)
        if path.suffix in _SUFFIXES[1:] and member.is_file:
            self._entries.setdefault(path.stem, []).append(member)

    def _load(self, name: str) -> Mapping[str, Node]:
        candidates = self._entries[name]
        found = sorted(candidates, key=lambda each: _SUFFIXES.index(each.path.name[len(name) :]))
        if len(found) > 1:
            names = [self._files.name(each.path) for each in found]
            place, hint = Place(file=names[1]), f"put all into {names[0]}"
            self._files.findings.add(place, f"Ansible reads `{names[0]}` and not this file", hint)
        variables: dict[str, Node] = {}
        for path in _files_of(self._files, found[0]):
            read = self._files.read(path, ansible=ALL_KEYS, unvault=True)
            node = as_map(read, "a file of variables", self._files.findings)
            if node is not None:
                check_variables(node, self._files.findings)
                variables.update(node.items)
        return variables


def _files_of(files: Files, source: Member) -> list[Path]:
    """Return the files of a folder of variables as Ansible takes them: sorted, none hidden."""
    if source.is_file:
        return [source.path]
    found: list[Path] = []
    for member in files.members(source.path):
        path = member.path
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if member.is_dir and not path.suffix:
            found += _files_of(files, member)
        elif member.is_file and path.suffix in _SUFFIXES:
            found.append(path)
    return found
