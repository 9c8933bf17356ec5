"""The archives of file trees: lent to the tasks of a run by their digest, and compared."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from cobweb.generation import FileDifference, read_archive, tree_difference, tree_of
from cobweb.model import Job, JobKind
from cobweb.runtime._desired import Desired
from cobweb.store import Store

__all__ = ["TreeComparison", "TreeLender", "archives_of", "file_data"]

_LEVEL = 1  # of compression: three times as quick as the usual one, and a tenth longer
_SUFFIX = ".tar.gz"
_PRIVATE = 0o700


class TreeLender:
    """Puts the archive of each tree that a run works with into a folder, once.

    `find` returns an archive by its digest, None where it is gone: the task that asks for it then
    says so, for most need none.
    """

    def __init__(self, folder: Path, find: Callable[[str], bytes | None]) -> None:
        self._folder = folder
        self._find = find

    def lend(self, job: Job) -> None:
        """See to it that a transition finds the archive of its tree; OSError where that fails."""
        digest = tree_of(job.cob_vars.get("spec") or {})
        if job.kind is not JobKind.TRANSITION or not digest:
            return
        path = self._folder / f"{digest}{_SUFFIX}"
        if path.exists():
            return
        archive = self._find(digest)
        if archive is not None:
            self._folder.mkdir(mode=_PRIVATE, exist_ok=True)
            _write(path, gzip.compress(archive, _LEVEL, mtime=0))


def archives_of(desired: Desired, store: Store) -> Callable[[str], bytes | None]:
    """Return what finds the archive of a tree that is desired, or was, by its digest."""
    present = cache(desired.files)
    return lambda digest: store.file(digest) or present().get(digest)


class TreeComparison:
    """Says which files differ between two trees; of two that are asked for often, once.

    `find` returns an archive by its digest, None where it is gone: then nothing is said.
    """

    def __init__(self, find: Callable[[str], bytes | None]) -> None:
        self._find = find
        self._known: dict[tuple[str, str], tuple[FileDifference, ...]] = {}

    def files(self, trees: tuple[str, str] | None) -> tuple[FileDifference, ...]:
        """Return the files that differ; `trees` are digests, the old one first."""
        if trees is None:
            return ()
        if trees not in self._known:
            old, new = (self._find(digest) for digest in trees)
            self._known[trees] = (
                tree_difference(read_archive(old), read_archive(new))
                if old is not None and new is not None
                else ()
            )
        return self._known[trees]


def file_data(files: Iterable[FileDifference]) -> list[dict[str, Any]]:
    """Return differences of files as plain data."""
    return [
        {
            "file": it.name,
            "kind": str(it.kind),
            "notes": list(it.notes),
            "added": it.text.added if it.text else 0,
            "removed": it.text.removed if it.text else 0,
            "diff": list(it.text.lines) if it.text else [],
        }
        for it in files
    ]


def _write(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read; it is there whole or not at all."""
    draft = path.with_suffix(".draft")
    try:
        draft.write_bytes(data)
        os.replace(draft, path)  # noqa: PTH105  atomic
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
