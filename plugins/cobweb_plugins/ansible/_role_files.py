"""Where Ansible finds a role, and the files that say what it does; read by the site's own reader.

So what is not for the site is not read, and all that is read is noted. Roles that the user has
installed are no files of the site, and read all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cobweb.errors import ExecutorError
from cobweb.plugin import SiteFiles
from cobweb_plugins.ansible._task_words import Part
from cobweb_plugins.ansible._workspace import (
    AnsibleConfig,
    ansible_config,
    config_files,
    no_config,
    search_paths,
)

MAX_BYTES = 256 * 1024
"""A larger file is not looked at."""

MAX_FILES = 500
"""A role with more files is not looked at."""

_YAML = (".yml", ".yaml", ".json", "")
_COLLECTION_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRole:
    """The folder of a role, and what reads its files; `is_own` says that these are the site's."""

    folder: Path
    files: SiteFiles
    is_own: bool

    def members(self) -> tuple[tuple[Part, Path], ...]:
        """Return the files that say what the role does; none where they are too many."""
        found = []
        for part in Part:
            for path in self._below(self.folder / part):
                if part is Part.TEMPLATES or path.suffix in _YAML:
                    found.append((part, path))
                if len(found) > MAX_FILES:
                    return ()
        return tuple(found)

    def _below(self, folder: Path) -> Iterator[Path]:
        """Yield the files below a folder; links to folders may lead back, and are left out."""
        folders = [folder]
        while folders:
            with suppress(OSError):
                for path, is_dir, is_file, is_link in self.files.members(folders.pop()):
                    if is_file:
                        yield path
                    elif is_dir and not is_link:
                        folders.append(path)


class Roles:
    """Looks for roles where the play of a job would: in the site, then where the user says."""

    def __init__(self, files: SiteFiles) -> None:
        self._files = files
        paths = search_paths(files.site_dir, _noted_config(files))
        self._roles, self._collections = (
            [files.site_dir / Path(os.path.expandvars(part)).expanduser() for part in said]
            for said in (
                paths[name].split(os.pathsep)[1:]  # the site's own comes first
                for name in ("ANSIBLE_ROLES_PATH", "ANSIBLE_COLLECTIONS_PATH")
            )
        )

    def find(self, name: str, beside: FoundRole | None = None) -> FoundRole | None:
        """Return a role; `beside` is the one that names it, and has others in its folder."""
        return next(filter(None, self._candidates(name, beside)), None)

    def _candidates(self, name: str, beside: FoundRole | None) -> Iterator[FoundRole | None]:
        """Yield what each place has that may have the role, in Ansible's order."""
        path, parts = Path(name), name.split(".")
        if path.is_absolute():
            yield self._own(path)
            return
        yield self._own(self._files.site_dir / "roles" / path)
        if beside is not None and beside.is_own:
            yield self._own(beside.folder.parent / path)
        if ".." in path.parts:
            return  # it leads out of the folders that the user has for roles
        if beside is not None and not beside.is_own:
            yield self._installed(beside.folder.parent / path)
        for folder in self._roles:
            yield self._installed(folder / path)
        if len(parts) == _COLLECTION_PARTS:
            within = Path("ansible_collections", parts[0], parts[1], "roles", parts[2])
            yield self._own(self._files.site_dir / "collections" / within)
            for folder in self._collections:
                yield self._installed(folder / within)

    def _own(self, folder: Path) -> FoundRole | None:
        is_there = self._files.kind(folder) == "dir"
        return FoundRole(folder=folder, files=self._files, is_own=True) if is_there else None

    def _installed(self, folder: Path) -> FoundRole | None:
        """Return a role of the user's; one in the site's repository is the site's own."""
        below = self._files.installed(folder)
        is_there = below.kind(folder) == "dir"
        found = FoundRole(folder=folder, files=below, is_own=False) if is_there else None
        return self._own(folder) or found


def _noted_config(files: SiteFiles) -> AnsibleConfig:
    """Return the ansible.cfg in effect, noted as read; what is wrong with it the run tells."""
    for path in config_files(files.site_dir):
        below = files.installed(Path(os.path.realpath(path)).parent)
        if below.kind(path) == "file":
            with suppress(OSError):
                below.data(path)
            break
    try:
        return ansible_config(files.site_dir)
    except ExecutorError:
        return no_config()
