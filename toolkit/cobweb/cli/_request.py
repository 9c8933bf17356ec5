"""What the shared options ask for, gathered over the group and the command.

An option such as `-C` may stand before or after the command's name. Each occurrence is kept in
click's per-run `meta`; the last one counts, and `-v` adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from cobweb.model import CobId

_KEY = "cobweb.request."


class Format(StrEnum):
    """How data is written to standard output."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    DOT = "dot"
    MERMAID = "mermaid"
    SVG = "svg"
    HTML = "html"
    JUNIT = "junit"
    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The values of the shared options; `site` None means the nearest `site.yml` upwards.

    `format` is None only where a command has no `-o` and none was given before its name.
    `no_color` is the option alone: the environment and the terminal are asked by `Output`.
    `deletes` are no option: a command of a plugin that was asked to delete them says so, and they
    count for no bound.
    """

    site: Path | None = None
    format: Format | None = None
    no_color: bool = False
    verbosity: int = 0
    log_format: Format = Format.TEXT
    strict_plugins: bool = False
    no_cache: bool = False
    allow_outside: bool = False
    trust_inventory: bool = False
    deletes: frozenset[CobId] = frozenset()
    observers: tuple[tuple[str, str], ...] = ()
    hears_unasked: bool = False


def remember(name: str, value: Any) -> None:
    """Keep a value of `Request` for the rest of this call of `cobweb`."""
    meta = click.get_current_context().meta
    if name == "verbosity":
        value += meta.get(_KEY + name, 0)
    meta[_KEY + name] = value


def current_request(context: click.Context | None = None) -> Request:
    """Return what has been asked for so far; without a context that of the running command."""
    meta = (context or click.get_current_context()).meta
    return Request(**{key.removeprefix(_KEY): meta[key] for key in meta if key.startswith(_KEY)})
