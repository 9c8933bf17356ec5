"""What a site requires: its requirements files, in the formats of ansible-galaxy.

All scalars are text as written: a version `1.10` is no number. Of an entry the keys that
ansible-galaxy knows are kept, and an unknown one is a mistake: galaxy would pass over a misspelt
`version` and take whatever is the newest.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from cobweb.errors import Finding, Place, SiteError
from cobweb.plugin import JsonError, json_of

FILES = ("requirements.yml", "roles/requirements.yml", "collections/requirements.yml")
ROLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
SERVER_ROLE = re.compile(r"[\w-]+(\.[\w-]+)+")
COLLECTION_NAME = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)
ROLE_KEYS = ("name", "role", "scm", "src", "version")
COLLECTION_KEYS = ("name", "signatures", "source", "type", "version")
_TYPES = ("dir", "file", "galaxy", "git", "subdirs", "url")
_MOST_COMMAS = 2
_MOST_MANIFEST_BYTES = 1 << 22
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_NULL = "tag:yaml.org,2002:null"

Item = Mapping[str, Any]
"""An entry as ansible-galaxy is given it: texts by key, `signatures` a list of texts."""


class Kind(StrEnum):
    """What ansible-galaxy installs."""

    COLLECTION = "collection"
    ROLE = "role"


NAMES = {Kind.COLLECTION: COLLECTION_NAME, Kind.ROLE: ROLE_NAME}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Package:
    """A role or a collection by its name."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def path(self) -> str:
        """Where it is, below the folder of the site."""
        if self.kind is Kind.ROLE:
            return f"roles/{self.name}"
        return f"collections/ansible_collections/{self.name.replace('.', '/')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """An entry of a requirements file.

    `package` is None for a collection whose name only its content tells.
    """

    package: Package | None
    item: Item
    place: Place
    kind: Kind

    @property
    def label(self) -> str:
        """Its name, or where it comes from."""
        if self.package:
            return self.package.name
        return without_passwords(str(self.item.get("name") or self.item["source"]))

    @property
    def digest(self) -> str:
        """The digest of the entry: what it asks for, without the content of that."""
        text = json.dumps(dict(self.item), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_requirements(site_dir: Path, read: Callable[[str], str | None]) -> tuple[Requirement, ...]:
    """Return the entries of all requirements files of a site, in their order.

    `read` returns the text of a file of the site, None where there is none. SiteError with all
    mistakes; also where there is no requirements file at all.
    """
    texts = {name: text for name in FILES if (text := read(name)) is not None}
    if not texts:
        message = "there is no such file, nor one in roles/ or collections/"
        hint = "name there what the site requires, as for ansible-galaxy"
        raise SiteError([Finding(place=Place(file=FILES[0]), message=message, hint=hint)])
    found: list[Requirement] = []
    problems: list[Finding] = []
    for name, text in texts.items():
        for each in _entries(_File(name=name, site_dir=site_dir), text):
            (found if isinstance(each, Requirement) else problems).append(each)  # type: ignore[arg-type]  # by its type
    problems += _doubles(found)
    if problems:
        raise SiteError(sorted(problems, key=lambda it: it.place))
    return tuple({it.digest + it.kind: it for it in reversed(found)}.values())[::-1]


def role_item(entry: str | Mapping[str, Any]) -> dict[str, str]:
    """Return an entry for a role with its `name`; ValueError says what is wrong with it."""
    item = _parts(entry) if isinstance(entry, str) else {**entry}
    if "role" in item:
        item["name"] = item.pop("role")
    item = {key: value for key, value in item.items() if value}
    if not all(isinstance(value, str) for value in item.values()):
        raise ValueError("its values have to be text")
    if "src" not in item and "name" not in item:
        raise ValueError("it has neither `src` nor `name`")
    item.setdefault("src", item.get("name", ""))
    item.setdefault("name", _name_of(item["src"]))
    if not ROLE_NAME.fullmatch(item["name"]):
        raise ValueError(f"{item['name']} is no name of a folder in roles/; give it a `name`")
    if item["src"].startswith("-"):
        raise ValueError("its `src` would be taken for an option")
    return item


def name_inside(path: Path) -> str:
    """Return the name that a collection's archive gives itself; ValueError if it is none.

    ansible-galaxy installs a collection of the name `a./tmp/x` into /tmp/x.
    """
    try:
        with tarfile.open(path) as archive:
            file = archive.extractfile("MANIFEST.json")
            data = file.read(_MOST_MANIFEST_BYTES) if file else b""
        known = json_of(data.decode(), "MANIFEST.json")["collection_info"]
        name = f"{known['namespace']}.{known['name']}"
    except (OSError, tarfile.TarError, KeyError, TypeError, ValueError, JsonError) as error:
        raise ValueError(f"{path.name} is no archive of a collection ({error})") from error
    if not COLLECTION_NAME.fullmatch(name):
        raise ValueError(f"{path.name} calls itself {name}, which is no NAMESPACE.NAME")
    return name


def without_passwords(text: str) -> str:
    """Return text without what stands before the `@` of URLs."""
    return _PASSWORD.sub("***", text)


def is_from_server(item: Item) -> bool:
    """Say whether a role or a named collection comes from a Galaxy server, by its version."""
    if "src" in item:
        return not item.get("scm") and SERVER_ROLE.fullmatch(item["src"]) is not None
    return str(item.get("type", "galaxy")) == "galaxy"


def scalars(node: yaml.Node) -> dict[str, Any]:
    """Return a mapping's texts and lists of texts by key; None for a value that is neither."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {str(key.value): _value(value) for key, value in pairs}


def entries_below(root: yaml.Node | None, key: str) -> list[yaml.Node] | None:
    """Return the list below a key of a mapping; [] if it is not there, None if it is no list."""
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    node = next((value for name, value in pairs if name.value == key), None)
    if node is None or node.tag == _NULL:
        return []
    return list(node.value) if isinstance(node, yaml.SequenceNode) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A requirements file that is being read."""

    name: str
    site_dir: Path

    def place(self, mark: yaml.Mark | None) -> Place:
        if mark is None:
            return Place(file=self.name)
        return Place(file=self.name, line=mark.line + 1, column=mark.column + 1)

    def finding(self, node: yaml.Node | None, message: str, hint: str = "") -> Finding:
        mark = None if node is None else node.start_mark
        return Finding(place=self.place(mark), message=message, hint=hint)


def _entries(file: _File, text: str) -> Iterator[Requirement | Finding]:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        yield Finding(place=file.place(mark), message=f"this is not YAML: {problem}")
        return
    if root is None:
        return
    if isinstance(root, yaml.SequenceNode):
        if file.name.startswith("collections/"):
            yield file.finding(root, "a list means roles", "write it below `collections:`")
        else:
            yield from (_role(file, node) for node in root.value)
    elif isinstance(root, yaml.MappingNode):
        yield from _of_mapping(file, root)
    else:
        yield file.finding(root, "it has to be a list of roles, or `roles:` and `collections:`")


def _of_mapping(file: _File, root: yaml.MappingNode) -> Iterator[Requirement | Finding]:
    for key, node in root.value:
        if key.value not in ("roles", "collections"):
            yield file.finding(key, f"unknown key {key.value}", "known are roles and collections")
        elif entries_below(root, key.value) is None:
            yield file.finding(node, f"`{key.value}` has to be a list")
    make = {"roles": _role, "collections": _collection}
    for name, function in make.items():
        yield from (function(file, node) for node in entries_below(root, name) or ())


def _role(file: _File, node: yaml.Node) -> Requirement | Finding:
    entry = _entry(file, node, ROLE_KEYS)
    if isinstance(entry, Finding):
        return entry
    try:
        item = role_item(entry)
    except ValueError as error:
        return file.finding(node, f"this role cannot be installed: {error}")
    package = Package(kind=Kind.ROLE, name=item["name"])
    place = file.place(node.start_mark)
    return Requirement(package=package, item=item, place=place, kind=Kind.ROLE)


def _collection(file: _File, node: yaml.Node) -> Requirement | Finding:
    entry = _entry(file, node, COLLECTION_KEYS)
    if isinstance(entry, Finding):
        return entry
    item = {"name": entry} if isinstance(entry, str) else entry
    item = {key: value for key, value in item.items() if value}
    try:
        name = _collection_name(file.site_dir, item)
    except ValueError as error:
        return file.finding(node, f"this collection cannot be installed: {error}")
    package = Package(kind=Kind.COLLECTION, name=name) if name else None
    place = file.place(node.start_mark)
    return Requirement(package=package, item=item, place=place, kind=Kind.COLLECTION)


def _entry(file: _File, node: yaml.Node, known: tuple[str, ...]) -> str | dict[str, Any] | Finding:
    """Return an entry as text, or as values by key."""
    if isinstance(node, yaml.ScalarNode) and node.tag != _NULL:
        return str(node.value)
    if not isinstance(node, yaml.MappingNode):
        return file.finding(node, "an entry has to be a name, or a mapping")
    entry = scalars(node)
    unknown = sorted(entry.keys() - {*known})
    if unknown:
        hint = f"known are {', '.join(known)}"
        if "include" in unknown:
            hint = "write the entries of that file here"
        return file.finding(node, f"unknown key {unknown[0]}", hint)
    wrong = [key for key, it in entry.items() if it is None or _is_list(it) != (key in _LISTS)]
    if wrong:
        return file.finding(node, f"`{wrong[0]}` has to be text")
    return entry


_LISTS = ("signatures",)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _collection_name(site_dir: Path, item: Mapping[str, Any]) -> str:
    """Return the name of a collection, "" where only its content tells; ValueError if wrong."""
    kind, name, source = (str(item.get(key, "")) for key in ("type", "name", "source"))
    if kind and kind not in _TYPES:
        raise ValueError(f"type {kind} is none of {', '.join(_TYPES)}")
    if not name and not source:
        raise ValueError("it has neither `name` nor `source`")
    if (name or source).startswith("-"):
        raise ValueError("its source would be taken for an option")
    if COLLECTION_NAME.fullmatch(name) and (source or kind in ("", "galaxy")):
        return name
    path = site_dir / (source or name)
    if kind == "galaxy" or (not kind and not _is_pointer(source or name, path)):
        raise ValueError(f"{name} is neither NAMESPACE.NAME nor a file or URL of a collection")
    return name_inside(path) if kind in ("", "file") and path.is_file() else ""


def _is_pointer(text: str, path: Path) -> bool:
    return "://" in text or text.startswith("git@") or path.exists()


def _parts(text: str) -> dict[str, str]:
    """Return the parts of SRC[,VERSION[,NAME]]."""
    words = text.strip().split(",")
    if len(words) > _MOST_COMMAS + 1:
        raise ValueError("more than SRC,VERSION,NAME")
    return dict(zip(("src", "version", "name"), words, strict=False))


def _name_of(source: str) -> str:
    """Return the name that ansible-galaxy gives the role of a source."""
    if "://" not in source and "@" not in source:
        return source
    last = source.rpartition("/")[2].removesuffix(".git").removesuffix(".tar.gz")
    return last.partition(",")[0]


def _value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return "" if node.tag == _NULL else str(node.value)
    items = node.value if isinstance(node, yaml.SequenceNode) else ()
    found = [str(it.value) for it in items if isinstance(it, yaml.ScalarNode)]
    return found if found and len(found) == len(items) else None


def _doubles(found: list[Requirement]) -> Iterator[Finding]:
    first: dict[Package, Requirement] = {}
    for each in found:
        if each.package is None:
            continue
        before = first.setdefault(each.package, each)
        if before.digest != each.digest:
            message = f"{each.package} is required twice, and not alike"
            yield Finding(place=each.place, message=message, hint=f"first at {before.place}")
