"""The files of a site: everything that a site is made from is read here, and noted.

The notes are what was asked of the disk and what it said (contents by SHA-256, what there is under
a name, the members of a folder). As long as the disk says the same, the same site comes out.

A site has the files of its repository, and no others unless the user allows it: who writes a site
is not always who evaluates it. What is not for the site is answered as if it was not there, and
cannot be read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cobweb._text import is_below
from cobweb.errors import CobwebError, Place
from cobweb.model import Decisions
from cobweb.site.reading._findings import Findings, did_you_mean
from cobweb.site.reading._nodes import Node, kind, lift

VAULT_HEADER = b"$ANSIBLE_VAULT;"
"""What a vaulted file or value begins with."""

Notes = Mapping[tuple[str, str], str]
"""What was asked (a question's name; a path, after a NUL what else) -> what was said."""

DecisionReader = Callable[[], Mapping[str, Decisions]]
"""What all sections have that take decisions, as it is at one moment; asked for at most once."""

Unvault = Callable[[Path, Path], Mapping[str, Any]]
"""Opens a vaulted file of a site, whose folder comes second; each value in it stays vaulted."""

_FILE, _DIR, _NEITHER = "file", "dir", ""
DECISIONS = "decisions"

_SYSTEM = ("/proc", "/dev", "/sys")
"""What is there is the machine itself; no site has a use for it, whatever the user allows."""

_REFUSALS: Mapping[str, tuple[str, str]] = {
    "system": (
        "is of the running system, and never a file of a site",
        "write into the site what it needs of this",
    ),
    "outside": (
        "is outside of the site's repository",
        "move it there; `--allow-outside` if you trust all who write this site",
    ),
}
"""Why a path is not for a site, and what helps."""


class Member(NamedTuple):
    """An entry of a folder; links are followed."""

    path: Path
    is_dir: bool
    is_file: bool
    is_link: bool


def repository_of(folder: Path) -> Path:
    """Return the root of the Git repository that has a folder, or the folder where none has."""
    return next((it for it in (folder, *folder.parents) if os.path.lexists(it / ".git")), folder)


class Files:
    """Reads the files of a site; places name them relative to the site's folder.

    They are below its repository's root, links followed, or anywhere with `allow_outside`.
    """

    def __init__(self, site_file: Path, findings: Findings, *, allow_outside: bool = False) -> None:
        self.site_file = site_file.absolute()
        self.site_dir = site_file.parent.resolve()
        self.findings = findings
        self.warnings = Findings()
        """What is no mistake but worth a word."""
        self._root = "/" if allow_outside else str(repository_of(self.site_dir))
        self.notes: dict[tuple[str, str], str] = {}
        self.foreign = False
        """Whether a plugin was asked for hosts; the notes do not say all then."""
        self._changed: set[str] = set()
        self.decided: DecisionReader = dict
        self.unvault: Unvault | None = None

    @property
    def tell_all(self) -> bool:
        """Whether the notes say all that the site is made from, and the disk said it only so."""
        return not (self.foreign or self._changed)

    def name(self, path: Path) -> str:
        """Return the name of a file in places."""
        return os.path.relpath(path, self.site_dir)

    def folder(self, place: Place) -> Path:
        """Return the folder of the file that a place is in."""
        return (self.site_dir / place.file).parent

    def data(self, path: Path, most_bytes: int | None = None) -> bytes:
        """Return the bytes of a file; OSError where it cannot be read, or is not for the site.

        And where it has more than `most_bytes`, of a file that may be left out then.
        """
        if refusal := self.refusal(path):
            raise PermissionError(errno.EACCES, f"it {refusal[0]}")
        if most_bytes is not None and self._asked("larger", f"{path}\0{most_bytes}"):
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        data = path.read_bytes()
        self._note("data", str(path), hashlib.sha256(data).hexdigest())
        return data

    def is_file(self, path: Path) -> bool:
        """Say whether there is a file of this name."""
        return self.kind(path) == _FILE

    def is_dir(self, path: Path) -> bool:
        """Say whether there is a folder of this name."""
        return self.kind(path) == _DIR

    def installed(self, folder: Path) -> Files:
        """Return the files below a folder that no site names, wherever it is; noted here."""
        found = copy(self)
        vars(found)["_root"] = str(self.resolve(folder))
        return found

    def refusal(self, path: Path) -> tuple[str, str] | None:
        """Return why a path is not for the site to use, and what helps; None if it is."""
        real = self._asked("resolve", str(path)) + "/"
        if any(is_below(real, folder) for folder in _SYSTEM):
            return _REFUSALS["system"]
        return None if is_below(real, self._root) else _REFUSALS["outside"]

    def absent(self, what: str, *paths: Path, otherwise: str) -> tuple[str, str]:
        """Return message and hint for a name in the site: none of its `paths` can be used.

        `otherwise` is the hint where nothing beside the last path has a similar name.
        """
        refusals = [self.refusal(path) for path in paths]
        if refusals[-1] and all(refusals):
            return f"{what} {refusals[-1][0]}", refusals[-1][1]
        known = [each.path.name for each in self.members(paths[-1].parent)]
        hint = did_you_mean(paths[-1].name, known, otherwise=otherwise)
        return f"{what} does not exist", hint

    def resolve(self, path: Path) -> Path:
        """Return the absolute path, links followed."""
        return Path(self._asked("resolve", str(path)))

    def members(self, folder: Path) -> tuple[Member, ...]:
        """Return what is in a folder, sorted by name; nothing for what is none.

        A link that leads to what is not for the site is a file, which cannot be read.
        """
        if self.refusal(folder):
            return ()
        members = _members(str(folder))
        self._note("members", str(folder), _digest(members))
        return tuple(
            each._replace(is_dir=False, is_file=True)
            if each.is_link and self.refusal(each.path)
            else each
            for each in members
        )

    def glob(self, folder: Path, pattern: str) -> list[Path]:
        """Return the paths below a folder that a glob matches, sorted."""
        found = _glob(f"{folder}\0{pattern}")
        self._note("glob", f"{folder}\0{pattern}", _digest(found))
        return found

    def note_tree(self, folder: Path, exclude: tuple[str, ...], digest: str) -> None:
        """Note the digest of a folder's tree that was read."""
        self._note("tree", f"{folder}\0{json.dumps(exclude)}", digest)

    def read(
        self, path: Path, *, empty_hint: str = "", ansible: str = "", unvault: bool = False
    ) -> Node | None:
        """Return the document of a YAML or JSON file, None if it is empty or unreadable.

        With `empty_hint` an empty file is a finding. What is below the key `ansible`, or all of
        it, is read as Ansible does. With `unvault` the file may be vaulted as a whole.
        """
        try:
            data = self.data(path)
        except OSError as error:
            message = f"cannot read the file: {error.strerror or error}"
            _, hint = self.refusal(path) or ("", "")
            self.findings.add(Place(file=self.name(path)), message, hint)
            return None
        if data.startswith(VAULT_HEADER):
            return self._unvaulted(path, self.unvault if unvault else None)
        from cobweb.site.reading._yaml import read_yaml

        words: dict[str, list[Place]] = {}
        node, found = read_yaml(data, self.name(path), ansible=ansible, words=words)
        self.findings.extend(found)
        self._warn_of_words(words)
        if empty_hint and not found and (node is None or kind(node) == "nothing"):
            self.findings.add(Place(file=self.name(path)), "the file is empty", empty_hint)
        return node

    def _unvaulted(self, path: Path, unvault: Unvault | None) -> Node | None:
        where, message = Place(file=self.name(path)), "the whole file is vaulted"
        hint = "vault single values, as `ansible-vault encrypt_string` does"
        try:
            if unvault is not None:
                return lift(dict(unvault(path, self.site_dir)), where)
        except CobwebError as error:
            message, hint = error.message, error.hint
        self.findings.add(where, message, hint)
        return None

    def _warn_of_words(self, words: Mapping[str, list[Place]]) -> None:
        for word, places in words.items():
            said = "true" if word.lower() in ("yes", "on") else "false"
            more = f" and in {len(places) - 1} more places of this file" if places[1:] else ""
            message = f"`{word}` here{more} is read as {said}, as Ansible does"
            self.warnings.add(places[0], message, f"write `{said}`, or quote what is a text")

    def decisions(self, section: str) -> Decisions:
        """Return what was decided in a section of the site; it is noted as what a file says."""
        self._note(DECISIONS, section, _decided(self.decided, section))
        return self.decided().get(section, Decisions())

    def kind(self, path: Path) -> str:
        """Return "file" or "dir", links followed, and "" where there is neither for the site."""
        return _NEITHER if self.refusal(path) else self._asked("kind", str(path))

    def _note(self, question: str, path: str, said: str) -> None:
        """Note what was said first; that it was another thing later, too."""
        if self.notes.setdefault((question, path), said) != said:
            self._changed.add(path)

    def _asked(self, question: str, path: str) -> str:
        """Ask once: a site is evaluated as if its files were read at one moment."""
        key = (question, path)
        if key not in self.notes:
            self.notes[key] = _QUESTIONS[question](path)
        return self.notes[key]


def unchanged(notes: Notes, decisions: DecisionReader = dict) -> bool:
    """Say whether disk and decisions still say what was noted; reads every file that was read."""
    decided: Callable[[str], str] = partial(_decided, decisions)
    questions = {**_QUESTIONS, DECISIONS: decided}
    try:
        return all(questions[question](path) == said for (question, path), said in notes.items())
    except OSError:
        return False


def _decided(decisions: DecisionReader, section: str) -> str:
    """Return revision and digest: a database that was restored may give a number once more."""
    found = decisions().get(section, Decisions())
    return f"{found.revision} {_digest(found)}"


def _data(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _kind(name: str) -> str:
    if os.path.isfile(name):  # noqa: PTH113 - a name that is too long is that of no file
        return _FILE
    return _DIR if os.path.isdir(name) else _NEITHER  # noqa: PTH112 - as above


def _members(folder: str) -> tuple[Member, ...]:
    if _kind(folder) != _DIR:
        return ()
    with os.scandir(folder) as entries:
        found = [
            Member(Path(each.path), each.is_dir(), each.is_file(), each.is_symlink())
            for each in entries
        ]
    return tuple(sorted(found))


def _resolve(name: str) -> str:
    return name if "\0" in name else os.path.realpath(name)


def _tree(question: str) -> str:
    from cobweb.site.reading._file_trees import digest_of_folder

    folder, _, exclude = question.partition("\0")
    return digest_of_folder(Path(folder), tuple(json.loads(exclude)))


def _glob(question: str) -> list[Path]:
    folder, _, pattern = question.partition("\0")
    return sorted(Path(folder).glob(pattern))


def _larger(question: str) -> str:
    path, _, most_bytes = question.partition("\0")
    return "larger" if Path(path).stat().st_size > int(most_bytes) else ""


def _digest(values: object) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "surrogateescape")).hexdigest()


_QUESTIONS: Mapping[str, Callable[[str], str]] = {
    "data": _data,
    "larger": _larger,
    "kind": _kind,
    "members": lambda folder: _digest(_members(folder)),
    "glob": lambda question: _digest(_glob(question)),
    "tree": _tree,
    "resolve": _resolve,
}
"""How each question is asked."""
