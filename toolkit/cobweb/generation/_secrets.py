"""Vaulted values that were taken out, found again: a generation has only a digest of each."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from cobweb.generation._content import SECRET_MARK, is_vaulted, redact


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


def _revealed(
    value: Any,
    secrets: Mapping[str, Mapping[str, Any]],
    instead: Any,
    at: tuple[str, list[str]],
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
