"""The data models that files of a site are made from (`generate` in `site.yml`).

Only `site.yml` itself is read, for what it imports may not have been made yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobweb.errors import ModelError, Place
from cobweb.plugin import Document, SiteAccess
from cobweb_plugins.models._section import GenerateSection

DEFAULT_FOLDER = "generated"
_KEY = GenerateSection.name
"""A site file without this word is not parsed: most sites have no models, and some are large."""


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


def find_models(access: SiteAccess) -> tuple[Model, ...]:
    """Return the models of a site, in the order of writing.

    SiteError where there is no site, or `generate` is not as it should be.
    """
    with suppress(OSError, ValueError, ModelError):  # which is told when the site is read
        if _KEY not in (access.read(access.file) or ""):
            return ()
    site = access.document(access.file, {"properties": {_KEY: GenerateSection.schema}})
    problems: list[tuple[tuple[str | int, ...], str, str]] = []
    found = []
    for name, body in (site.data.get(_KEY) or {}).items():
        try:
            found.append(_model(access, site, name, body))
        except ModelError as error:
            problems += error.problems
    if problems:
        raise site.error(ModelError(problems))
    return tuple(found)


def _model(access: SiteAccess, site: Document, name: str, body: Mapping[str, Any] | None) -> Model:
    """Return a model; ModelError where there is no such file, or no such folder can be."""
    if body is None:
        problem = (_KEY, name), f"the model `{name}` is empty", "as in `{adapter: storage}`"
        raise ModelError([problem])
    is_there = True
    try:
        with suppress(OSError, ValueError):  # which is told when the model is read
            is_there = access.read(name) is not None
    except ModelError as error:
        (_, message, hint), *_ = error.problems
        raise ModelError([((_KEY, name), message, hint)]) from error
    if not is_there:
        hint = "paths are relative to the site"
        raise ModelError([((_KEY, name), f"there is no file {name}", hint)])
    into = (access.dir / body.get("into", DEFAULT_FOLDER)).resolve()
    if access.dir.resolve() not in into.parents:
        message = f"`into` of the model `{name}` is not a folder below the site"
        raise ModelError([((_KEY, name, "into"), message, f"as in `into: {DEFAULT_FOLDER}`")])
    return Model(
        name=name,
        adapter=body["adapter"],
        path=access.dir / name,
        into=into,
        place=site.place((_KEY, name)),
        site_dir=access.dir.resolve(),
    )
