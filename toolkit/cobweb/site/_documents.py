"""Single files of a site: their texts, and documents of which the place of each value is known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobweb.errors import Finding, ModelError, Place, SiteError
from cobweb.site._find import site_file_of
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Map, at, plain
from cobweb.site.reading._settings import as_map


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A YAML or JSON file of the site; see `cobweb.plugin.Document`."""

    data: Mapping[str, Any]
    digest: str
    _root: Map

    def place(self, path: Sequence[str | int]) -> Place:
        """Return where the value is written that keys and indices lead to."""
        return at(self._root, iter(path)).place

    def error(self, error: ModelError) -> SiteError:
        """Return problems of the document, each at its place."""
        return placed(error, self.place)


def read_text(path: Path, name: str, *, allow_outside: bool = False) -> str | None:
    """Return the text of a file of the site at `path`; see `text_of`."""
    return text_of(Files(site_file_of(path), Findings(), allow_outside=allow_outside), name)


def text_of(files: Files, name: str) -> str | None:
    """Return the text of a file of the site; None if there is none.

    OSError or ValueError where it cannot be read as text, ModelError where it is not for the site
    to read.
    """
    path = files.site_dir / name
    if files.refusal(path):
        raise ModelError([((), *files.absent(f"file `{name}`", path, otherwise=""))])
    return files.data(path).decode() if files.is_file(path) else None


def read_document(
    path: Path, name: str, schema: Mapping[str, Any], what: str, *, allow_outside: bool = False
) -> Document:
    """Return a file of the site at `path`, complete with the defaults of its schema.

    SiteError with all findings, in which `what` is what the file is called.
    """
    from cobweb.site.reading._schemas import SpecChecker

    findings = Findings()
    files = Files(site_file_of(path), findings, allow_outside=allow_outside)
    file = files.site_dir / name
    root = as_map(files.read(file, empty_hint="it says nothing"), what, findings)
    findings.raise_if_any()
    assert root is not None, "nothing is a finding"
    checker = SpecChecker(schema, whole=what)
    data = checker.complete(plain(root))
    for place, message, hint in checker.problems(data, root):
        findings.add(place, message, hint)
    findings.raise_if_any()
    digest = hashlib.sha256(files.data(file)).hexdigest()
    return Document(data=data, digest=digest, _root=root)


def placed(error: ModelError, place: Callable[[Sequence[str | int]], Place]) -> SiteError:
    """Return problems as findings, each at the place of its path."""
    found = [
        Finding(place=place(path), message=message, hint=hint)
        for path, message, hint in error.problems
    ]
    return SiteError(sorted(found, key=lambda finding: finding.place))
