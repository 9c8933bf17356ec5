"""The sections of plugins as they are written, without what they stand for.

A command that edits them reads them here: the site may be wrong everywhere else, and what the
sections expand to may be just what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobweb.errors import Finding, ModelError, SiteError
from cobweb.inventory._files import Files
from cobweb.inventory._findings import Findings
from cobweb.inventory._load import sections_of, site_file_of
from cobweb.inventory._modules import load_modules
from cobweb.inventory._nodes import Node, at

__all__ = ["SectionData", "read_sections"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionData:
    """Plain data by section; `dir` is the site's folder."""

    dir: Path
    data: Mapping[str, Any]
    _root: Node

    def error(self, error: ModelError) -> SiteError:
        """Return problems, whose paths begin with a section, at their places in the site."""
        found = [
            Finding(place=at(self._root, iter(path)).place, message=message, hint=hint)
            for path, message, hint in error.problems
        ]
        return SiteError(sorted(found, key=lambda finding: finding.place))


def read_sections(path: Path, schemas: Mapping[str, Mapping[str, Any]]) -> SectionData:
    """Return the sections of `schemas` that the site at `path` has, by their schemas.

    SiteError where there is no site, its files cannot be merged, or a section does not fit.
    """
    site_file = site_file_of(path)
    findings = Findings()
    files = Files(site_file, findings)
    root = load_modules(site_file, files)
    findings.raise_if_any()
    if root is None:
        raise AssertionError("a site without a mapping has findings")
    data = sections_of(root, schemas, findings)
    findings.raise_if_any()
    return SectionData(dir=files.site_dir, data=data, _root=root)
