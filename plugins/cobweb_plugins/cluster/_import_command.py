"""`cobweb import coopr`: the published entities of Coopr become modules of the site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from textwrap import wrap
from typing import Any

import click

from cobweb.errors import CobwebError, ModelError, UsageError
from cobweb.plugin import SiteAccess, site_access
from cobweb_plugins.cluster._automators import task_file
from cobweb_plugins.cluster._catalog_read import read_catalog
from cobweb_plugins.cluster._coopr import KINDS, Notes, converted
from cobweb_plugins.cluster._coopr_files import is_ours, module_text, read_entities, with_import
from cobweb_plugins.cluster._coopr_fit import fitted, sound
from cobweb_plugins.cluster._edit import SiteEdit
from cobweb_plugins.cluster._groups import import_command

WIDTH = 80


@import_command.command("coopr", epilog="\b\nExamples:\n  cobweb import coopr ../coopr-templates")
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--into",
    metavar="FOLDER",
    default="catalog",
    show_default=True,
    help="The folder of the site that the catalog is written to.",
)
@click.pass_context
def _coopr(context: click.Context, source: Path, into: str) -> None:
    """Read Coopr's JSON entities into the site's catalog.

    DIR has folders providers, hardwaretypes, imagetypes, services and
    clustertemplates; it may also be one JSON file. What refers to something
    that is not there is left out, and all that is left out is told.
    """
    site = site_access(context)
    _tell(site, import_coopr(site, source, into))


def import_coopr(site: SiteAccess, source: Path, into: str) -> dict[str, Any]:
    """Write what became of Coopr's entities, and return what `-o json` writes of that.

    Nothing is changed where the site is not sound before or after, or a file is not ours.
    """
    folder = PurePosixPath(into)
    if folder.is_absolute() or ".." in folder.parts or folder == PurePosixPath():
        raise UsageError(f"{into} is no folder below the site", hint="as in --into catalog")
    notes = Notes()
    entities = read_entities(source, notes)
    made: dict[str, dict[str, Any]] = {part: {} for part in KINDS.values()}
    sources = {}
    for entity in entities:
        made[KINDS[entity.kind]][entity.name] = converted(entity, notes)
        sources[KINDS[entity.kind], entity.name] = entity.source
    catalog = site.sections().get("catalog") or {}
    parts = fitted(made, catalog, notes)
    wanted, _ = _automators(site, folder, parts, catalog)
    own = {**catalog, "automators": {**(catalog.get("automators") or {}), **wanted}}
    parts = sound(parts, own, site.plugins.sections["catalog"].schema, notes)
    modules = {part: module_text(part, parts[part], _of(part, sources)) for part in parts}
    wanted, automators = _automators(site, folder, parts, catalog)
    if wanted:
        modules["automators"] = module_text("automators", wanted, {})
    files = {f"{folder}/{part}.yml": text for part, text in modules.items()}
    files = {name: text for name, text in files.items() if _worth_it(site, name, text)}
    _write(site, folder, {**files, **automators}, parts)
    return {
        "format": 1,
        "into": str(folder),
        "files": sorted([*files, *automators]),
        "imported": {part: sorted(parts[part]) for part in parts},
        "left_out": [
            {"kind": it.kind, "name": it.name, "what": it.what, "why": it.why} for it in notes.items
        ],
    }


def _of(part: str, sources: Mapping[tuple[str, str], str]) -> dict[str, str]:
    return {name: source for (kind, name), source in sources.items() if kind == part}


def _worth_it(site: SiteAccess, name: str, text: str) -> bool:
    """Say whether a module has to be written: it has entities, or had some."""
    return "\n    " in text or site.read(name) is not None


def _automators(
    site: SiteAccess,
    folder: PurePosixPath,
    parts: Mapping[str, Mapping[str, Any]],
    catalog: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the automators that the site lacks, and their task files where there are none."""
    used = {
        action["automator"]
        for service in parts["services"].values()
        for action in service["actions"].values()
        if "automator" in action
    }
    ours = site.read(f"{folder}/automators.yml") or ""
    known = catalog.get("automators") or {}
    missing = [it for it in sorted(used) if it not in known or f"\n    {it}:\n" in ours]
    wanted = {name: {"tasks": f"{folder}/automators/{name}.yml"} for name in missing}
    texts = {words["tasks"]: task_file(name) for name, words in wanted.items()}
    return wanted, {name: text for name, text in texts.items() if site.read(name) is None}


def _write(
    site: SiteAccess,
    folder: PurePosixPath,
    files: Mapping[str, str],
    parts: Mapping[str, Mapping[str, Any]],
) -> None:
    for name in files:
        text = site.read(name)
        if text is not None and not is_ours(text):
            message = f"{name} was not written by `cobweb import coopr`, or was changed since"
            raise CobwebError(message, hint="name another folder with --into; nothing was written")
    with SiteEdit(site.dir, site.summary) as edit:
        for name, text in files.items():
            (site.dir / name).parent.mkdir(parents=True, exist_ok=True)
            edit.write(name, text)
        if not _is_read(site, parts):
            _add_import(site, edit, f"{folder}/*.yml")
        try:
            read_catalog(site.sections())
        except ModelError as error:
            raise site.placed(error) from error


def _is_read(site: SiteAccess, parts: Mapping[str, Mapping[str, Any]]) -> bool:
    catalog = site.sections().get("catalog") or {}
    return all(parts[part].keys() <= (catalog.get(part) or {}).keys() for part in parts)


def _add_import(site: SiteAccess, edit: SiteEdit, pattern: str) -> None:
    text = with_import(site.read("site.yml") or "", pattern)
    if text is None:
        hint = f"write `- {pattern}` there yourself, and call the command again"
        raise CobwebError("`imports` of site.yml cannot be extended", hint=hint)
    edit.write("site.yml", text)


def _tell(site: SiteAccess, data: Mapping[str, Any]) -> None:
    if site.data(data):
        return
    rows = [(part, ", ".join(names)) for part, names in data["imported"].items() if names]
    site.table(("PART", "IMPORTED"), rows)
    for it in data["left_out"]:
        what = f": {it['what']}" if it["what"] else ""
        text = f"left out: {it['kind']} {it['name']}{what} ({it['why']})"
        for line in wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False):
            site.line(line)
    count = sum(len(names) for names in data["imported"].values())
    left_out = len(data["left_out"])
    site.summary(f"{count} entities in {data['into']}, {left_out} things left out")
