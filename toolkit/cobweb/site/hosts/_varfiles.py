"""group_vars and host_vars: files and folders of variables beside an inventory or a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cobweb.errors import Place
from cobweb.site.hosts._connection import check_variables
from cobweb.site.reading._files import Files, Member
from cobweb.site.reading._nodes import Node
from cobweb.site.reading._settings import as_map

_SUFFIXES = ("", ".yml", ".yaml", ".json")
_NOTHING: Mapping[str, Node] = {}


class VarFiles:
    """The variables of one folder `group_vars` or `host_vars`, read when they are asked for."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._files = files
        self._entries: dict[str, list[Member]] = {}
        self._read: dict[str, Mapping[str, Node]] = {}
        for member in files.members(folder):
            self._note(member)

    def get(self, name: str) -> Mapping[str, Node]:
        """Return the variables of one group or host."""
        if name not in self._entries:
            return _NOTHING
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

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
            place = _place(self._files, found[1].path)
            hint = f"put all into {names[0]}"
            self._files.findings.add(place, f"Ansible reads `{names[0]}` and not this file", hint)
        variables: dict[str, Node] = {}
        for path in _files_of(self._files, found[0]):
            node = as_map(self._files.read(path), "a file of variables", self._files.findings)
            if node is not None:
                check_variables(node, self._files.findings)
                variables.update(node.items)
        return variables


def _place(files: Files, path: Path) -> Place:
    return Place(file=files.name(path))


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
