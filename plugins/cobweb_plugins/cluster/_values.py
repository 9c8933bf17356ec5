"""Values of the command line, read as the files of a site are: `NO` and `0644` are texts."""

from __future__ import annotations

import re
from typing import Any

import yaml

_CORE = "tag:yaml.org,2002:"
_NUMBER = list("-0123456789")


class _Strict(yaml.SafeLoader):
    """Knows `null`, `true`, `false`, and numbers that are written as they would be shown."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own form


def _float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float | str:
    text = loader.construct_scalar(node)
    return float(text) if str(float(text)) == text else str(text)


def _resolve(tag: str, pattern: str, first: list[str]) -> None:
    _Strict.add_implicit_resolver(_CORE + tag, re.compile(f"^(?:{pattern})$"), first)


_resolve("null", "~|null|Null|NULL|", ["~", "n", "N", ""])
_resolve("bool", "true|True|TRUE|false|False|FALSE", list("tTfF"))
_resolve("int", "0|-?[1-9][0-9]{0,17}", _NUMBER)
_resolve("float", r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,17}", _NUMBER)
_Strict.add_constructor(_CORE + "float", _float)


def value_of(text: str) -> Any:
    """Return what a value stands for; yaml.YAMLError if it is no YAML."""
    return yaml.load(text, Loader=_Strict)  # noqa: S506 - a safe loader
