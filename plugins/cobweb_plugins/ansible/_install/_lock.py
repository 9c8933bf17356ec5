"""`requirements.lock.yml`: what was installed, by version and digest.

The file is YAML with sorted keys, for Git; its schema is schemas/requirements-lock.schema.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cobweb.errors import Finding, Place, SiteError
from cobweb.plugin import data_dir
from cobweb_plugins.ansible._install._requirements import Kind, Package

LOCK_FILE = "requirements.lock.yml"
_FORMAT = 1
_HEAD = "# Written by `cobweb install`. Commit it, and change it by `cobweb install --update`.\n"
_HINT = "take it back from Git"
_KEYS = {Kind.COLLECTION: "collections", Kind.ROLE: "roles"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A role or collection as it was installed.

    `requirement` is the digest of the entry that asks for it, empty where only others need it.
    `dependencies` are the names, of the same kind, that it needs itself, sorted.
    """

    version: str
    sha256: str
    requirement: str = ""
    dependencies: tuple[str, ...] = ()


Lock = Mapping[Package, Locked]


def lock_text(lock: Lock) -> str:
    """Return the text of the file; the same for the same lock."""
    data: dict[str, Any] = {"format": _FORMAT}
    for package in sorted(lock):
        data.setdefault(_KEYS[package.kind], {})[package.name] = _written(lock[package])
    return _HEAD + yaml.safe_dump(data, sort_keys=True, allow_unicode=True)


def read_lock(text: str | None) -> dict[Package, Locked]:
    """Return the lock of a file's text (None: there is none); SiteError for a damaged one."""
    if text is None:
        return {}
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _damaged(str(getattr(error, "problem", None) or error), error) from error
    from jsonschema import Draft202012Validator

    schema = json.loads((data_dir("schemas") / "requirements-lock.schema.json").read_text())
    problem = next(iter(Draft202012Validator(schema).iter_errors(data)), None)
    if problem is not None:
        raise _damaged(f"{problem.json_path}: {problem.message}")
    return {
        Package(kind=kind, name=name): _read(entry)
        for kind, key in _KEYS.items()
        for name, entry in data.get(key, {}).items()
    }


def _written(locked: Locked) -> dict[str, Any]:
    entry = {
        "version": locked.version,
        "sha256": locked.sha256,
        "requirement": locked.requirement,
        "dependencies": list(locked.dependencies),
    }
    return {key: value for key, value in entry.items() if value}


def _read(entry: Mapping[str, Any]) -> Locked:
    return Locked(
        version=entry.get("version", ""),
        sha256=entry["sha256"],
        requirement=entry.get("requirement", ""),
        dependencies=tuple(entry.get("dependencies", ())),
    )


def _damaged(message: str, error: yaml.YAMLError | None = None) -> SiteError:
    mark = getattr(error, "problem_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    place = Place(file=LOCK_FILE, line=line, column=column)
    return SiteError([Finding(place=place, message=f"the lock is damaged: {message}", hint=_HINT)])
