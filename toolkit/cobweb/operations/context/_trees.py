"""The archives of file trees, found by their digest and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from cobweb.generation import FileDifference, read_archive, tree_difference

if TYPE_CHECKING:
    from cobweb.operations.context._desired import Desired
    from cobweb.store import Store


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
        self._difference = cache(self._compare)

    def files(self, trees: tuple[str, str] | None) -> tuple[FileDifference, ...]:
        """Return the files that differ; `trees` are digests, the old one first."""
        return () if trees is None else self._difference(*trees)

    def _compare(self, *digests: str) -> tuple[FileDifference, ...]:
        old, new = map(self._find, digests)
        if old is None or new is None:
            return ()
        return tree_difference(read_archive(old), read_archive(new))


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
