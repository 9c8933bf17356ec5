"""Redaction, canonical JSON and digests: the same value gives the same text on any machine."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from cobweb.model import Cob, CobId, Graph

__all__ = ["canonical_json", "content_of", "contents", "digest", "redact"]

VAULT_MARK = "__ansible_vault"
"""The one key of a mapping that stands for a vaulted value; its value is the cipher text."""

SECRET_MARK = "__cobweb_secret"  # noqa: S105 - the name of a mark, no secret
"""The one key of what stands for a secret in everything that is stored or shown."""


# Tuples, the usual type first: these checks are made for every value of a large site.
_SCALARS = (str, bool, int)
_MAPPINGS = (dict, Mapping)


def redact(value: Any) -> Any:
    """Return plain data equal to `value` with each vault mark replaced by a digest of its text.

    Mappings become dicts with string keys, sequences lists; so the result can be written as JSON.
    What is redacted already stays as it is. TypeError for what is no plain data, ValueError for two
    keys of one mapping that are the same text (`80` and `"80"`).
    """
    return _plain(value, _secret)


def canonical_json(value: Any) -> str:
    """Return the one JSON text of plain data: sorted keys, no blanks, ASCII.

    Numbers that JSON has not (`nan`, infinities) become `{"__cobweb_float": "nan"}`. Errors as
    those of `redact`, but vault marks stay.
    """
    return _text(_plain(value, dict))


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON as 64 hexadecimal digits."""
    return _sha256(canonical_json(value))


def content_of(cob: Cob) -> str:
    """Return the digest of what `cob` is meant to be: its type's name and its redacted spec.

    A changed spec or type is a changed content; a changed task file, timeout or place is not.
    """
    return _sha256(_text({"type": cob.type.name, "spec": redact(cob.spec)}))


def contents(graph: Graph) -> dict[CobId, str]:
    """Return the content digest of every object of a graph, in the order of its ids."""
    return {cob.id: content_of(cob) for cob in graph.cobs.values()}


def _plain(value: Any, vault: Callable[[Mapping[str, Any]], Any]) -> Any:
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"__cobweb_float": str(value)}
    if isinstance(value, _MAPPINGS):
        if len(value) == 1 and VAULT_MARK in value:
            return vault(value)
        return _plain_mapping(value, vault)
    if isinstance(value, list | tuple):
        return [_plain(item, vault) for item in value]
    raise TypeError(f"{type(value).__name__} is no plain data")


def _plain_mapping(
    value: Mapping[Any, Any], vault: Callable[[Mapping[str, Any]], Any]
) -> dict[str, Any]:
    plain = {_key(key): _plain(item, vault) for key, item in value.items()}
    if len(plain) != len(value):
        raise ValueError("two keys of one mapping are the same text")
    return plain


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    raise TypeError(f"{type(key).__name__} is no key of plain data")


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _secret(mark: Mapping[str, Any]) -> dict[str, str]:
    # White space comes from the layout of the YAML file and is no part of the cipher text.
    text = "\n".join(str(mark[VAULT_MARK]).split())
    return {SECRET_MARK: f"sha256:{_sha256(text)}"}
