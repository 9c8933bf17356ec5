# SPDX-License-Identifier: GPL-3.0-or-later
"""How a `tree` arrives at a host: a tar file whose SHA-256 names it, compressed on the way.

Python 3.8, standard library.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from pathlib import Path
from typing import Any, Dict

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_tree_git import Commit, Repository, Store, raw
from ansible.module_utils.cobweb_tree_merge import FILE, FOLDER, LINK, Entry

KINDS = {tarfile.REGTYPE: FILE, tarfile.SYMTYPE: LINK, tarfile.DIRTYPE: FOLDER}
MODE_BITS = 0o7777
PIECE = 1 << 20


class _Hashed:
    """Reads a stream and names what was read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        piece: bytes = self._stream.read(size)
        self.hash.update(piece)
        return piece


def receive(repository: Repository, archive: Path, digest: str) -> None:
    """Store the tree of an archive, if it is whole, on the branch of its digest."""
    with repository.storing() as store:
        try:
            with gzip.open(str(archive)) as unpacked:
                stream = _Hashed(unpacked)
                entries = _stored(store, stream)
                while stream.read(PIECE):
                    pass
        except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise Failed(f"the archive {digest} of the tree is damaged: {error}") from None
        if stream.hash.hexdigest() != digest:
            raise Failed(f"the archive of the tree is not {digest}, but {stream.hash.hexdigest()}")
        store.commit(Commit(branch_of(digest), entries, f"The tree {digest}, as it came"), None, 1)


def branch_of(digest: str) -> str:
    """Return the branch that a tree is kept on as it came."""
    return f"trees/{digest}"


def _stored(store: Store, stream: _Hashed) -> Dict[str, Entry]:
    entries: Dict[str, Entry] = {}
    with tarfile.open(
        fileobj=stream,  # type: ignore[call-overload]
        mode="r|",
        encoding="utf-8",
        errors="surrogateescape",
    ) as tar:
        for member in tar:
            kind = KINDS.get(member.type)
            names = member.name.split("/")
            if kind is None or member.name in entries or {"", ".", ".."} & {*names}:
                raise Failed(f"the archive of the tree has an entry {member.name!r} that is wrong")
            entries[member.name] = Entry(kind, _blob(store, tar, member), member.mode & MODE_BITS)
    for name in entries:
        above = name.rpartition("/")[0]
        if above in entries and entries[above].kind != FOLDER:
            raise Failed(f"the archive of the tree has {name!r} below something that is no folder")
    return entries


def _blob(store: Store, tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    if member.type == tarfile.SYMTYPE:
        return store.add(raw(member.linkname))
    content = tar.extractfile(member)
    return "" if content is None else store.add(content.read())
