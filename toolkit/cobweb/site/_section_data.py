"""The sections of plugins as they are written, without what they stand for.

A command that edits them reads them here: the site may be wrong everywhere else, and what the
sections expand to may be just what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobweb.errors import ModelError, Place, SiteError
from cobweb.site._documents import placed
from cobweb.site._find import site_file_of
from cobweb.site._load import sections_of
from cobweb.site._modules import load_modules
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Map, at

COMMAND_LINE = "command line"
"""The place of what stands in no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionData:
    """Plain data by section; `dir` is the site's folder."""

    dir: Path
    data: Mapping[str, Any]
    _root: Map

    def error(self, error: ModelError) -> SiteError:
        """Return problems, whose paths begin with a section, at their places in the site.

        What is about no entry of a section was asked for on the command line.
        """
        return placed(error, self._place)

    def _place(self, path: Sequence[str | int]) -> Place:
        section = self._root.items.get(str(path[0])) if path else None
        if len(path) > 1 and not (isinstance(section, Map) and path[1] in section.items):
            return Place(file=COMMAND_LINE)
        return at(self._root, iter(path)).place


def read_sections(
    path: Path, schemas: Mapping[str, Mapping[str, Any]], *, allow_outside: bool = False
) -> SectionData:
    """Return the sections of `schemas` that the site at `path` has, by their schemas.

    SiteError where there is no site, its files cannot be merged, or a section does not fit.
    """
    site_file = site_file_of(path)
    findings = Findings()
    files = Files(site_file, findings, allow_outside=allow_outside)
    root = load_modules(site_file, files)
    findings.raise_if_any()
    data = sections_of(root, schemas, findings)
    findings.raise_if_any()
    return SectionData(dir=files.site_dir, data=data, _root=root)
