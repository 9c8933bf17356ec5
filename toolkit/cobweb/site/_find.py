"""Find a site; take it from the cache where nothing that made it differs, or have it read.

What only a site needs that is read anew is imported then: most commands meet one that was kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache as cache_of
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cobweb._garbage import no_collections
from cobweb.errors import Finding, Place, SiteError
from cobweb.site._cache import find_kept
from cobweb.site._key import base_key
from cobweb.site._site import Site
from cobweb.site.reading._files import DecisionReader, Files
from cobweb.site.reading._findings import Findings, bounded
from cobweb.site.reading._settings import text

if TYPE_CHECKING:
    from cobweb._cache import Cache
    from cobweb.model import CobType
    from cobweb.plugin import Adapter, Extension
    from cobweb.plugin.protocols import Expander
    from cobweb.site._evaluation import Parts
    from cobweb.site.reading._nodes import Map

SITE_FILE = "site.yml"
DEFAULT_STATE = "sqlite:///.cobweb/state.db"
_STATE_URL = re.compile(r"(sqlite|postgresql)(\+\w+)?://.*")
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """What is settled before a site is read: what plugins add, and what the user allows.

    That is COB types by name, readers of inventories, further sections with their JSON Schemas.
    `expanders` are those of the sections that stand for hosts and objects. With `allow_outside` the
    site may use files outside of its repository. `decisions` are those of its sections, for which
    `extensions` are what other plugins add.
    """

    types: Mapping[str, CobType]
    adapters: Sequence[Adapter]
    sections: Mapping[str, Mapping[str, Any]]
    expanders: Sequence[Expander]
    allow_outside: bool = False
    decisions: DecisionReader = dict
    extensions: Sequence[type[Extension]] = ()


def find_site(start: Path) -> Path:
    """Return the nearest `site.yml` in `start` or above it; SiteError if there is none."""
    folder = start.resolve()
    for each in (folder, *folder.parents):
        if (each / SITE_FILE).is_file():
            return each / SITE_FILE
    message = f"there is no {SITE_FILE} here or above"
    hint = "`cobweb init` makes a site, `-C SITE` names one"
    raise SiteError([Finding(place=Place(file=str(start)), message=message, hint=hint)])


def find_state(path: Path, *, allow_outside: bool = False) -> tuple[str, Path]:
    """Return the URL of the state database of the site at `path`, and the site's folder.

    Only the modules are read, and of their keys only `state`: what happened can be looked up when
    the site of today is broken, its inventory cannot be read or a plugin is gone. SiteError where
    there is no site, it cannot be read at all, or `state` itself is wrong.
    """
    from cobweb.site._modules import load_modules

    site_file = site_file_of(path)
    files = Files(site_file, Findings(), allow_outside=allow_outside)
    with bounded(site_file):
        root = load_modules(site_file, files)
    findings = Findings()
    url = state_url_of(root, findings)
    findings.raise_if_any()
    return url, files.site_dir


def load_site(  # noqa: PLR0913 - keywords of its own for each thing that plugins add
    path: Path,
    *,
    types: Mapping[str, CobType] = _NONE,
    adapters: Sequence[Adapter] = (),
    sections: Mapping[str, Mapping[str, Any]] = _NONE,
    expanders: Sequence[Expander] = (),
    allow_outside: bool = False,
    cache: Cache | None = None,
    decisions: DecisionReader = dict,
    extensions: Sequence[type[Extension]] = (),
) -> Site:
    """Return the site at `path`, a folder or its `site.yml`; SiteError with all findings.

    `types` are those of plugins, `adapters` read foreign inventories, `sections` are further
    top-level keys with their JSON Schemas, `expanders` those of them that stand for hosts and
    objects; `decisions` returns what was decided, and is called where one of these takes that;
    `extensions` are what they find at their points.
    Files outside of the repository that has the site are refused without `allow_outside`. Specs are
    evaluated later, when `Site.graph` needs them.
    A sound site is kept in `cache`, and comes from there while nothing that made it differs.
    """
    site_file = site_file_of(path)
    foreign = Foreign(
        types=types,
        adapters=adapters,
        sections=sections,
        expanders=expanders,
        allow_outside=allow_outside,
        decisions=decisions,
        extensions=extensions,
    )

    def read() -> Parts:
        from cobweb.site._load import read_parts  # all that a kept site does without

        return read_parts(site_file, foreign)

    base = cache_of(partial(base_key, site_file, foreign))
    kept = find_kept(cache, site_file, base, foreign) if cache else None
    if kept is not None:
        return Site(read, kept=kept, decisions=decisions)
    with no_collections(), bounded(site_file):
        parts = read()
    return Site(lambda: parts, cache=cache, decisions=decisions)


def site_file_of(path: Path) -> Path:
    """Return the file of the site at `path`, a folder or that file; SiteError without one.

    It is absolute, for the working directory may change; links are as they were written.
    """
    site_file = path / SITE_FILE if path.is_dir() else path
    if not site_file.is_file():
        hint = "`cobweb init` makes a site"
        place = Place(file=str(site_file))
        raise SiteError([Finding(place=place, message="the site does not exist", hint=hint)])
    return site_file.absolute()


def state_url_of(root: Map, findings: Findings) -> str:
    """Return the URL of the state database; what is wrong with it goes to `findings`."""
    url = text(root, "state", "the site", findings)
    if url is not None and not _STATE_URL.fullmatch(url):
        hint = "as in `sqlite:///.cobweb/state.db` or `postgresql+psycopg://host/name`"
        findings.add(root.items["state"].place, "`state` is no URL of a database", hint)
    return url or DEFAULT_STATE
