"""Kinds of power: how a machine is switched on and off, and asked whether it is on.

A kind is a class at the extension point `machine_power`. `schema` is the JSON Schema of its
settings, which are `power` of a machine without `kind`. What `can` does not name is asked of a
person. A kind that can anything has `command`: a program does what is asked, and exits with 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

POINT = "machine_power"

ACTIONS = ("status", "on", "off")
"""What a machine's power may be asked for."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class PowerKind(Protocol):
    """What a class at the point `machine_power` has."""

    point: ClassVar[str]
    name: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]

    @staticmethod
    def can(settings: Mapping[str, Any]) -> frozenset[str]:
        """Return which of `ACTIONS` it does by itself."""

    @staticmethod
    def command(
        settings: Mapping[str, Any], action: str, values: Mapping[str, str]
    ) -> Sequence[str]:
        """Return program and arguments for an action that it can do.

        `values` are `mac`, `name` (the machine's id) and `server` (a URL). The answer to `status`
        is the last word `on` or `off` of what the program writes to its standard output.
        """


class ManualPower:
    """A person at the machine is asked."""

    point: ClassVar[str] = POINT
    name: ClassVar[str] = "manual"
    schema: ClassVar[Mapping[str, Any]] = {"type": "object", "additionalProperties": False}

    @staticmethod
    def can(settings: Mapping[str, Any]) -> frozenset[str]:
        """Return nothing."""
        del settings
        return frozenset()

    @staticmethod
    def command(
        settings: Mapping[str, Any], action: str, values: Mapping[str, str]
    ) -> Sequence[str]:
        """Raise ValueError: no program does it."""
        del settings, values
        raise ValueError(f"no program does `{action}`")


class CommandPower:
    """A program of the boot server's host, such as a fence agent."""

    point: ClassVar[str] = POINT
    name: ClassVar[str] = "command"
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["command"],
        "properties": {
            "command": {
                "type": "array",
                "minItems": 1,
                # The folder is no place that a relative path could mean.
                "prefixItems": [{"type": "string", "pattern": "^(/.+|[^/]+)$"}],
                "items": {"type": "string"},
                "description": "Program and arguments; {action}, {mac}, {name}, {server} in them.",
            },
            "can": {
                "type": "array",
                "items": {"enum": list(ACTIONS)},
                "uniqueItems": True,
                "description": "What the program can do, the rest is asked of a person; all of it.",
            },
        },
    }

    @staticmethod
    def can(settings: Mapping[str, Any]) -> frozenset[str]:
        """Return what the settings say, by default all."""
        return frozenset(settings.get("can", ACTIONS))

    @staticmethod
    def command(
        settings: Mapping[str, Any], action: str, values: Mapping[str, str]
    ) -> Sequence[str]:
        """Return the command with its placeholders filled in; other braces stay as they are."""
        known = {**values, "action": action}

        def fill(text: str) -> str:
            return _PLACEHOLDER.sub(lambda it: known.get(it[1], it[0]), text)

        return [fill(it) for it in settings["command"]]


BUILT_IN: tuple[type[PowerKind], ...] = (ManualPower, CommandPower)


def power_kinds() -> Mapping[str, type[PowerKind]]:
    """Return the kinds of all plugins, by name: for processes that know no site."""
    from cobweb.plugin import load_plugins

    found: Mapping[str, Any] = load_plugins().extensions_at(POINT)
    return found
