"""The archives of file trees, lent to the tasks of a run by their digest."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

from cobweb.generation import tree_of
from cobweb.model import Job, JobKind

_LEVEL = 1  # of compression: three times as quick as the usual one, and a tenth longer


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
        path = self._folder / f"{digest}.tar.gz"
        if path.exists() or (archive := self._find(digest)) is None:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft = path.with_suffix(".draft")
        try:
            draft.write_bytes(gzip.compress(archive, _LEVEL, mtime=0))
            draft.replace(path)  # so it is there whole or not at all
        finally:
            draft.unlink(missing_ok=True)
