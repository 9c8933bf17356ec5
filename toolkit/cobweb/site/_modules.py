"""Read `site.yml` and all that it imports, and merge the modules into one mapping.

Imports come before the file that imports them, in the order of writing; a file that several import
is read once. Paths are relative to the file that names them; a glob stands for its files, sorted.
Merge modules as Nix does (lib/modules.nix): by key, by concatenation, or by priority.

Of the definitions of one value only those with the highest priority count. If several are left,
mappings merge by key, lists are joined in the order of the modules, and scalars must be equal.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cobweb.errors import Place
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Map, Node, Seq, kind, plain
from cobweb.site.reading._settings import as_map, texts

MAX_MODULES = 1000
"""More imported files are a finding."""

MAX_IMPORT_DEPTH = 100
"""So many files may import each other in a chain."""

MADE_HINT = "run `cobweb generate`, which makes the files of that folder"

_FORMAT = 1
_EMPTY_HINT = "write at least `cobweb: 1`, or run `cobweb init`"


def load_modules(path: Path, files: Files) -> Map:
    """Return the merged modules of the site at `path`; findings say what is wrong with them.

    SiteError with these where nothing is left to merge.
    """
    modules: list[Map] = []
    _load(files.resolve(path), files, modules, [], {})
    if not modules:
        files.findings.raise_if_any()
        raise AssertionError("a site without a mapping has findings")
    merged = merge(modules, files.findings)
    assert isinstance(merged, Map)
    return merged


def _load(
    path: Path, files: Files, modules: list[Map], chain: list[Path], done: dict[Path, bool]
) -> None:
    if done.setdefault(path, False) or len(done) > MAX_MODULES:
        return
    done[path] = True
    node = files.read(path, empty_hint=_EMPTY_HINT, ansible="inventory")
    if isinstance(node, Seq):
        hint = "is it a playbook? Name the site's file by `-C`, as in `-C cluster.yml`"
        files.findings.add(node.place, "a site file must be a mapping, not a list", hint)
        return
    module = as_map(node, "a site file", files.findings)
    if module is None:
        return
    _check_format(module, path, files, main=not chain)
    for imported, place in _imports(module, path, files):
        if imported in (*chain, path):
            ring = [*chain, path, imported]
            ring = ring[ring.index(imported) :]
            names = " -> ".join(files.name(step) for step in ring)
            files.findings.add(place, f"imports go in a circle: {names}", "leave one of them out")
            continue
        if len(done) > MAX_MODULES:
            files.findings.add(place, f"more than {MAX_MODULES} imported files")
        if len(chain) + 1 >= MAX_IMPORT_DEPTH:
            message = f"more than {MAX_IMPORT_DEPTH} files import each other in a chain"
            files.findings.add(place, message, "import some of them from a file further up")
            continue
        _load(imported, files, modules, [*chain, path], done)
    modules.append(_with_paths(module, files))


def _check_format(module: Map, path: Path, files: Files, *, main: bool) -> None:
    value = module.items.get("cobweb")
    if value is None:
        if main:
            place = Place(file=files.name(path), line=1, column=1)
            files.findings.add(place, "the site lacks `cobweb`", "write `cobweb: 1` at the top")
        return
    if not isinstance(value, Leaf) or value.value != _FORMAT or value.value is True:
        shown = f" `{value.value}`" if isinstance(value, Leaf) else ""
        hint = f"this version of Cobweb reads `cobweb: {_FORMAT}`"
        files.findings.add(value.place, f"unknown format version{shown}", hint)


def _imports(module: Map, path: Path, files: Files) -> list[tuple[Path, Place]]:
    found: list[tuple[Path, Place]] = []
    for name, place in texts(module, "imports", "the site", files.findings):
        folder = files.folder(place)
        named = [folder / name]
        if any(sign in name for sign in "*?[") and not Path(name).is_absolute():
            named = [each for each in files.glob(folder, name) if files.resolve(each) != path]
        paths = [each for each in named if files.is_file(each)]
        refused = next((each for each in named if files.refusal(each)), None)
        if refused or not paths:
            near = f"imports are relative to {folder.name}/, the folder of the file that names them"
            target = refused or folder / name
            message, hint = files.absent(f"imported file `{name}`", target, otherwise=near)
            if not refused and os.path.lexists(target):
                message, hint = f"imported file `{name}` is no file", ""
            is_made = not refused and _is_made(module, name)
            files.findings.add(place, message, MADE_HINT if is_made else hint)
        found += [(files.resolve(each), place) for each in paths]
    return found


def _is_made(module: Map, name: str) -> bool:
    """Say whether a file would be in a folder that `generate` writes to."""
    models = module.items.get("generate")
    bodies = models.items.values() if isinstance(models, Map) else ()
    named = [body.items.get("into") for body in bodies if isinstance(body, Map)]
    folders = {into.value if isinstance(into, Leaf) else "generated" for into in named}
    return any(Path(name).parent == Path(str(folder)) for folder in folders)


def _with_paths(module: Map, files: Files) -> Map:
    """Make paths of inventory sources absolute, so that merging compares files, not spelling."""
    items = {key: value for key, value in module.items.items() if key != "imports"}
    if "inventory" in items:
        items["inventory"] = _absolute(items["inventory"], files)
    return replace(module, items=items)


def _absolute(node: Node, files: Files) -> Node:
    if isinstance(node, Seq):
        return replace(node, items=tuple(_absolute(item, files) for item in node.items))
    if not (isinstance(node, Leaf) and isinstance(node.value, str) and node.value):
        return node
    return replace(node, value=os.path.normpath(files.folder(node.place) / node.value))


def merge(nodes: Sequence[Node], findings: Findings, name: str = "") -> Node:
    """Return one value from its definitions (at least one), in the order of the modules.

    `name` is the path of the value in messages. On a conflict the first definition is kept.
    """
    highest = max(node.priority for node in nodes)
    chosen = [node for node in nodes if node.priority == highest]
    pushed = [node.place for node in nodes if node.priority != highest]
    pushed += [place for node in nodes for place in node.over]
    merged = chosen[0] if len(chosen) == 1 else _join(chosen, findings, name)
    return replace(merged, over=tuple(dict.fromkeys(pushed))) if pushed else merged


def _join(nodes: Sequence[Node], findings: Findings, name: str) -> Node:
    first = nodes[0]
    maps = [node for node in nodes if isinstance(node, Map)]
    if len(maps) == len(nodes):
        return _join_maps(maps, findings, name)
    lists = [node for node in nodes if isinstance(node, Seq)]
    if len(lists) == len(nodes):
        items = tuple(item for node in lists for item in node.items)
        return replace(lists[0], items=items)
    for other in nodes[1:]:
        if not _same(first, other):
            is_alike = kind(first) == kind(other)
            what = "another value" if is_alike else f"{kind(first)}, not {kind(other)},"
            hint = "keep one of them, or mark one with `!default` or `!force`"
            findings.add(other.place, f"`{name}` has {what} at {first.place}", hint)
    return first


def _join_maps(maps: Sequence[Map], findings: Findings, name: str) -> Map:
    found: dict[str, list[Node]] = {}
    keys: dict[str, Place] = {}
    for node in maps:
        for key, value in node.items.items():
            found.setdefault(key, []).append(value)
            keys.setdefault(key, node.keys.get(key, node.place))
    items = {
        key: values[0] if len(values) == 1 else merge(values, findings, f"{name}.{key}".strip("."))
        for key, values in found.items()
    }
    return replace(maps[0], items=items, keys=keys)


def _same(one: Node, other: Node) -> bool:
    if not (isinstance(one, Leaf) and isinstance(other, Leaf)):
        return False
    return type(one.value) is type(other.value) and plain(one) == plain(other)
