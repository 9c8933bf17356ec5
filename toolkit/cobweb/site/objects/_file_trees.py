"""Specs with a file tree: a folder of the site becomes the digest of its archive.

A folder is read once for all hosts. With `templates` its files that end in `.j2` are rendered per
host; the archive is made once per what comes out. The archives themselves are made when they are
asked for, from the folder again, so that a site is evaluated without holding them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cobweb._lazy import Lazy
from cobweb.errors import Finding, Place, SiteError
from cobweb.generation import TREE, TreeEntry, TreeKind, archive_of, in_order, tree_digest
from cobweb.site.hosts._scope import EvaluationError, Evaluator, text_of
from cobweb.site.reading._file_trees import TreeFolder
from cobweb.site.reading._files import VAULT_HEADER, Files
from cobweb.site.reading._nodes import is_vault

_ENDING = ".j2"
_VAULTED = "what is in a tree is stored as it is"


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
        folder = self._folder(name, key, place)
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

    def _folder(self, name: object, key: str, place: Place) -> Path | None:
        if not isinstance(name, str) or not name:
            self._findings.add(place, f"`{key}` must be the path of a folder")
            return None
        candidates = (self._files.folder(place) / name, self._files.site_dir / name)
        for path in candidates:
            if self._files.is_dir(path):
                return path
        if any(self._files.is_file(path) for path in candidates):
            hint = "name a folder; a COB of type `file` takes one file"
            self._findings.add(place, f"`{name}` is no folder", hint)
            return None
        hint = "paths are relative to the site"
        absent = self._files.absent(f"folder `{name}`", *candidates, otherwise=hint)
        self._findings.add(place, *absent)
        return None

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
            made = [
                replace(it, data=text.encode()) for it, text in zip(templates, known, strict=True)
            ]
            entries = _named(packed.entries, {it.name: it for it in made})
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


def _named(entries: Iterable[TreeEntry], made: Mapping[str, TreeEntry]) -> list[TreeEntry]:
    """Return entries with those that were `made` of templates, by their names of before."""
    found = {}
    for entry in entries:
        it = made.get(entry.name, entry)
        name = _shortened(it) if entry.name in made else it.name
        found[name] = replace(it, name=name)
    return [found[name] for name in in_order(found)]
