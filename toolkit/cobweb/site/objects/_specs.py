"""Evaluate the spec of a COB on a host: templates, files, defaults, and the type's schema.

A property of the schema with `x-cobweb: template` (or `source`) holds a path; the text of that
file, rendered for the host (or as it is), becomes the property `content` and takes its place. One
with `x-cobweb: tree` holds the path of a folder; the property `tree` takes its place: the digest of
its archive.

Variables of the host that are content, as those that a role reads, become the property `inputs`
once the rest was checked; of a vaulted one the digest, so that a spec can be compared with an
applied one.

A folder is read once for all hosts. With `templates` its files that end in `.j2` are rendered per
host; the archive is made once per what comes out. The archives themselves are made when they are
asked for, from the folder again, so that a site is evaluated without holding them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb._lazy import Lazy
from cobweb.errors import Finding, Place, SiteError
from cobweb.generation import (
    INPUTS,
    TREE,
    TreeEntry,
    TreeKind,
    archive_of,
    in_order,
    redact,
    tree_digest,
)
from cobweb.model import CobType
from cobweb.site.hosts._scope import EvaluationError, Evaluator, text_of
from cobweb.site.objects._cobs import CobDef
from cobweb.site.reading._file_trees import TreeFolder
from cobweb.site.reading._files import VAULT_HEADER, Files
from cobweb.site.reading._nodes import VAULT_KEY, Leaf, Node, holds_vault, is_vault, told_apart

if TYPE_CHECKING:
    from cobweb.site.reading._schemas import SpecChecker

MARK = "x-cobweb"
CONTENT = "content"

MAX_SHARED = 1000
"""So many different specs of one COB are kept to be shared by hosts where they are the same."""

_ENDING = ".j2"
_VAULTED = "what is in a tree is stored as it is"
_TEMPLATE, _SOURCE, _TREE = "template", "source", "tree"

FILLED: Mapping[str, str] = {_TEMPLATE: CONTENT, _SOURCE: CONTENT, _TREE: TREE}
"""Which property takes the place of one with a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """How the spec of a COB is made: what is the same on every host, and what has to be evaluated.

    `fixed` has all keys in their order. `inputs` says which variables are content. `shared` are the
    specs made so far, by what differs.
    """

    fixed: Mapping[str, Any]
    varying: tuple[tuple[str, Node], ...]
    marked: tuple[tuple[str, str], ...]
    inputs: Callable[[str], bool] | None
    shared: dict[tuple[Any, ...], Mapping[str, Any]] = field(default_factory=dict)

    @property
    def is_constant(self) -> bool:
        """Whether the spec is the same on every host."""
        return not self.varying and not self.marked

    def differences(self, spec: dict[str, Any], inputs: dict[str, Any]) -> tuple[Any, ...] | None:
        """Return what tells a spec apart from those of other hosts; None if it is much."""
        names = [name for name, _ in self.varying]
        names += [FILLED[mode] for _, mode in self.marked]
        found = tuple(told_apart(spec.get(name)) for name in names)
        if None in found:
            return None
        # What is large has an id of its own as long as a shared spec holds it.
        return (*found, *inputs, *(told_apart(value) or id(value) for value in inputs.values()))


class Specs:
    """Evaluates specs; what is the same on several hosts is checked once, and is one value."""

    def __init__(self, evaluator: Evaluator, files: Files) -> None:
        self._evaluator = evaluator
        self._files = files
        self._findings = files.findings
        self._checkers: dict[str, SpecChecker | None] = {}
        self._constants: dict[str, Mapping[str, Any]] = {}
        self._recipes: dict[str, _Recipe] = {}
        self._read_once = cache(self._read)
        self.trees = SpecTrees(evaluator, files)

    def evaluate(self, cob: CobDef, host: str) -> Mapping[str, Any]:
        """Return the spec of a COB on a host; findings say what is wrong with it."""
        if cob.name in self._constants:
            return self._constants[cob.name]
        if cob.name not in self._recipes:
            self._recipes[cob.name] = self._recipe(cob)
        recipe = self._recipes[cob.name]
        spec = self._made(cob, host, recipe)
        if recipe.is_constant and recipe.inputs is None:
            self._constants[cob.name] = spec
        return spec

    def _recipe(self, cob: CobDef) -> _Recipe:
        items = cob.spec.items if cob.spec else {}
        constants = {key: self._evaluator.constant(node) for key, node in items.items()}
        marked = marked_properties(cob.type)
        if _TREE in marked.values() and TREE in items:
            message = f"COB `{cob.name}`: `{TREE}` is what Cobweb makes of a folder"
            self._findings.add(items[TREE].place, message, "name the folder with `source`")
        globs = cob.type.input_globs()
        counts = cache(lambda name: any(fnmatchcase(name, glob) for glob in globs))
        schema = cob.type.spec_schema or {}
        if globs and (INPUTS in items or INPUTS in schema.get("properties", {})):
            message = f"COB `{cob.name}`: `{INPUTS}` of a spec is what Cobweb makes of variables"
            hint = f"use another word, or write `inputs: []` in type `{cob.type.name}`"
            self._findings.add(items[INPUTS].place if INPUTS in items else cob.place, message, hint)
        return _Recipe(
            fixed={key: found and found.value for key, found in constants.items()},
            varying=tuple((key, node) for key, node in items.items() if constants[key] is None),
            marked=tuple((key, mode) for key, mode in marked.items() if key in items),
            inputs=counts if globs else None,
        )

    def _made(self, cob: CobDef, host: str, recipe: _Recipe) -> Mapping[str, Any]:
        spec = self._values(recipe, host)
        if spec is None:
            return {}
        for key, mode in recipe.marked:
            assert cob.spec is not None
            place = cob.spec.items[key].place
            fill = self.trees.fill if mode == _TREE else partial(self._fill, cob, mode)
            if not fill(host, spec, key, place):
                return spec
        inputs = self._inputs(recipe.inputs, host) if recipe.inputs else {}
        differences = recipe.differences(spec, inputs)
        if differences in recipe.shared:
            return recipe.shared[differences]
        checked, fits = self._checked(cob, spec, "" if recipe.is_constant else host)
        if inputs:
            checked = {**checked, INPUTS: redact(inputs) if holds_vault(inputs) else inputs}
        if fits and differences is not None and len(recipe.shared) < MAX_SHARED:
            recipe.shared[differences] = checked
        return checked

    def _checked(
        self, cob: CobDef, spec: dict[str, Any], shown_host: str
    ) -> tuple[Mapping[str, Any], bool]:
        """Return a spec with its defaults, and whether it fits its type; findings if not."""
        checker = self._checker(cob.type)
        if checker is None:
            return spec, True
        spec = checker.complete(spec)
        node: Node = cob.spec or Leaf(value=None, place=cob.place)
        problems = list(checker.problems(spec, node))
        for place, message, hint in problems:
            self._findings.add(place, f"COB `{cob.name}`: {message}", hint, host=shown_host)
        return spec, not problems

    def _values(self, recipe: _Recipe, host: str) -> dict[str, Any] | None:
        """Return the evaluated entries; each template that fails is a finding of its own."""
        spec = dict(recipe.fixed)
        failed = False
        for key, node in recipe.varying:
            try:
                spec[key] = self._evaluator.scope(host).evaluate(node)
            except EvaluationError as error:
                self._findings.add(error.place, error.message, error.hint, host=host)
                failed = True
        return None if failed else spec

    def _inputs(self, counts: Callable[[str], bool], host: str) -> dict[str, Any]:
        """Return the variables of a host that count; what only Ansible can evaluate as its text."""
        own, shared = self._evaluator.variables.of(host)
        nodes, evaluate = {**shared, **own}, self._evaluator.scope(host).evaluate
        return {it: evaluate(nodes[it], as_written=True) for it in sorted(filter(counts, nodes))}

    def _fill(  # noqa: PLR0913, PLR0917  # of which object and how, and what trees take as well
        self, cob: CobDef, mode: str, host: str, spec: dict[str, Any], name: str, place: Place
    ) -> bool:
        """Put the text of a file into `content`; a finding and False where that fails."""
        written = spec.pop(name)
        if CONTENT in spec:
            message = f"COB `{cob.name}` has both `{name}` and `{CONTENT}`"
            self._findings.add(place, message, "keep one of them")
            return False
        path = _path(written, name, place, self._files)
        if path is None:
            return False
        spec[CONTENT], in_file = self._read_once(path)
        if mode == _SOURCE or is_vault(spec[CONTENT]):
            return True
        try:
            rendered = self._evaluator.scope(host).render(spec[CONTENT], in_file, file=True)
            spec[CONTENT] = rendered if is_vault(rendered) else text_of(rendered, in_file)
        except EvaluationError as error:
            self._findings.add(error.place, error.message, error.hint, host=host)
            return False
        return True

    def _read(self, path: Path) -> tuple[Any, Place]:
        """Return the text of a file, or the mark of a vaulted one, and its place."""
        place = Place(file=self._files.name(path))
        text: Any = ""
        try:
            data = self._files.data(path)
            text = data.decode("utf-8")
            if data.startswith(VAULT_HEADER):
                text = {VAULT_KEY: text}
        except OSError as error:
            self._findings.add(place, f"cannot read the file: {error.strerror or error}")
        except UnicodeDecodeError:
            self._findings.add(place, "the file is not UTF-8", "only text can be a content")
        return text, place

    def _checker(self, cob_type: CobType) -> SpecChecker | None:
        if cob_type.name not in self._checkers:
            from cobweb.site.reading._schemas import SpecChecker

            schema = cob_type.spec_schema
            self._checkers[cob_type.name] = None if schema is None else SpecChecker(schema)
        return self._checkers[cob_type.name]


def marked_properties(cob_type: CobType, marks: Container[str] = FILLED) -> dict[str, str]:
    """Return the properties of a type with one of `marks`, each with its mark.

    Those of `FILLED` name files or folders.
    """
    properties: Mapping[str, Any] = (cob_type.spec_schema or {}).get("properties", {})
    return {
        name: part[MARK]
        for name, part in properties.items()
        if isinstance(part, dict) and part.get(MARK) in marks
    }


@dataclass(slots=True, kw_only=True)
class _Packed:
    """A folder that was read; `mark` is what specs say of it, `entries` are kept for templates."""

    folder: Path
    exclude: tuple[str, ...]
    mark: Mapping[str, Any] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    entries: list[TreeEntry] | None = None
    rendered: dict[tuple[str, ...], Mapping[str, Any]] = field(default_factory=dict)

    def read(self) -> Iterator[TreeEntry]:
        """Yield its entries as they are now."""
        return TreeFolder(self.folder, self.exclude).entries()


class SpecTrees:
    """Puts trees into specs, and makes their archives."""

    def __init__(self, evaluator: Evaluator, files: Files) -> None:
        self._evaluator = evaluator
        self._files = files
        self._findings = files.findings
        self._packed: dict[tuple[Path, tuple[str, ...]], _Packed] = {}
        self._made: dict[str, tuple[Place, Callable[[], Iterable[TreeEntry]]]] = {}

    @property
    def archives(self) -> Mapping[str, bytes]:
        """The archives of the trees in the specs so far, by digest; each made when asked for.

        SiteError where a folder has changed since.
        """
        return Lazy(self._made, self._archive)

    def fill(self, host: str, spec: dict[str, Any], key: str, place: Place) -> bool:
        """Put the tree of the folder that `key` names in its place; a finding and False if not."""
        name, has_templates = spec.pop(key), spec.get("templates") is True
        folder = _path(name, key, place, self._files, is_folder=True)
        if folder is None:
            return False
        packed = self._read(folder, _globs(spec.get("exclude")), keep=has_templates)
        for message, hint in packed.problems:
            self._findings.add(place, f"folder `{name}`: {message}", hint)
        if packed.problems:
            return False
        if not has_templates:
            self._made.setdefault(packed.mark["digest"], (place, packed.read))
            spec[TREE] = packed.mark
            return True
        mark = self._rendered(packed, host, place)
        if mark is not None:
            spec[TREE] = mark
        return mark is not None

    def _read(self, folder: Path, exclude: tuple[str, ...], *, keep: bool) -> _Packed:
        """Return a folder that is read; `keep` its files, for templates ask for them."""
        packed = self._packed.setdefault((folder, exclude), _Packed(folder=folder, exclude=exclude))
        is_read = packed.entries is not None if keep else bool(packed.mark)
        if is_read or packed.problems:
            return packed
        found = TreeFolder(folder, exclude)
        if not found.problems:
            entries = _unvaulted(found)
            packed.entries = list(entries) if keep else None
            packed.mark = tree_digest(entries if packed.entries is None else packed.entries)
        packed.problems = found.problems
        if not packed.problems:
            self._files.note_tree(packed.folder, packed.exclude, packed.mark["digest"])
        return packed

    def _archive(self, digest: str) -> bytes:
        place, entries = self._made[digest]
        archive = b"".join(archive_of(entries()))
        if hashlib.sha256(archive).hexdigest() != digest:
            message = "the folder has changed while it was read"
            finding = Finding(place=place, message=message, hint="run the command again")
            raise SiteError((finding,))
        return archive

    # --- templates

    def _rendered(self, packed: _Packed, host: str, place: Place) -> Mapping[str, Any] | None:
        """Return what a spec says of a tree with its templates rendered; None with findings."""
        assert packed.entries is not None
        templates = [each for each in packed.entries if _is_template(each)]
        texts = [self._text(each, packed, host) for each in templates]
        if not self._are_apart(packed, place) or None in texts:
            return None
        known = tuple(text for text in texts if text is not None)
        if known not in packed.rendered:
            named = {it.name: it for it in packed.entries if not _is_template(it)}
            for it, text in zip(templates, known, strict=True):
                named[_shortened(it)] = replace(it, name=_shortened(it), data=text.encode())
            entries = [named[name] for name in in_order(named)]
            mark = packed.rendered[known] = tree_digest(entries)
            self._made.setdefault(mark["digest"], (place, lambda: entries))
        return packed.rendered[known]

    def _text(self, template: TreeEntry, packed: _Packed, host: str) -> str | None:
        place = Place(file=self._files.name(packed.folder / template.name))
        try:
            text = template.data.decode()
            found = self._evaluator.scope(host).render(text, place, file=True)
            if not is_vault(found):
                return text_of(found, place)
        except UnicodeDecodeError:
            self._findings.add(place, "the file is not UTF-8", "only text can be a template")
            return None
        except EvaluationError as error:
            self._findings.add(error.place, error.message, error.hint, host=host)
            return None
        hint = f"{_VAULTED}; write this file with a COB of type `file`"
        self._findings.add(place, "the template gives a vaulted value", hint, host=host)
        return None

    def _are_apart(self, packed: _Packed, place: Place) -> bool:
        """Say whether no two files have one name once the templates have lost their ending."""
        assert packed.entries is not None
        names = {entry.name for entry in packed.entries}
        twice = [it.name for it in packed.entries if _is_template(it) and _shortened(it) in names]
        for name in twice:
            both = f"both `{name}` and the file that it becomes"
            message = f"folder `{packed.folder.name}` has {both}"
            self._findings.add(place, message, "remove one of them")
        return not twice


def _path(
    name: object, key: str, place: Place, files: Files, *, is_folder: bool = False
) -> Path | None:
    """Return the file or the folder that `key` of a spec names; None with a finding for none."""
    what = "folder" if is_folder else "file"
    if not isinstance(name, str) or not name:
        files.findings.add(place, f"`{key}` must be the path of a {what}")
        return None
    candidates = (files.folder(place) / name, files.site_dir / name)
    path = next(filter(files.is_dir if is_folder else files.is_file, candidates), None)
    if path is None and is_folder and any(map(files.is_file, candidates)):
        hint = "name a folder; a COB of type `file` takes one file"
        files.findings.add(place, f"`{name}` is no folder", hint)
    elif path is None:
        hint = "paths are relative to the site"
        files.findings.add(place, *files.absent(f"{what} `{name}`", *candidates, otherwise=hint))
    return path


def _globs(value: object) -> tuple[str, ...]:
    """Return the globs of a spec; what is none is for its schema to say."""
    return tuple(it for it in value if isinstance(it, str)) if isinstance(value, list) else ()


def _unvaulted(found: TreeFolder) -> Iterator[TreeEntry]:
    """Yield the entries of a folder; one that is vaulted is a problem."""
    for entry in found.entries():
        if entry.data.startswith(VAULT_HEADER):
            hint = f"{_VAULTED}; `exclude` it, and write it with a COB of type `file`"
            found.problems.append((f"`{entry.name}` is vaulted", hint))
        yield entry


def _is_template(entry: TreeEntry) -> bool:
    name = entry.name.rpartition("/")[2]
    return entry.kind is TreeKind.FILE and name.endswith(_ENDING) and name != _ENDING


def _shortened(entry: TreeEntry) -> str:
    return entry.name.removesuffix(_ENDING)
