"""Vaulted values that were taken out, found again: a generation has only a digest of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cobweb.generation._content import SECRET_MARK, is_vaulted, redact

__all__ = ["reveal", "secrets_of"]


def secrets_of(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the vault marks in plain data, by the digest that stands for each when redacted."""
    found: dict[str, Mapping[str, Any]] = {}
    if isinstance(value, Mapping):
        if is_vaulted(value):
            return {redact(value)[SECRET_MARK]: value}
        for item in value.values():
            found |= secrets_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            found |= secrets_of(item)
    return found


def reveal(value: Any, secrets: Mapping[str, Mapping[str, Any]]) -> tuple[Any, tuple[str, ...]]:
    """Return redacted data with its vault marks back, and where the marks are not known any more.

    These places are dotted paths, sorted; what is there stays redacted.
    """
    missing: list[str] = []
    return _revealed(value, secrets, "", missing), tuple(sorted(missing))


def _revealed(
    value: Any, secrets: Mapping[str, Mapping[str, Any]], path: str, missing: list[str]
) -> Any:
    if isinstance(value, Mapping):
        if len(value) == 1 and SECRET_MARK in value:
            known = secrets.get(value[SECRET_MARK])
            if known is None:
                missing.append(path)
            return value if known is None else known
        items = value.items()
        return {key: _revealed(item, secrets, _at(path, key), missing) for key, item in items}
    if isinstance(value, list | tuple):
        return [_revealed(it, secrets, _at(path, n), missing) for n, it in enumerate(value)]
    return value


def _at(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
