"""A file tree as one archive, whose bytes depend on nothing but the tree; pure.

The archive is a tar file (GNU format): entries sorted by name, folders before what is in them,
nobody's in particular (user and group 0, no names), without a time. Names are UTF-8; bytes that are
none are kept as they are (in Python: as surrogates). In a spec a tree is a mapping with `digest`,
the SHA-256 of the archive, and how many `files` and `bytes` it holds.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import Any

TREE = "tree"
"""The property of a spec that says which tree it is."""

_BLOCK = 512
_END = bytes(2 * _BLOCK)
_ENCODING, _ERRORS = "utf-8", "surrogateescape"
_KEYS = frozenset({"digest", "files", "bytes"})
_DIGEST_LENGTH = 64


class TreeKind(StrEnum):
    """What an entry of a tree is."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"


_TYPES = {
    TreeKind.FILE: tarfile.REGTYPE,
    TreeKind.LINK: tarfile.SYMTYPE,
    TreeKind.FOLDER: tarfile.DIRTYPE,
}
_KINDS = {kind: each for each, kind in _TYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One entry: `name` is relative to the tree, `/` between its parts.

    `mode` are its permission bits, of a link always 0777. `data` is the content of a file, `target`
    what a link says.
    """

    name: str
    kind: TreeKind
    mode: int = 0o777
    data: bytes = b""
    target: str = ""


def in_order(names: Iterable[str]) -> list[str]:
    """Return names as an archive has them: a folder before what is in it."""
    return sorted(names, key=lambda name: name.encode(_ENCODING, _ERRORS))


def archive_of(entries: Iterable[TreeEntry]) -> Iterator[bytes]:
    """Yield the archive of entries, which are in order, piece by piece."""
    for entry in entries:
        header = tarfile.TarInfo(entry.name)
        header.type = _TYPES[entry.kind]
        header.mode = entry.mode
        header.size = len(entry.data)
        header.linkname = entry.target
        yield header.tobuf(tarfile.GNU_FORMAT, _ENCODING, _ERRORS)
        yield entry.data
        yield bytes(-len(entry.data) % _BLOCK)
    yield _END


def tree_digest(entries: Iterable[TreeEntry]) -> dict[str, Any]:
    """Return what a spec says of a tree; of its files no more than one is in memory at a time."""
    numbers = [0, 0]
    found = hashlib.sha256()
    for piece in archive_of(_counted(entries, numbers)):
        found.update(piece)
    return {"digest": found.hexdigest(), "files": numbers[0], "bytes": numbers[1]}


def read_archive(archive: bytes) -> dict[str, TreeEntry]:
    """Return the entries of an archive that `archive_of` made, by name, in order."""
    found = {}
    with tarfile.open(
        fileobj=BytesIO(archive), mode="r:", encoding=_ENCODING, errors=_ERRORS
    ) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            found[member.name] = TreeEntry(
                name=member.name,
                kind=_KINDS[member.type],
                mode=member.mode,
                data=b"" if file is None else file.read(),
                target=member.linkname,
            )
    return found


def tree_of(spec: Mapping[str, Any]) -> str:
    """Return the digest of the tree that an evaluated spec has; "" where it has none."""
    tree = spec.get(TREE)
    if not isinstance(tree, Mapping) or tree.keys() != _KEYS:
        return ""
    digest = tree["digest"]
    return digest if isinstance(digest, str) and len(digest) == _DIGEST_LENGTH else ""


def _counted(entries: Iterable[TreeEntry], numbers: list[int]) -> Iterator[TreeEntry]:
    """Yield entries and count files (and links) and their bytes."""
    for entry in entries:
        numbers[0] += entry.kind is not TreeKind.FOLDER
        numbers[1] += len(entry.data)
        yield entry
