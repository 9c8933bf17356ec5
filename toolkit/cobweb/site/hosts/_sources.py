"""Read inventory sources: Ansible YAML files, folders of them, inline mappings, adapters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from string import ascii_letters
from typing import TYPE_CHECKING

from cobweb.errors import CobwebError, Place
from cobweb.model import Host
from cobweb.site.hosts._connection import check_variables
from cobweb.site.hosts._hosts import ALL, HostEntry, Inventory
from cobweb.site.reading._files import Files, Member
from cobweb.site.reading._findings import on_a_line
from cobweb.site.reading._nodes import Leaf, Map, Node, Seq, key_place, kind, lift, plain
from cobweb.site.reading._settings import as_map, known_keys
from cobweb.site.reading._yaml import ALL_KEYS

if TYPE_CHECKING:
    from cobweb.plugin import Adapter

_YAML = (".yml", ".yaml", ".json")
_IGNORED = (".orig", ".bak", ".retry", ".cfg", ".md", ".txt", ".pyc", ".swp", ".example")
_VARS_FOLDERS = ("group_vars", "host_vars")
_GROUP_KEYS = ("hosts", "children", "vars")
_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]{0,252}", re.ASCII)
_GROUP_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}", re.ASCII)


class Sources:
    """Fills an inventory from its sources; `folders` are those that may hold group_vars."""

    def __init__(self, files: Files, inventory: Inventory, adapters: Sequence[Adapter]) -> None:
        self._files = files
        self._findings = files.findings
        self._inventory = inventory
        self._adapters = adapters
        self.folders: list[Path] = []
        self._entered: set[Path] = set()
        self._before: list[Path] = []
        self._joining: Adapter | None = None

    def add(self, node: Node) -> None:
        """Read what stands under `inventory` of the site."""
        if isinstance(node, Map):
            self._groups(node)
            return
        for item in node.items if isinstance(node, Seq) else (node,):
            if isinstance(item, Leaf) and isinstance(item.value, str) and item.value:
                self._path(Path(item.value), item.place)
            else:
                message = f"an inventory is a path or a mapping, not {kind(item)}"
                self._findings.add(item.place, message, "write `inventory: hosts.yml`")

    def _path(self, path: Path, place: Place) -> None:
        if self._files.is_dir(path):
            self._folder(path, place)
        elif self._files.is_file(path):
            self._note_folder(path.parent)
            self._file(path, place)
        else:
            what, hint = f"inventory `{self._files.name(path)}`", "paths are relative to their file"
            self._findings.add(place, *self._files.absent(what, path, otherwise=hint))

    def _folder(self, folder: Path, place: Place) -> None:
        resolved = self._files.resolve(folder)
        if resolved in self._entered:
            self._findings.add(place, f"`{self._files.name(folder)}` leads back into its folder")
            return
        self._entered.add(resolved)
        self._note_folder(folder)
        members = _members(self._files, folder)
        if not members:
            self._findings.add(place, f"inventory folder `{self._files.name(folder)}` is empty")
        foreign = [each for each in members if not each.is_dir and each.path.suffix not in _YAML]
        adapter = self._adapter(folder) if foreign else None
        if adapter:
            self._adapted(adapter, folder, place)
            return
        for each in members:
            if each.is_dir:
                self._folder(each.path, place)
            elif self._files.is_file(each.path):
                self._file(each.path, place)
            else:
                self._files.read(each.path)  # which says why it cannot be

    def _file(self, path: Path, place: Place) -> None:
        if path.suffix in _YAML:
            node = self._files.read(
                path, empty_hint="name a group, or leave the file out", ansible=ALL_KEYS
            )
            groups = as_map(node, "an inventory", self._findings)
            if groups is not None and "plugin" not in groups.items:
                self._groups(groups)
                if self._joining is None or self._findings:
                    self._before.append(path)
                else:
                    self._adapted(self._joining, path, place, is_own=True)
            if groups is None or "plugin" not in groups.items:
                return
        if adapter := self._adapter(path):
            self._adapted(adapter, path, place)
            return
        self._findings.add(
            place,
            f"no plugin reads the inventory `{self._files.name(path)}`",
            "Cobweb reads YAML itself; `cobweb plugins` shows the adapters for other sources",
        )

    def _note_folder(self, folder: Path) -> None:
        if folder not in self.folders:
            self.folders.append(folder)

    def _adapter(self, source: Path) -> Adapter | None:
        self._files.foreign = True
        return next((adapter for adapter in self._adapters if adapter.reads(source)), None)

    def _adapted(
        self, adapter: Adapter, source: Path, place: Place, *, is_own: bool = False
    ) -> None:
        """Read a source by an adapter, or learn what one that was read here brings about.

        An INI file has groups and their variables, and YAML after it their hosts, or other values.
        """
        joins = getattr(adapter, "hosts_after", None)
        try:
            hosts = list(joins(source, self._before) if joins else adapter.hosts(source))
            groups = adapter.groups(source, self._before) if hasattr(adapter, "groups") else {}
        except CobwebError as error:
            self._findings.add(
                place, f"inventory adapter {adapter.name}: {error.message}", error.hint
            )
            return
        self._before.append(source)
        self._joining = adapter if joins else self._joining
        where = Place(file=self._files.name(source))
        made = [(self._inventory.add_group(name, where), groups[name]) for name in groups]
        for host in hosts:
            self._adapted_host(host, where, is_own=is_own)
        for group, members in made:
            group.put_first(host for host in members if host in self._inventory.hosts)

    def _adapted_host(self, host: Host, where: Place, *, is_own: bool) -> None:
        """Take in a host; what is known by its place in a source of our own keeps that."""
        if not self._fits(host.name, _HOST_NAME, "host", where):
            return
        entry = self._inventory.add_host(host.name, ALL, where)
        for group in host.groups:
            if group not in (ALL, "ungrouped"):
                self._inventory.add_group(group, where)
                self._inventory.add_host(host.name, group, where)
        groups = [self._inventory.groups[name].variables for name in (*host.groups, ALL)]
        for key, value in host.variables.items():
            mine = entry.variables.get(key)
            of_groups = {repr(plain(it[key])) for it in groups if key in it}
            if is_own and (
                of_groups == {repr(value)} if mine is None else mine.place.file == where.file
            ):
                continue
            entry.variables[key] = lift(value, where)

    def _groups(self, node: Map) -> None:
        if not node.items:
            self._findings.add(node.place, "the inventory is empty", "name a group")
        for name, value in node.items.items():
            self._group(name, value, key_place(node, name))

    def _group(self, name: str, node: Node, place: Place) -> bool:
        if not self._fits(name, _GROUP_NAME, "group", place):
            return False
        group = self._inventory.add_group(name, place)
        body = as_map(node, f"group `{name}`", self._findings)
        if body is None:
            return True
        known_keys(body, _GROUP_KEYS, f"group `{name}`", self._findings)
        variables = as_map(body.items.get("vars"), f"`vars` of group `{name}`", self._findings)
        if variables:
            check_variables(variables, self._findings)
            group.variables.update(variables.items)
        takers = {"children": self._child, "hosts": self._hosts}
        for section in (it for it in body.items if it in takers):  # Ansible's order, too
            self._members(body, section, name, partial(takers[section], name))
        return True

    def _members(
        self, body: Map, section: str, group: str, take: Callable[[str, Node, Place], None]
    ) -> None:
        """Hand each entry of a section on; as in Ansible, a section may be one name."""
        value = body.items.get(section)
        if isinstance(value, Leaf) and isinstance(value.value, str):
            take(value.value, Leaf(value=None, place=value.place), value.place)
            return
        hint = "write `name:` for each, without a dash"
        if isinstance(value, Seq):
            message = f"`{section}` of group `{group}` must be a mapping, not a list"
            self._findings.add(value.place, message, hint)
            return
        entries = as_map(value, f"`{section}` of group `{group}`", self._findings)
        for key, item in entries.items.items() if entries else ():
            take(key, item, key_place(entries, key) if entries else item.place)

    def _child(self, parent: str, name: str, node: Node, place: Place) -> None:
        if name == ALL:
            self._findings.add(place, "`all` cannot be a child", "it holds every group already")
        elif self._group(name, node, place):
            self._inventory.groups[parent].children[name] = None

    def _hosts(self, group: str, pattern: str, node: Node, place: Place) -> None:
        variables = as_map(node, f"host `{pattern}`", self._findings)
        if variables:
            check_variables(variables, self._findings)
        try:
            names = expand(pattern)
        except ValueError as error:
            hint = "as in `app[01:10]`"
            if pattern.count(":") > 2:  # noqa: PLR2004  a range has two at most
                hint = f"an IPv6 address has no brackets: {pattern.strip('[]')}"
            self._findings.add(place, f"host `{pattern}`: {error}", hint)
            return
        if len(self._inventory.hosts) + len(names) > MAX_HOSTS:
            self._findings.add(place, f"more than {MAX_HOSTS} hosts")
            return
        for name in names:
            if not self._fits(name, _HOST_NAME, "host", place):
                return
            entry: HostEntry = self._inventory.add_host(name, group, place)
            if variables:
                entry.variables.update(variables.items)

    def _fits(self, name: str, form: re.Pattern[str], what: str, place: Place) -> bool:
        if form.fullmatch(name) and (what == "group" or name.count(":") != 1):
            return True
        hint = "letters, digits, `_`, `.` and `-`, at most 253"
        if name.count(":") > 1:
            hint = f"give it a name, and write the address as `ansible_host: '{name}'`"
        elif what == "host" and ":" in name:
            hint = "write the port as the variable `ansible_port`"
        elif not name.isascii() and what == "host":
            hint = (
                f"{hint}, all of ASCII; write the other name as `ansible_host: {on_a_line(name)}`"
            )
        self._findings.add(place, f"`{on_a_line(name)}` is no name for a {what}", hint)
        return False


def _members(files: Files, folder: Path) -> list[Member]:
    """Return the sources in an inventory folder as Ansible takes them: sorted, without the rest."""
    return [
        member
        for member in files.members(folder)
        if member.path.name not in _VARS_FOLDERS
        and not member.path.name.startswith(".")
        and not member.path.name.endswith("~")
        and member.path.suffix not in _IGNORED
    ]


MAX_HOSTS = 100_000
"""A range that stands for more hosts is an error."""

_RANGE = re.compile(r"\[([^\[\]]*)\]")


def expand(pattern: str) -> list[str]:
    """Return the names that a host of an inventory stands for; ValueError if it is wrong."""
    names = [""]
    position = 0
    for match in _RANGE.finditer(pattern):
        parts = _parts(match[1])
        if len(names) * len(parts) > MAX_HOSTS:
            raise ValueError(f"the range stands for more than {MAX_HOSTS} hosts")
        head = pattern[position : match.start()]
        names = [name + head + part for name in names for part in parts]
        position = match.end()
    rest = pattern[position:]
    if "[" in rest or "]" in rest:
        raise ValueError("a bracket of the range is missing")
    return [name + rest for name in names]


def _parts(text: str) -> Sequence[str]:
    bounds = text.split(":")
    if len(bounds) not in (2, 3):
        raise ValueError("a range is written [first:last] or [first:last:step]")
    first, last = bounds[0] or "0", bounds[1]
    step = bounds[2] if len(bounds) == 3 else "1"  # noqa: PLR2004  the third part is the step
    if not (step.isascii() and step.isdigit() and int(step) > 0):
        raise ValueError("the step of a range is a number above 0")
    if _is_number(first) and _is_number(last):
        return _numbers(first, last, int(step))
    return _letters(first, last, int(step))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _numbers(first: str, last: str, step: int) -> Sequence[str]:
    width = len(first) if first[0] == "0" and len(first) > 1 else 0
    if width and width != len(last):
        raise ValueError("both ends of a range with leading zeros must have the same length")
    if int(first) > int(last):
        raise ValueError("the range goes backwards")
    if (int(last) - int(first)) // step + 1 > MAX_HOSTS:
        raise ValueError(f"the range stands for more than {MAX_HOSTS} hosts")
    return [str(number).zfill(width) for number in range(int(first), int(last) + 1, step)]


def _letters(first: str, last: str, step: int) -> Sequence[str]:
    if len(first) != 1 or len(last) != 1 or first not in ascii_letters or last not in ascii_letters:
        raise ValueError("the ends of a range are two numbers or two letters")
    begin, end = ascii_letters.index(first), ascii_letters.index(last)
    if begin > end:
        raise ValueError("the range goes backwards")
    return ascii_letters[begin : end + 1 : step]
