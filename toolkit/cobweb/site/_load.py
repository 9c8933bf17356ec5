"""Find and load a site: read, merge, resolve, and collect what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cobweb._cache import Cache
from cobweb._garbage import no_collections
from cobweb.errors import Finding, Place, SiteError
from cobweb.model import CobType
from cobweb.site._cache import find_kept
from cobweb.site._evaluation import Evaluation, Parts
from cobweb.site._key import base_key
from cobweb.site._load_options import Foreign
from cobweb.site._modules import load_modules
from cobweb.site._sections import Expanded, Expander, clashes, expand_all, joined
from cobweb.site._site import Site
from cobweb.site.hosts._hosts import Inventory
from cobweb.site.hosts._patterns import Patterns
from cobweb.site.hosts._scope import Evaluator
from cobweb.site.hosts._select import Selector
from cobweb.site.hosts._sources import HostSource, Sources, no_hosts
from cobweb.site.hosts._variables import Variables
from cobweb.site.objects._cobs import Cobs
from cobweb.site.objects._drift import read_drift
from cobweb.site.objects._limits import Limits
from cobweb.site.objects._references import References
from cobweb.site.objects._types import Types
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import Findings, bounded
from cobweb.site.reading._nodes import Map, plain
from cobweb.site.reading._settings import flag, known_keys, required, text

SITE_FILE = "site.yml"
DEFAULT_STATE = "sqlite:///.cobweb/state.db"
_KEYS = (
    *("cobweb", "name", "description", "present", "inventory", "state"),
    *("types", "cobs", "limits", "drift", "generate"),
)
_STATE_URL = re.compile(r"(sqlite|postgresql)(\+\w+)?://.*")
_NONE: Mapping[str, Any] = MappingProxyType({})


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
    adapters: Sequence[HostSource] = (),
    sections: Mapping[str, Mapping[str, Any]] = _NONE,
    expanders: Sequence[Expander] = (),
    allow_outside: bool = False,
    cache: Cache | None = None,
) -> Site:
    """Return the site at `path`, a folder or its `site.yml`; SiteError with all findings.

    `types` are those of plugins, `adapters` read foreign inventories, `sections` are further
    top-level keys with their JSON Schemas, `expanders` those of them that stand for hosts and
    objects. Files outside of the repository that has the site are refused without `allow_outside`.
    Specs are evaluated later, when `Site.graph` needs them.
    A large site is kept in `cache`, and comes from there while nothing that made it differs.
    """
    site_file = site_file_of(path)
    foreign = Foreign(
        types=types,
        adapters=adapters,
        sections=sections,
        expanders=expanders,
        allow_outside=allow_outside,
    )
    read = partial(_parts, site_file, foreign)
    base = partial(base_key, site_file, foreign)
    kept = find_kept(cache, site_file, base, types) if cache else None
    if kept is not None:
        return Site(read, kept=kept)
    with no_collections(), bounded(site_file):
        parts = read()
    return Site(lambda: parts, cache=cache)


def _parts(site_file: Path, foreign: Foreign) -> Parts:
    findings = Findings()
    files = Files(site_file, findings, allow_outside=foreign.allow_outside)
    root = load_modules(site_file, files)
    sections = sections_of(root, foreign.sections, findings)
    expanders = () if findings else foreign.expanders
    made = expand_all(root, sections, expanders, files)
    made.asked |= bool(findings)  # hosts may be missing for what is wrong
    hosts = _hosts(root, files, foreign, made)
    sound = not findings
    parts = _resolved(root, files, hosts, foreign, made)
    known_keys(root, (*_KEYS, "imports", *foreign.sections), "the site", findings)
    if findings and sound:
        with suppress(SiteError):  # what can be evaluated is, so that its mistakes are told, too
            Evaluation(parts).graph()
    findings.raise_if_any()
    return replace(parts, sections=sections)


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


def _hosts(root: Map, files: Files, foreign: Foreign, made: Expanded) -> tuple[Evaluator, Patterns]:
    place = root.items["inventory"].place if "inventory" in root.items else root.place
    inventory = Inventory(place)
    sources = Sources(files, inventory, foreign.adapters)
    hint = "as in `inventory: hosts.yml`"
    may_lack = made.asked and "inventory" not in root.items
    if not may_lack and required(root, "inventory", "the site", files.findings, hint=hint):
        sources.add(root.items["inventory"])
    clashes(inventory, made, files)
    for each in made.inventories:
        sources.add(each)
    inventory.close(files.findings)
    if not made.asked:
        no_hosts(inventory, place, files.findings)
    for name in sorted(inventory.hosts.keys() & inventory.groups.keys()):
        message = f"`{name}` is a host and a group: a pattern means the group"
        files.warnings.add(inventory.hosts[name].place, message, "rename one of them")
    folders = [folder for folder in sources.folders if files.resolve(folder) != files.site_dir]
    variables = Variables(inventory, [*folders, files.site_file.parent], files)
    variables.read_groups()
    evaluator = Evaluator(inventory, variables, made.functions)
    return evaluator, Patterns(inventory)


def _resolved(
    root: Map,
    files: Files,
    hosts: tuple[Evaluator, Patterns],
    foreign: Foreign,
    made: Expanded,
) -> Parts:
    evaluator, patterns = hosts
    findings = files.findings
    unsound = bool(findings)
    sharing = {
        name: replace(foreign.types[name], shared=it)
        for name, it in made.shared.items()
        if name in foreign.types
    }
    reader = Types(files, {**foreign.types, **sharing, **made.types})
    types = reader.read(root.items.get("types"))
    selector = Selector(patterns, evaluator, findings, quiet=unsound)
    cobs = Cobs(types, reader.broken, selector, findings)
    cobs.read(joined(root, "cobs", made.cobs, files))
    references = References(cobs, selector, findings)
    references.read()
    limits = Limits(cobs, selector, evaluator, findings)
    limits.read(joined(root, "limits", made.limits, files))
    ignored = read_drift(root.items.get("drift"), cobs, selector, findings)
    return Parts(
        base_key=partial(base_key, files.site_file, foreign),
        name=text(root, "name", "the site", findings) or files.site_dir.name,
        state_url=state_url_of(root, findings),
        present=flag(root, "present", "the site", findings, default=True),
        types=types,
        foreign=frozenset(foreign.types) - sharing.keys(),
        uses=tuple(reader.uses),
        files=files,
        evaluator=evaluator,
        patterns=patterns,
        cobs=cobs,
        references=references,
        limits=limits,
        ignored=ignored,
        sections={},
    )


def state_url_of(root: Map, findings: Findings) -> str:
    """Return the URL of the state database; what is wrong with it goes to `findings`."""
    url = text(root, "state", "the site", findings)
    if url is not None and not _STATE_URL.fullmatch(url):
        hint = "as in `sqlite:///.cobweb/state.db` or `postgresql+psycopg://host/name`"
        findings.add(root.items["state"].place, "`state` is no URL of a database", hint)
    return url or DEFAULT_STATE


def sections_of(
    root: Map, schemas: Mapping[str, Mapping[str, Any]], findings: Findings
) -> dict[str, Any]:
    """Return the sections of plugins that a site has, as plain data, by their schemas.

    One without a value is empty where it is a mapping, as `cobs` is.
    """
    found: dict[str, Any] = {}
    for name, schema in schemas.items():
        node = root.items.get(name)
        if node is None:
            continue
        from cobweb.site.reading._schemas import SpecChecker

        written = plain(node)
        is_empty = written is None and schema.get("type") == "object"
        found[name] = {} if is_empty else written
        for place, message, hint in SpecChecker(schema).problems(found[name], node):
            findings.add(place, f"section `{name}`: {message}", hint)
    return found
