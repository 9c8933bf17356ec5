"""Read a site: merge, resolve, and collect what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cobweb.errors import ModelError, Place, SiteError
from cobweb.plugin import ActionAdapter
from cobweb.site._documents import placed
from cobweb.site._evaluation import Evaluation, Parts
from cobweb.site._find import Foreign, site_file_of, state_url_of
from cobweb.site._key import base_key
from cobweb.site._modules import load_modules
from cobweb.site._sections import ExpandContext, Expanded, clashes, expand_all, joined
from cobweb.site.hosts._hosts import Inventory
from cobweb.site.hosts._patterns import Patterns
from cobweb.site.hosts._scope import Evaluator
from cobweb.site.hosts._select import Selector
from cobweb.site.hosts._sources import Sources
from cobweb.site.hosts._variables import Variables
from cobweb.site.objects._cobs import Cobs
from cobweb.site.objects._drift import read_drift
from cobweb.site.objects._limits import Limits
from cobweb.site.objects._references import References
from cobweb.site.objects._types import Types
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Map, at, plain
from cobweb.site.reading._settings import flag, known_keys, required, text

_KEYS = (
    *("cobweb", "name", "description", "present", "inventory", "state"),
    *("types", "cobs", "limits", "drift"),
)


def read_parts(site_file: Path, foreign: Foreign) -> Parts:
    """Return what the site is made of; SiteError with all findings of reading it."""
    findings = Findings()
    files = Files(site_file, findings, allow_outside=foreign.allow_outside)
    files.decided = foreign.decisions
    openers = (getattr(adapter, "unvaulted", None) for adapter in foreign.adapters)
    files.unvault = next(filter(None, openers), None)
    root = load_modules(site_file, files)
    sections = sections_of(root, foreign.sections, findings)
    expanders = () if findings else foreign.expanders
    context = ExpandContext(site_dir=files.site_dir, files=files, extensions=foreign.extensions)
    made = expand_all(root, sections, expanders, context)
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
    if not (made.asked or inventory.hosts or files.findings):
        files.findings.add(place, "the inventory has no hosts", "name some under a group's `hosts`")
    for name in sorted(inventory.hosts.keys() & inventory.groups.keys()):
        message = f"`{name}` is a host and a group: a pattern means the host"
        files.warnings.add(inventory.hosts[name].place, message, "rename one of them")
    folders = [folder for folder in sources.folders if files.resolve(folder) != files.site_dir]
    variables = Variables(inventory, [*folders, files.site_file.parent], files)
    variables.read_groups()
    return Evaluator(inventory, variables, made.functions), Patterns(inventory)


def _resolved(
    root: Map, files: Files, hosts: tuple[Evaluator, Patterns], foreign: Foreign, made: Expanded
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
    selector.made = frozenset(name for kind, name in made.makers if kind == "group")
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
        looks=tuple(it.look_at for it in foreign.adapters if isinstance(it, ActionAdapter)),
        files=files,
        evaluator=evaluator,
        patterns=patterns,
        cobs=cobs,
        references=references,
        limits=limits,
        ignored=ignored,
        sections={},
        releases=frozenset(made.releases),
    )


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

    They are as written: a command that edits them needs what they expand to in no way, and the
    site may be wrong everywhere else.
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
