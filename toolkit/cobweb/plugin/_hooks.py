"""The hook specifications: one hook per kind, each returns a list of what it registers.

A plugin implements the hooks that it needs as functions marked with `cobweb.plugin.hookimpl`. They
take no arguments, are called at most once per `load_plugins`, and should be cheap: whatever is
heavy to import belongs into the methods of what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import pluggy

from cobweb.model import CobType

PROJECT = "cobweb"
"""The name of the entry-point group and of the markers."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin module as the implementation of a hook."""

_spec = pluggy.HookspecMarker(PROJECT)


class Kind(StrEnum):
    """What a hook registers; the value is the last word of the hook's name."""

    TYPES = "types"
    EXECUTORS = "executors"
    SOLVERS = "solvers"
    PLANNERS = "planners"
    ADAPTERS = "adapters"
    COMMANDS = "commands"
    SECTIONS = "sections"
    OBSERVERS = "observers"
    TRANSPORTS = "transports"

    @property
    def hook(self) -> str:
        """The name of the hook that registers this kind."""
        return f"cobweb_register_{self.value}"


class RegisteredType(Protocol):
    """A COB type of a plugin: made of Ansible tasks, or of Python (then it is a `PythonType`)."""

    name: ClassVar[str]

    def cob_type(self) -> CobType:
        """Return states, matrix and schema of the type; its name is `name`."""


class Section(Protocol):
    """A further top-level key of `site.yml`: `name`, and the JSON Schema of what stands there.

    Its class may have two methods, of the class itself: `notes(access)`, lines that `validate`,
    `plan` and `apply` tell first, by a `SiteAccess`; and `show(sections, plugins)`, plain data that
    `cobweb show NAME` shows instead of what is written, without secrets; or ModelError.
    """

    name: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]


_RETURNS: Mapping[Kind, str] = {
    Kind.TYPES: "Return classes of COB types, each with `name` and `cob_type()`, or "
    "whole `PythonType`s.",
    Kind.EXECUTORS: "Return `Executor` classes; one instance is made without arguments for "
    "each run.",
    Kind.SOLVERS: "Return `Solver` classes; one instance of each is made without arguments.",
    Kind.PLANNERS: "Return `Planner` or `TaskPlanner` classes; one instance of each is made "
    "without arguments.",
    Kind.ADAPTERS: "Return classes of `Adapter`, `Generator`, `NodeProvider`; one instance "
    "of each is made.",
    Kind.COMMANDS: "Return click commands with a name; they become `cobweb NAME` unless a "
    "built-in has it.",
    Kind.SECTIONS: "Return classes with `name` and `schema`: further top-level keys of `site.yml`.",
    Kind.TRANSPORTS: "Return `Transport` classes; one instance of each is made without arguments.",
    Kind.OBSERVERS: "Return `Observer` classes; one instance is made without arguments for "
    "each call.",
}
"""What the hook of each kind is to do: its docstring, which docs/plugins/index.md has too."""


def _hook(kind: Kind) -> Callable[[], Sequence[Any]]:
    """Return the specification of a hook; pluggy holds implementations to its arguments."""

    def hook() -> Sequence[Any]:
        return ()

    hook.__name__, hook.__doc__ = kind.hook, _RETURNS[kind]
    return _spec(hook)


HOOKS = type("Hooks", (), {kind.hook: _hook(kind) for kind in Kind})
"""The specifications by name."""
