"""Read Coopr's entities from JSON files, and write what became of them as modules of a site.

A module that was written here says so in its first line, with the SHA-256 of the rest: one that
somebody has changed, or that is from elsewhere, is not overwritten.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError, UsageError
from cobweb.plugin import JsonError, json_file
from cobweb_plugins.cluster._coopr import KINDS, Entity, Notes, kind_of
from cobweb_plugins.cluster._coopr_shape import misshapen
from cobweb_plugins.cluster._yaml_text import yaml_lines

_HEAD = "# Written by `cobweb import coopr`; change the rest and it is yours. SHA-256: "
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")


def read_entities(source: Path, notes: Notes) -> list[Entity]:
    """Return the entities of a folder of JSON files, or of one file; sorted by kind and name.

    A file has one entity, a list of them, or an object with a list per kind, as Coopr exports it.
    The kind is that of the file's folder, of its name, or of what the entity has. UsageError where
    there is none at all; CobwebError for a file that is no JSON.
    """
    files = sorted(source.rglob("*.json")) if source.is_dir() else [source]
    if not source.exists():
        raise UsageError(f"there is no file or folder {source}", hint="name Coopr's entities")
    root = source if source.is_dir() else source.parent
    found = [each for file in files for each in _entities(file, root, notes)]
    if not found:
        raise UsageError(
            f"{source} has no entities of Coopr", hint=f"it needs folders {', '.join(KINDS)}"
        )
    named: dict[tuple[str, str], Entity] = {}
    for entity in found:
        first = named.setdefault((entity.kind, entity.name), entity)
        if first is not entity:
            why = f"{first.source} has one of this name already"
            notes.add(KINDS[entity.kind], entity.name, entity.source, why)
    order = list(KINDS)
    return sorted(named.values(), key=lambda it: (order.index(it.kind), it.name))


def _entities(file: Path, root: Path, notes: Notes) -> Iterator[Entity]:
    name = str(file.relative_to(root))
    try:
        data = json_file(file)
    except JsonError as error:
        raise CobwebError(str(error), hint="nothing was written") from error
    for listed, entity in _listed(data, _kind_by_name(file)):
        said = entity.get("name") if isinstance(entity, Mapping) else None
        kind = listed or (kind_of(entity) if isinstance(entity, Mapping) else "")
        if not kind or not isinstance(said, str):
            notes.add("", str(said or name), name, "it is no entity that Cobweb knows")
        elif not _NAME.fullmatch(said):
            why = "a name is of small letters, digits, `.`, `_` and `-`"
            notes.add(KINDS[kind], said, name, why)
        elif why := misshapen(kind, entity):
            notes.add(KINDS[kind], said, "", why)
        else:
            yield Entity(kind=kind, name=said, data=entity, source=name)


def _kind_by_name(file: Path) -> str:
    return next((each for each in (file.parent.name, file.stem) if each in KINDS), "")


def _listed(data: Any, kind: str) -> Iterator[tuple[str, Any]]:
    """Yield what a file has, each with its kind, "" where that is to be found out."""
    if isinstance(data, list):
        yield from ((kind, each) for each in data)
    elif isinstance(data, Mapping) and data.keys() & KINDS.keys():
        for each in KINDS:
            yield from ((each, entity) for entity in data.get(each) or ())
    else:
        yield kind, data


def module_text(
    part: str, entities: Mapping[str, Mapping[str, Any]], sources: Mapping[str, str]
) -> str:
    """Return a module of a site with one part of a catalog; each entity says where it is from."""
    lines = ["catalog:", f"  {part}:" if entities else f"  {part}: {{}}"]
    for name, words in entities.items():
        lines += _comment(sources.get(name, ""))
        lines += yaml_lines({name: words}, 2)
    return _sealed("\n".join(lines) + "\n")


def _comment(source: str) -> Iterable[str]:
    return [f"    # {source}"] if source else []


def _sealed(text: str) -> str:
    """Return a text with the first line that says who wrote it."""
    return f"{_HEAD}{_digest(text)}\n{text}"


def is_ours(text: str) -> bool:
    """Say whether a file is as it was written here."""
    head, _, rest = text.partition("\n")
    return head == f"{_HEAD}{_digest(rest)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def with_import(site_text: str, pattern: str) -> str | None:
    """Return the text of a `site.yml` that imports `pattern` too; None if that is not plain.

    The line `imports: [...]`, a list below `imports:`, or no `imports` at all can be extended.
    """
    lines = site_text.splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if re.match(r"imports\s*:", line)]
    if not places:
        first = next((n for n, line in enumerate(lines) if line.startswith("cobweb:")), None)
        if first is None:
            return None
        return _spliced(lines, first + 1, f"imports: [{json.dumps(pattern)}]\n")
    place = places[0]
    flow = re.fullmatch(r"(imports\s*:\s*\[)([^\[\]#]*)(\]\s*(?:#.*)?\n?)", lines[place])
    if flow:
        inner = flow[2].strip().rstrip(",")
        listed = f"{inner}, {json.dumps(pattern)}" if inner else json.dumps(pattern)
        lines[place] = f"{flow[1]}{listed}{flow[3]}"
        return "".join(lines)
    item = re.match(r"(\s*)- ", lines[place + 1]) if place + 1 < len(lines) else None
    if item and re.fullmatch(r"imports\s*:\s*(?:#.*)?\n", lines[place]):
        return _spliced(lines, place + 1, f"{item[1]}- {json.dumps(pattern)}\n")
    return None


def _spliced(lines: Sequence[str], place: int, line: str) -> str:
    before = "".join(lines[:place])
    newline = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{newline}{line}{''.join(lines[place:])}"
