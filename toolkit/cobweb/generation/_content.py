"""Redaction, canonical JSON and digests: the same value gives the same text on any machine.

What was redacted is found again where its vault marks are known: only a digest of each is kept.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from json.encoder import encode_basestring_ascii
from typing import Any

from cobweb.model import Cob, CobId, Graph

quoted = encode_basestring_ascii
"""Return a text as JSON writes it."""

VAULT_MARK = "__ansible_vault"
"""The one key of a mapping that stands for a vaulted value; its value is the cipher text."""

SECRET_MARK = "__cobweb_secret"  # noqa: S105 - the name of a mark, no secret
"""The one key of what stands for a secret in everything that is stored or shown."""

FLOAT_MARK = "__cobweb_float"
"""The one key of what stands for a number that JSON has not; its value is the number's text."""

INPUTS = "inputs"
"""The property of a spec that has the variables of the host which are content of the object."""

_PIECES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Every id of the old and the new site in exactly one of four sorted tuples."""

    added: tuple[CobId, ...]
    removed: tuple[CobId, ...]
    changed: tuple[CobId, ...]
    same: tuple[CobId, ...]

    def __bool__(self) -> bool:
        """Say whether anything differs."""
        return bool(self.added or self.removed or self.changed)


def redact(value: Any) -> Any:
    """Return plain data equal to `value` with each vault mark replaced by a digest of its text.

    Mappings become dicts with string keys, sequences lists; so the result can be written as JSON.
    What is redacted already stays as it is. TypeError for what is no plain data, ValueError for two
    keys of one mapping that are the same text (`80` and `"80"`).
    """
    # Ordered by how usual it is, as it is done for every value of a large site; so is `_text`.
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _no_number(value)
    if isinstance(value, Mapping):
        if is_vaulted(value):
            return _secret(value)
        return {key: redact(item) for key, item in _by_text(value).items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    raise TypeError(f"{type(value).__name__} is no plain data")


def secrets_of(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the vault marks in plain data, by the digest that stands for each when redacted."""
    if isinstance(value, Mapping):
        if is_vaulted(value):
            return {redact(value)[SECRET_MARK]: value}
        value = value.values()
    elif not isinstance(value, list | tuple):
        return {}
    return {mark: it for item in value for mark, it in secrets_of(item).items()}


def reveal(
    value: Any, secrets: Mapping[str, Mapping[str, Any]], instead: Any = None
) -> tuple[Any, tuple[str, ...]]:
    """Return redacted data with its vault marks back, and where the marks are not known any more.

    These places are dotted paths, sorted; what is there stays redacted. Where `instead` has a vault
    mark at the same place, that is taken.
    """
    missing: list[str] = []
    return _revealed(value, secrets, instead, ("", missing)), tuple(sorted(missing))


def canonical_json(value: Any) -> str:
    """Return the one JSON text of plain data: sorted keys, no blanks, ASCII.

    Numbers that JSON has not (`nan`, infinities) become `{"__cobweb_float": "nan"}`. Errors as
    those of `redact`, but vault marks stay.
    """
    return _text(value, redacts=False)


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON as 64 hexadecimal digits."""
    return digest_of_text(canonical_json(value))


def digest_of_text(text: str) -> str:
    """Return the SHA-256 of a text as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_pieces(pieces: Iterable[str]) -> str:
    """Return the SHA-256 of a long text that is never in memory whole."""
    found = hashlib.sha256()
    rest = iter(pieces)
    while part := "".join(islice(rest, _PIECES_AT_ONCE)):
        found.update(part.encode())
    return found.hexdigest()


def inputs_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the variables that are content in an evaluated spec, each with its value."""
    found = spec.get(INPUTS)
    return found if isinstance(found, Mapping) else {}


def listed(members: Iterable[str]) -> Iterator[str]:
    """Yield members with a comma before each but the first."""
    comma = ""
    for member in members:
        yield comma + member
        comma = ","


def content_of(cob: Cob) -> str:
    """Return the digest of what `cob` is meant to be: its type's name and its redacted spec.

    A changed spec or type is a changed content; a changed task file, timeout or place is not, and
    neither is what a type shares among its objects.
    """
    return digest_of_text(object_text(cob))


def object_text(cob: Cob) -> str:
    """Return what `content_of` is the digest of: canonical JSON of the redacted spec and type."""
    return f'{{"spec":{_text(cob.spec, redacts=True)},"type":{quoted(cob.type.name)}}}'


def contents(graph: Graph) -> dict[CobId, str]:
    """Return the content digest of every object of a graph, in the order of its ids."""
    return {cob.id: content_of(cob) for cob in graph.cobs.values()}


def changes(old: Mapping[CobId, str], new: Mapping[CobId, str]) -> Changes:
    """Compare the content digests of two sites."""
    both = sorted(old.keys() & new.keys())
    return Changes(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(cob for cob in both if old[cob] != new[cob]),
        same=tuple(cob for cob in both if old[cob] == new[cob]),
    )


def _text(value: Any, *, redacts: bool) -> str:
    """Write canonical JSON in one go."""
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is int:
        return repr(value)
    if kind is dict:
        return _mapping_text(value, redacts=redacts)
    if kind is list or kind is tuple:
        return "[" + ",".join([_text(item, redacts=redacts) for item in value]) + "]"
    return _rare_text(value, redacts=redacts)


def _mapping_text(value: Mapping[Any, Any], *, redacts: bool) -> str:
    if redacts and is_vaulted(value):
        return _text(_secret(value), redacts=False)
    by_text = _by_text(value)
    members = [f"{quoted(key)}:{_text(by_text[key], redacts=redacts)}" for key in sorted(by_text)]
    return "{" + ",".join(members) + "}"


def _rare_text(value: Any, *, redacts: bool) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return _text(_no_number(value), redacts=False)
    if value is None or isinstance(value, str | int | float):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return _mapping_text(value, redacts=redacts)
    if isinstance(value, list | tuple):
        return _text(list(value), redacts=redacts)
    raise TypeError(f"{type(value).__name__} is no plain data")


def _no_number(value: float) -> dict[str, str]:
    return {FLOAT_MARK: str(value)}


def is_vaulted(value: Mapping[Any, Any]) -> bool:
    """Say whether a mapping is a vault mark."""
    return len(value) == 1 and VAULT_MARK in value


def _revealed(
    value: Any, secrets: Mapping[str, Mapping[str, Any]], instead: Any, at: tuple[str, list[str]]
) -> Any:
    path, missing = at
    if isinstance(value, Mapping):
        if len(value) == 1 and SECRET_MARK in value:
            known = secrets.get(value[SECRET_MARK])
            if known is None and isinstance(instead, Mapping) and is_vaulted(instead):
                return instead
            missing += [path] * (known is None)
            return value if known is None else known
        other = instead if isinstance(instead, Mapping) else {}
        return {
            key: _revealed(item, secrets, other.get(key), (_below(path, key), missing))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        others = instead if isinstance(instead, list | tuple) else ()
        return [
            _revealed(item, secrets, other, (_below(path, number), missing))
            for number, (item, other) in enumerate(zip_longest(value, others[: len(value)]))
        ]
    return value


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _by_text(value: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return a mapping whose keys are text; itself where they are."""
    for key in value:
        if type(key) is not str:
            break
    else:
        return value
    by_text = {_key(key): item for key, item in value.items()}
    if len(by_text) != len(value):
        raise ValueError("two keys of one mapping are the same text")
    return by_text


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    raise TypeError(f"{type(key).__name__} is no key of plain data")


def _secret(mark: Mapping[str, Any]) -> dict[str, str]:
    # White space comes from the layout of the YAML file and is no part of the cipher text.
    text = "\n".join(str(mark[VAULT_MARK]).split())
    return {SECRET_MARK: f"sha256:{digest_of_text(text)}"}
