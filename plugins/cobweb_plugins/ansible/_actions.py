"""What is wrong with the task files and roles that a site names, as far as it can be read.

A job is a play of its own, of one host. What a role says of the other hosts of its play would mean
something else than in a playbook, so it is refused where an object may be on several hosts and its
action does not go `together`. And a check in check mode knows nothing of what Ansible's check mode
cannot look at, which is worth a word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import yaml
from yaml.nodes import SequenceNode

from cobweb.errors import Finding, Place
from cobweb.model import Role, Tasks
from cobweb.plugin import ActionUse, SiteFiles
from cobweb_plugins.ansible._role_files import MAX_BYTES, FoundRole, Roles
from cobweb_plugins.ansible._task_words import (
    MAGIC_WORDS,
    Part,
    Position,
    Words,
    tasks_node,
    words_of,
)

_OWN_PLAY = "each instance of a COB has a play of its own"
_MEANS: Mapping[str, str] = {
    "run_once": "would run on each host",
    "throttle": "would hold nobody back",
    "any_errors_fatal": "would stop no other host",
    "max_fail_percentage": "would count one host",
}
_ELSE: Mapping[str, str] = {
    "run_once": "put it into a COB of its own on one host",
    "throttle": "leave it out: limits say how many go at once",
    "any_errors_fatal": "leave it out: needs say who waits for whom",
    "max_fail_percentage": "leave it out: `apply --max-failures` counts them",
}
_BLIND = "`{}` cannot be looked at in check mode"
_BLIND_HINT = (
    "give it `check_mode: false` and `changed_when` if it only reads; else what it would change is"
    " not found"
)
_LABELS_SHOWN = 3


_MAX_REACHED = 10_000
"""So many files of one action are looked at."""

_File = tuple[Part, Path, FoundRole | None]
"""A file, what it is for, and the role that has it."""


def look_at(
    uses: Sequence[ActionUse], files: SiteFiles
) -> tuple[Sequence[Finding], Sequence[Finding]]:
    """Return what is wrong with task files and roles, and what is worth a word, each place once."""
    look = _Look(files)
    wrong = [finding for use in uses for finding in look.mistakes(use)]
    return (*wrong, *look.spanning()), look.blind()


def _name(path: Path, files: SiteFiles) -> str:
    return os.path.relpath(path, files.site_dir)


def _label(use: ActionUse) -> str:
    return f"`{use.what}` of type `{use.type_name}`"


class _Look:
    """Collects what is found in the files of all actions; each is read once."""

    def __init__(self, files: SiteFiles) -> None:
        self._files = files
        self._roles = Roles(files)
        self._words: dict[tuple[Part, Path], Words] = {}
        self._members: dict[Path, list[_File]] = {}
        self._spanning: dict[tuple[Place, str], dict[str, None]] = {}
        self._blind: dict[tuple[Place, str], None] = {}

    def mistakes(self, use: ActionUse) -> Iterator[Finding]:
        """Yield why an action cannot be carried out; where it can, note what its files say."""
        action = use.action
        if isinstance(action, Tasks):
            path = Path(action.path)
            problem = self._no_tasks(use, path)
            yield from problem
            if not problem:
                self._note(use, [(Part.TASKS, path, None)])
        elif isinstance(action, Role):
            role = self._roles.find(action.name)
            if role is not None:
                self._note(use, self._files_of(role))
            else:
                hint = f"put it into {self._files.site_dir.name}/roles/, or `cobweb install` it"
                message = f"{_label(use)}: role `{action.name}` does not exist"
                yield Finding(place=use.place, message=message, hint=hint)

    def spanning(self) -> tuple[Finding, ...]:
        """Return what would mean something else in plays of one host, with who uses it."""
        found = []
        for (place, word), labels in ((key, [*it]) for key, it in self._spanning.items()):
            more = f" and {len(labels) - _LABELS_SHOWN} more" if labels[_LABELS_SHOWN:] else ""
            users = ", ".join(labels[:_LABELS_SHOWN]) + more
            means = _MEANS.get(word, "would name one host")
            other = _ELSE.get(word, "take the hosts from `groups`")
            hint = f"say `together: true` in {users}, or {other}"
            if word not in _MEANS:
                hint = f"{other}; or say `together: true` in {users}"
            found.append(Finding(place=place, message=f"`{word}` {means}: {_OWN_PLAY}", hint=hint))
        return tuple(found)

    def blind(self) -> tuple[Finding, ...]:
        """Return the tasks of checks in check mode that this does not look at."""
        return tuple(
            Finding(place=place, message=_BLIND.format(module), hint=_BLIND_HINT)
            for place, module in self._blind
        )

    def _no_tasks(self, use: ActionUse, path: Path) -> tuple[Finding, ...]:
        if self._files.kind(path) == "file":
            return tuple(_bad_tasks(path, self._files))
        hint = "looked for beside the file that names it, and in playbooks/ and tasks/"
        told = f"{_label(use)}: task file `{_name(path, self._files)}`"
        message, hint = self._files.absent(told, path, otherwise=hint)
        return (Finding(place=use.place, message=message, hint=hint),)

    def _note(self, use: ActionUse, begin: Sequence[_File]) -> None:
        """Note what the files of an action say that matters for it."""
        action = use.action
        assert isinstance(action, Tasks | Role)
        is_spanning = use.spans_hosts and not action.together
        if not (is_spanning or action.finds):
            return
        given = json.dumps(action.vars) if isinstance(action, Role) and is_spanning else ""
        for word in MAGIC_WORDS.findall(given):
            self._spanning.setdefault((use.place, word), {})[_label(use)] = None
        for (part, path, role), words in self._reached(begin):
            own = role is None or role.is_own
            file = _name(path, self._files) if own else str(path)
            spanning = {**words.spanning, **self._once((part, path, role), words, begin)}
            for (line, column), word in spanning.items() if is_spanning else ():
                place = Place(file=file, line=line, column=column)
                self._spanning.setdefault((place, word), {})[_label(use)] = None
            for (line, column), word in words.blind.items() if action.finds else ():
                if part is Part.TASKS:
                    self._blind[Place(file=file, line=line, column=column), word] = None

    def _once(self, file: _File, words: Words, begin: Sequence[_File]) -> Mapping[Position, str]:
        """Return where a file takes in another one once that does more than to ask."""
        role = file[2]
        base = begin[0][1].parent if role is None else role.folder / Part.TASKS
        reader = self._files if role is None else role.files
        return {
            place: "run_once"
            for place, name in words.once.items()
            for part, path, _ in [*self._taken_in(name, file, base)] or [file]
            if not self._read(part, path, reader).only_asks
        }

    def _reached(self, begin: Sequence[_File]) -> Iterator[tuple[_File, Words]]:
        """Yield files, those that they take in and those of the roles that they take in, once."""
        waiting = [*reversed(begin)]
        seen = set[tuple[Part, Path]]()
        while waiting and len(seen) < _MAX_REACHED:
            part, path, role = file = waiting.pop()
            if (part, path) in seen:
                continue
            seen.add((part, path))
            words = self._read(part, path, self._files if role is None else role.files)
            yield file, words
            base = begin[0][1].parent if role is None else role.folder / Part.TASKS
            for name in words.files:
                waiting += self._taken_in(name, file, base)
            for name in words.roles:
                found = self._roles.find(name, beside=role)
                waiting += self._files_of(found) if found else []

    def _taken_in(self, name: str, file: _File, base: Path) -> Iterator[_File]:
        """Yield the file that a file takes in by its name, if it is there."""
        part, path, role = file
        files = self._files if role is None else role.files
        for folder in (path.parent, base, self._files.site_dir):
            found = Path(os.path.normpath(folder / name))
            if files.kind(found) == "file":
                yield part, found, role
                return

    def _files_of(self, role: FoundRole) -> list[_File]:
        if role.folder not in self._members:
            self._members[role.folder] = [(part, path, role) for part, path in role.members()]
        return self._members[role.folder]

    def _read(self, part: Part, path: Path, files: SiteFiles) -> Words:
        """Return what a file says; nothing where it is too large or cannot be read."""
        if (part, path) not in self._words:
            self._words[part, path] = Words()
            with suppress(OSError):
                self._words[part, path] = words_of(files.data(path, MAX_BYTES), part)
        return self._words[part, path]


def _bad_tasks(path: Path, files: SiteFiles) -> Iterator[Finding]:
    """Yield why a file cannot be tasks; what the tasks mean is for Ansible to say."""
    place = Place(file=_name(path, files))
    try:
        root = tasks_node(files.data(path).decode("utf-8"))
    except OSError as error:
        yield Finding(place=place, message=f"cannot read the file: {error.strerror or error}")
        return
    except UnicodeDecodeError:
        yield Finding(place=place, message="the file is not UTF-8", hint="save it as UTF-8")
        return
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        if mark is not None:
            place = Place(file=place.file, line=mark.line + 1, column=mark.column + 1)
        problem = getattr(error, "problem", None) or error
        yield Finding(place=place, message=f"this is not YAML: {problem}", hint="mend the syntax")
        return
    if not isinstance(root, SequenceNode):
        yield Finding(place=place, message="this is no list of tasks", hint="write `- name: ...`")
