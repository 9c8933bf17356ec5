"""group_vars and host_vars: files and folders of variables beside an inventory or a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cobweb.errors import Place
from cobweb.inventory._known import check_variables
from cobweb.inventory._modules import Files
from cobweb.inventory._nodes import Node
from cobweb.inventory._read import as_map

_SUFFIXES = ("", ".yml", ".yaml", ".json")
_NOTHING: Mapping[str, Node] = {}


class VarFiles:
    """The variables of one folder `group_vars` or `host_vars`, read when they are asked for."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._files = files
        self._entries: dict[str, list[Path]] = {}
        self._read: dict[str, Mapping[str, Node]] = {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            self._note(path)

    def get(self, name: str) -> Mapping[str, Node]:
        """Return the variables of one group or host."""
        if name not in self._entries:
            return _NOTHING
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def _note(self, path: Path) -> None:
        """File a path under its name: without suffix, and for a host with dots as it is, too."""
        if path.name.startswith(".") or path.name.endswith("~"):
            return
        self._entries.setdefault(path.name, []).append(path)
        if path.suffix in _SUFFIXES[1:] and path.is_file():
            self._entries.setdefault(path.stem, []).append(path)

    def _load(self, name: str) -> Mapping[str, Node]:
        candidates = self._entries[name]
        found = sorted(candidates, key=lambda path: _SUFFIXES.index(path.name.removeprefix(name)))
        if len(found) > 1:
            names = [self._files.name(path) for path in found]
            place = _place(self._files, found[1])
            hint = f"put all into {names[0]}"
            self._files.findings.add(place, f"Ansible reads `{names[0]}` and not this file", hint)
        variables: dict[str, Node] = {}
        for path in _files_of(found[0]):
            node = as_map(self._files.read(path), "a file of variables", self._files.findings)
            if node is not None:
                check_variables(node, self._files.findings)
                variables.update(node.items)
        return variables


def _place(files: Files, path: Path) -> Place:
    return Place(file=files.name(path))


def _files_of(path: Path) -> list[Path]:
    """Return the files of a folder of variables as Ansible takes them: sorted, none hidden."""
    if path.is_file():
        return [path]
    found: list[Path] = []
    for member in sorted(path.iterdir()):
        if member.name.startswith(".") or member.name.endswith("~"):
            continue
        if member.is_dir() and not member.suffix:
            found += _files_of(member)
        elif member.is_file() and member.suffix in _SUFFIXES:
            found.append(member)
    return found
