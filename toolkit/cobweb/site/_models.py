"""The data models that files of a site are made from (`generate` in `site.yml`).

Only `site.yml` itself is read, for what it imports may not have been made yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cobweb.errors import Finding, ModelError, Place, SiteError
from cobweb.site._find import site_file_of
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Map, Node, at, key_place, plain
from cobweb.site.reading._settings import as_map, known_keys, required, text

DEFAULT_FOLDER = "generated"
_KEYS = ("adapter", "into", "description")
_WORD = b"generate"
"""A site file without it is not parsed: most sites have no models, and some are large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A data model: its file as the site names it, the adapter's name, and the folder to fill.

    `path` and `into` are absolute; `place` is where the site names the model.
    """

    name: str
    adapter: str
    path: Path
    into: Path
    place: Place
    site_dir: Path
    allow_outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelContent:
    """What a model says: plain data, its SHA-256, and where each value was written."""

    data: Mapping[str, Any]
    digest: str
    _node: Node

    def error(self, error: ModelError) -> SiteError:
        """Return the problems that an adapter found, each at its place in the model."""
        found = [
            Finding(place=at(self._node, iter(path)).place, message=message, hint=hint)
            for path, message, hint in error.problems
        ]
        return SiteError(sorted(found, key=lambda finding: finding.place))


def find_models(path: Path, *, allow_outside: bool = False) -> tuple[Model, ...]:
    """Return the models of the site at `path`, in the order of writing.

    SiteError where there is no site, or `generate` is not as it should be.
    """
    site_file = site_file_of(path)
    findings = Findings()
    files = Files(site_file, findings, allow_outside=allow_outside)
    with suppress(OSError):  # which is told when it is read
        if _WORD not in files.data(site_file):
            return ()
    root = as_map(files.read(site_file), "a site file", findings)
    if root is None or "generate" not in root.items:
        findings.raise_if_any()
        return ()
    section = as_map(root.items["generate"], "`generate`", findings)
    entries = section.items if section else {}
    found = [_model(name, section, node, files) for name, node in entries.items() if section]
    findings.raise_if_any()
    return tuple(replace(it, allow_outside=allow_outside) for it in found if it is not None)


def _model(name: str, section: Map, node: Node, files: Files) -> Model | None:
    what = f"the model `{name}`"
    place = key_place(section, name)
    body = as_map(node, what, files.findings, empty=(place, "as in `{adapter: storage}`"))
    if body is None:
        return None
    known_keys(body, _KEYS, what, files.findings)
    path, into = files.site_dir / name, _folder(body, what, files)
    if not files.is_file(path):
        message, hint = f"there is no file {name}", "paths are relative to the site"
        if files.refusal(path):
            message, hint = files.absent(f"file `{name}`", path, otherwise=hint)
        files.findings.add(place, message, hint)
        return None
    required(body, "adapter", what, files.findings, hint="as in `adapter: storage`")
    adapter = text(body, "adapter", what, files.findings)
    if adapter is None or into is None:
        return None
    return Model(
        name=name, adapter=adapter, path=path, into=into, place=place, site_dir=files.site_dir
    )


def _folder(body: Map, what: str, files: Files) -> Path | None:
    """Return the folder to fill; a finding for one that is not below the site."""
    named = text(body, "into", what, files.findings) if "into" in body.items else DEFAULT_FOLDER
    if named is None:
        return None
    into = files.resolve(files.site_dir / named)
    if files.site_dir not in into.parents:
        message = f"`into` of {what} is not a folder below the site"
        files.findings.add(body.items["into"].place, message, f"as in `into: {DEFAULT_FOLDER}`")
        return None
    return into


def read_model(model: Model, schema: Mapping[str, Any]) -> ModelContent:
    """Read a model and check it against the schema of its adapter; SiteError with all findings."""
    from cobweb.site.reading._schemas import SpecChecker

    findings = Findings()
    site_file = model.site_dir / "site.yml"
    files = Files(site_file, findings, allow_outside=model.allow_outside)
    node = as_map(files.read(model.path, empty_hint="it says nothing"), "a model", findings)
    findings.raise_if_any()
    assert node is not None, "nothing is a finding"
    checker = SpecChecker(schema, whole="the model")
    data = checker.complete(plain(node))
    for place, message, hint in checker.problems(data, node):
        findings.add(place, message, hint)
    findings.raise_if_any()
    digest = hashlib.sha256(files.data(model.path)).hexdigest()
    return ModelContent(data=data, digest=digest, _node=node)
