"""Paths as a generation writes them: below a named folder, so that they are the same anywhere."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from cobweb._text import is_below
from cobweb.errors import Place, StoreError

OWN_ROOT = "cobweb"
"""The word of the playbooks that the package ships; they are there with every Cobweb."""

SITE_ROOT = "site"
"""The word of the site's folder; what an imported file names may stand above it."""


def folder_outside(place: Place | None) -> str:
    """Return the folder of a file that is imported from outside, as seen from the site, or ""."""
    return posixpath.dirname(place.file) if place and place.file.startswith("../") else ""


class Paths:
    """Writes an absolute path as `word:relative/path` and reads it again; `roots` name folders.

    The innermost root counts. What is in none stays as it is (a role by its name, a plugin's file),
    but for what stands beside a file that the site imports from elsewhere, as `../common/ntp.yml`:
    that is written from the site's folder.
    """

    def __init__(self, roots: Mapping[str, str]) -> None:
        self._roots = dict(roots)
        self._folders = sorted(roots.items(), key=lambda root: (-len(root[1]), root))

    def written(self, path: str, place: Place | None) -> str:
        """Return a path as it is written; `place` is where the site names it."""
        for word, folder in self._folders:
            if is_below(path, folder):
                return f"{word}:{path.removeprefix(folder.rstrip('/') + '/')}"
        site, outside = self._roots.get(SITE_ROOT), folder_outside(place)
        if site is None or not outside:
            return path
        beside = posixpath.normpath(posixpath.join(site, outside))
        return f"{SITE_ROOT}:{posixpath.relpath(path, site)}" if is_below(path, beside) else path

    def read(self, written: str) -> str:
        """Return the path that was written; StoreError for a folder that is not known."""
        word, sign, rest = written.partition(":")
        if not sign or written.startswith("/"):
            return written
        if word not in self._roots:
            raise StoreError(f"nobody knows the folder {word!r} of `{written}` in a generation")
        return posixpath.normpath(posixpath.join(self._roots[word], rest))
