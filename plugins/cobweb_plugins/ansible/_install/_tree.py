"""The digest of a role's or collection's files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cobweb.errors import CobwebError
from cobweb_plugins.ansible._install._requirements import Kind

NO_FOLDER = "no folder"
"""What stands for the digest where a link or a file is in the place of the folder."""

_LEFT_OUT_FOLDERS = frozenset({"__pycache__", ".git"})
_LEFT_OUT = {
    Kind.ROLE: frozenset({"meta/.galaxy_install_info"}),  # has the date
    Kind.COLLECTION: frozenset({"FILES.json"}),  # galaxy builds it, in the order of the disk
}
_BLOCK = 1 << 20


def tree_digest(root: Path, kind: Kind) -> str | None:
    """Return the SHA-256 of a tree in hexadecimal digits; None where nothing is there.

    It is of the sorted paths of files and links with their content, executable bit and target.
    Empty folders are not in it, for Git has none, and neither is what galaxy writes by itself.
    CobwebError for what cannot be read, and for files that are neither plain nor links.
    """
    if not os.path.lexists(root):
        return None
    if root.is_symlink() or not root.is_dir():
        return NO_FOLDER
    whole = hashlib.sha256()
    try:
        for name in sorted(_names(root, root)):
            if name not in _LEFT_OUT[kind]:
                whole.update(json.dumps(_entry(root, name, kind)).encode() + b"\n")
    except OSError as error:
        raise CobwebError(f"cannot read {root}: {error}") from error
    return whole.hexdigest()


def _names(root: Path, folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if not entry.is_dir(follow_symlinks=False):
                yield path.relative_to(root).as_posix()
            elif entry.name not in _LEFT_OUT_FOLDERS:
                yield from _names(root, path)


def _entry(root: Path, name: str, kind: Kind) -> list[str | bool]:
    path = root / name
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return [name, "link", str(path.readlink())]
    if not stat.S_ISREG(mode):
        raise CobwebError(f"{path} is neither a file nor a folder nor a link")
    content = hashlib.sha256()
    if kind is Kind.COLLECTION and name == "MANIFEST.json":
        content.update(_manifest(path))
    else:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                content.update(block)
    return [name, "file", bool(mode & stat.S_IXUSR), content.hexdigest()]


def _manifest(path: Path) -> bytes:
    """Return the manifest without the digest of FILES.json, which depends on the disk's order."""
    data = path.read_bytes()
    try:
        known = json.loads(data)
        del known["file_manifest_file"]
    except (ValueError, KeyError, TypeError):
        return data
    return json.dumps(known, sort_keys=True).encode()
