"""The hook specifications: one hook per kind, each returns a list of what it registers.

A plugin implements the hooks that it needs as functions marked with `cobweb.plugin.hookimpl`. They
take no arguments, are called at most once per `load_plugins`, and should be cheap: whatever is
heavy to import belongs into the methods of what they return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pluggy

from cobweb.model import CobType
from cobweb.plugin.protocols import (
    Adapter,
    Executor,
    Generator,
    NodeProvider,
    Observer,
    Planner,
    Solver,
    TaskPlanner,
    Transport,
)

if TYPE_CHECKING:
    import click

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

    Its class may have a method `show(sections, plugins)`, of the class itself: plain data that
    `cobweb show NAME` shows instead of what is written, without secrets; or ModelError.
    """

    name: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]


@_spec
def cobweb_register_types() -> Sequence[type[RegisteredType]]:  # type: ignore[empty-body]  # a hook
    """Return classes of COB types, each with `name` and `cob_type()`, or whole `PythonType`s."""


@_spec
def cobweb_register_executors() -> Sequence[type[Executor]]:  # type: ignore[empty-body]  # a hook
    """Return `Executor` classes; one instance is made without arguments for each run."""


@_spec
def cobweb_register_solvers() -> Sequence[type[Solver]]:  # type: ignore[empty-body]  # a hook
    """Return `Solver` classes; one instance of each is made without arguments."""


@_spec
def cobweb_register_planners() -> Sequence[type[Planner | TaskPlanner]]:  # type: ignore[empty-body]  # a hook
    """Return `Planner` or `TaskPlanner` classes; one instance of each is made without arguments."""


@_spec
def cobweb_register_adapters() -> Sequence[type[Adapter | Generator | NodeProvider]]:  # type: ignore[empty-body]  # a hook
    """Return classes of `Adapter`, `Generator`, `NodeProvider`; one instance of each is made."""


@_spec
def cobweb_register_commands() -> Sequence[click.Command]:  # type: ignore[empty-body]  # a hook
    """Return click commands with a name; they become `cobweb NAME` unless a built-in has it."""


@_spec
def cobweb_register_sections() -> Sequence[type[Section]]:  # type: ignore[empty-body]  # a hook
    """Return classes with `name` and `schema`: further top-level keys of `site.yml`."""


@_spec
def cobweb_register_transports() -> Sequence[type[Transport]]:  # type: ignore[empty-body]  # a hook
    """Return `Transport` classes; one instance of each is made without arguments."""


@_spec
def cobweb_register_observers() -> Sequence[type[Observer]]:  # type: ignore[empty-body]  # a hook
    """Return `Observer` classes; one instance is made without arguments for each call."""
