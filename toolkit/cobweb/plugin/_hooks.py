"""The hook specifications: one hook per kind, each returns a list of what it registers.

A plugin implements the hooks that it needs as functions marked with `cobweb.plugin.hookimpl`. They
take no arguments, are called at most once per `load_plugins`, and should be cheap: whatever is
heavy to import belongs into the methods of what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import pluggy

PROJECT = "cobweb"
"""The name of the entry-point group and of the markers."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin module as the implementation of a hook."""


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
    EXTENSIONS = "extensions"

    @property
    def hook(self) -> str:
        """The name of the hook that registers this kind."""
        return f"cobweb_register_{self.value}"


_RETURNS: Mapping[Kind, str] = {
    Kind.TYPES: "classes of COB types, each with `name` and `cob_type()`, or whole `PythonType`s",
    Kind.EXECUTORS: "`Executor` classes; one instance is made without arguments for each run",
    Kind.SOLVERS: "`Solver` classes; one instance of each is made without arguments",
    Kind.PLANNERS: "`Planner` or `TaskPlanner` classes; one instance of each is made "
    "without arguments",
    Kind.ADAPTERS: "classes of `Adapter`, `Generator`, `NodeProvider`; one instance "
    "of each is made",
    Kind.COMMANDS: "click commands with a name; they become `cobweb NAME` unless a built-in has it",
    Kind.SECTIONS: "classes with `name` and `schema`: further top-level keys of `site.yml`",
    Kind.TRANSPORTS: "`Transport` classes; one instance of each is made without arguments",
    Kind.EXTENSIONS: "classes with `point` and `name`: what other plugins ask for at their points",
    Kind.OBSERVERS: "`Observer` classes; one instance is made without arguments for each call",
}
"""What the hook of each kind is to return: its docstring, which docs/plugins/index.md has too."""


def _hook(kind: Kind) -> Callable[[], Sequence[Any]]:
    """Return the specification of a hook; pluggy holds implementations to its arguments."""

    def hook() -> Sequence[Any]:
        return ()

    hook.__name__, hook.__doc__ = kind.hook, f"Return {_RETURNS[kind]}."
    return pluggy.HookspecMarker(PROJECT)(hook)


HOOKS = type("Hooks", (), {kind.hook: _hook(kind) for kind in Kind})
"""The specifications by name."""
