"""What a catalog gives a provider of nodes: checked by its schema, secrets only by reference.

A property that a provider marks with `x-cobweb: secret` stands in no site in the clear. It is a
vaulted value, or `{env: NAME}`: the environment of the coordinator has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENV, VAULT = "env", "__ansible_vault"
STORED = "__cobweb_secret"
"""Stands for a vaulted value in what is stored of a site."""

Problem = tuple[tuple[str | int, ...], str, str]
"""The keys that lead to a value, what is wrong with it, and a hint."""


def secret_fields(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the fields that a provider's schema marks as secret."""
    properties = schema.get("properties", {})
    return frozenset(name for name, it in properties.items() if it.get("x-cobweb") == "secret")


def field_problems(schema: Mapping[str, Any], fields: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return what is wrong with the fields of a provider; () if nothing is.

    A secret counts as what it refers to; nothing is decrypted and no environment is looked at.
    """
    from jsonschema import Draft202012Validator

    secrets = secret_fields(schema)
    problems: list[Problem] = []
    for name in sorted(secrets & fields.keys()):
        if not _refers(fields[name]):
            hint = f"write `{name}: !vault ...` or `{name}: {{env: NAME}}`"
            problems.append(((name,), f"the field `{name}` is a secret", hint))
    properties = {**schema.get("properties", {}), **dict.fromkeys(secrets, True)}
    known = ", ".join(sorted(properties)) or "none"
    validator = Draft202012Validator({**schema, "properties": properties})
    for error in sorted(validator.iter_errors(fields), key=str):
        path = tuple(error.absolute_path)
        if not secrets.intersection(path[:1]):
            problems.append((path, error.message, "" if path else f"its fields are {known}"))
    return tuple(problems)


def _refers(value: Any) -> bool:
    """Say whether a value stands for a secret that is somewhere else."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    return any(isinstance(value.get(key), str) and value[key] for key in (VAULT, ENV, STORED))
