"""Trees for the tests of the type `tree`: small notations, archives, and what is on a disk."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cobweb.generation import TreeEntry, TreeKind, archive_of, in_order, tree_digest

__all__ = ["Entries", "HostTree", "as_root", "content_of", "folders_above", "make", "packed"]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
Entries = Mapping[str, str | bytes | tuple[str, int] | None]
"""Of each path: a file's content, maybe with its mode; `-> target` is a link, None a folder."""


def packed(entries: Entries) -> tuple[dict[str, Any], bytes]:
    """Return what a spec says of a tree, and its archive."""
    whole: dict[str, Any] = {**dict.fromkeys(folders_above(entries)), **entries}
    made = [_entry(name, whole[name]) for name in in_order(whole)]
    return tree_digest(made), gzip.compress(b"".join(archive_of(made)), 1, mtime=0)


def folders_above(entries: Mapping[str, Any]) -> set[str]:
    """Return the folders that paths are in."""
    parts = [name.split("/") for name in entries]
    return {"/".join(names[:end]) for names in parts for end in range(1, len(names))}


def make(root: Path, entries: Entries) -> None:
    """Write entries below a folder."""
    for name, value in entries.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        entry = _entry(name, value)
        if entry.kind is TreeKind.FOLDER:
            path.mkdir(exist_ok=True)
        elif entry.kind is TreeKind.LINK:
            path.symlink_to(entry.target)
        else:
            path.write_bytes(entry.data)
            path.chmod(entry.mode)


def content_of(root: Path) -> dict[str, Any]:
    """Return all that is below a folder: kind, mode, owner and content."""
    found: dict[str, Any] = {}
    for path in root.rglob("*"):
        status = path.lstat()
        said = (stat.filemode(status.st_mode), status.st_uid, status.st_gid)
        found[str(path.relative_to(root))] = (*said, _data(path, status.st_mode))
    return found


def _data(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return os.fsencode(path.readlink())
    return path.read_bytes() if stat.S_ISREG(mode) else b""


@dataclass(slots=True)
class HostTree:
    """One tree on this machine, moved by the module without Ansible around it."""

    module: ModuleType
    root: Path
    state: Path
    spec: dict[str, Any] = field(default_factory=dict)
    cob: dict[str, Any] = field(default_factory=dict)
    archive: bytes = b""

    def want(self, entries: Entries, **keys: Any) -> HostTree:
        """Let the site have another version, and further keys of the spec."""
        tree, self.archive = packed(entries)
        spec = {"path": str(self.root), "state_dir": str(self.state), **keys, "tree": tree}
        self.cob = {
            "id": "h1/tree",
            "name": "tree",
            "generation": "g1",
            "spec": spec,
            "applied": self.spec or None,
        }
        return self

    def check(self) -> str:
        """Return the state."""
        return str(self.module.check(self.cob)["state"])

    def write(self) -> dict[str, Any]:
        """Bring the version to the host as the task file does."""
        archive = self.module.prepare(self.cob)["archive"]
        if archive:
            Path(archive).write_bytes(self.archive)
        answer: dict[str, Any] = self.module.write(self.cob)
        self.spec = self.cob["spec"]
        self.cob["applied"] = self.spec
        return answer

    def remove(self) -> dict[str, Any]:
        """Take the tree away."""
        answer: dict[str, Any] = self.module.remove(self.cob)
        return answer

    def git(self, *arguments: str) -> str:
        """Ask the repository."""
        import subprocess

        (repository,) = self.state.rglob("repository.git")
        command = ["git", f"--git-dir={repository}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _entry(name: str, value: str | bytes | tuple[str, int] | None) -> TreeEntry:
    if value is None:
        return TreeEntry(name=name, kind=TreeKind.FOLDER, mode=0o755)
    content, mode = value if isinstance(value, tuple) else (value, 0o644)
    if isinstance(content, str) and content.startswith("-> "):
        return TreeEntry(name=name, kind=TreeKind.LINK, target=content[3:])
    data = content.encode() if isinstance(content, str) else content
    return TreeEntry(name=name, kind=TreeKind.FILE, mode=mode, data=data)
