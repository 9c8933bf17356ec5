"""Evaluate the spec of a COB on a host: templates, files, defaults, and the type's schema.

A property of the schema with `x-cobweb: template` (or `source`) holds a path; the text of that
file, rendered for the host (or as it is), becomes the property `content` and takes its place. One
with `x-cobweb: tree` holds the path of a folder; the property `tree` takes its place.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb.errors import Place
from cobweb.generation import TREE
from cobweb.model import CobType
from cobweb.site.hosts._scope import EvaluationError, Evaluator, text_of
from cobweb.site.objects._cobs import CobDef
from cobweb.site.objects._file_trees import SpecTrees
from cobweb.site.reading._files import VAULT_HEADER, Files
from cobweb.site.reading._nodes import VAULT_KEY, Leaf, Node, is_vault, told_apart

if TYPE_CHECKING:
    from cobweb.site.reading._schemas import SpecChecker

MARK = "x-cobweb"
CONTENT = "content"

MAX_SHARED = 1000
"""So many different specs of one COB are kept to be shared by hosts where they are the same."""

_TEMPLATE, _SOURCE, _TREE = "template", "source", "tree"

FILLED: Mapping[str, str] = {_TEMPLATE: CONTENT, _SOURCE: CONTENT, _TREE: TREE}
"""Which property takes the place of one with a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """How the spec of a COB is made: what is the same on every host, and what has to be evaluated.

    `fixed` has all keys in their order. `shared` are the specs made so far, by what differs.
    """

    fixed: Mapping[str, Any]
    varying: tuple[tuple[str, Node], ...]
    marked: tuple[tuple[str, str], ...]
    shared: dict[tuple[Any, ...], Mapping[str, Any]] = field(default_factory=dict)

    @property
    def is_constant(self) -> bool:
        """Whether the spec is the same on every host."""
        return not self.varying and not self.marked

    def differences(self, spec: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return what tells a spec apart from those of other hosts; None if it is much."""
        names = [name for name, _ in self.varying]
        names += [FILLED[mode] for _, mode in self.marked]
        found = tuple(told_apart(spec.get(name)) for name in names)
        return None if None in found else found


class Specs:
    """Evaluates specs; what is the same on several hosts is checked once, and is one value."""

    def __init__(self, evaluator: Evaluator, files: Files) -> None:
        self._evaluator = evaluator
        self._files = files
        self._findings = files.findings
        self._checkers: dict[str, SpecChecker | None] = {}
        self._constants: dict[str, Mapping[str, Any]] = {}
        self._recipes: dict[str, _Recipe] = {}
        self._texts: dict[Path, tuple[Any, Place]] = {}
        self.trees = SpecTrees(evaluator, files)

    def evaluate(self, cob: CobDef, host: str) -> Mapping[str, Any]:
        """Return the spec of a COB on a host; findings say what is wrong with it."""
        if cob.name in self._constants:
            return self._constants[cob.name]
        if cob.name not in self._recipes:
            self._recipes[cob.name] = self._recipe(cob)
        recipe = self._recipes[cob.name]
        spec = self._made(cob, host, recipe)
        if recipe.is_constant:
            self._constants[cob.name] = spec
        return spec

    def _recipe(self, cob: CobDef) -> _Recipe:
        items = cob.spec.items if cob.spec else {}
        constants = {key: self._evaluator.constant(node) for key, node in items.items()}
        marked = marked_properties(cob.type)
        if _TREE in marked.values() and TREE in items:
            message = f"COB `{cob.name}`: `{TREE}` is what Cobweb makes of a folder"
            self._findings.add(items[TREE].place, message, "name the folder with `source`")
        return _Recipe(
            fixed={key: found and found.value for key, found in constants.items()},
            varying=tuple((key, node) for key, node in items.items() if constants[key] is None),
            marked=tuple((key, mode) for key, mode in marked.items() if key in items),
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
        differences = recipe.differences(spec)
        if differences in recipe.shared:
            return recipe.shared[differences]
        checked, fits = self._checked(cob, spec, "" if recipe.is_constant else host)
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

    def _fill(  # noqa: PLR0913, PLR0917  # of which object and how, and what trees take as well
        self, cob: CobDef, mode: str, host: str, spec: dict[str, Any], name: str, place: Place
    ) -> bool:
        """Put the text of a file into `content`; a finding and False where that fails."""
        path = spec.pop(name)
        if CONTENT in spec:
            message = f"COB `{cob.name}` has both `{name}` and `{CONTENT}`"
            self._findings.add(place, message, "keep one of them")
            return False
        found = self._text(path, place, name)
        if found is None:
            return False
        spec[CONTENT], in_file = found
        if mode == _SOURCE or is_vault(spec[CONTENT]):
            return True
        try:
            rendered = self._evaluator.scope(host).render(spec[CONTENT], in_file, file=True)
            spec[CONTENT] = rendered if is_vault(rendered) else text_of(rendered, in_file)
        except EvaluationError as error:
            self._findings.add(error.place, error.message, error.hint, host=host)
            return False
        return True

    def _text(self, name: object, place: Place, key: str) -> tuple[Any, Place] | None:
        """Return the text of a file, or the mark of a vaulted one, and its place."""
        if not isinstance(name, str) or not name:
            self._findings.add(place, f"`{key}` must be the path of a file")
            return None
        candidates = (self._files.folder(place) / name, self._files.site_dir / name)
        path = next((each for each in candidates if self._files.is_file(each)), None)
        if path is None:
            hint = "paths are relative to the site"
            absent = self._files.absent(f"file `{name}`", *candidates, otherwise=hint)
            self._findings.add(place, *absent)
            return None
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def _read(self, path: Path) -> tuple[Any, Place]:
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
