"""What loading returns: the plugins that are there, those left out, and what they register."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cobweb.model import CobType
from cobweb.plugin import protocols
from cobweb.plugin._hooks import Kind

if TYPE_CHECKING:
    import click


class Expander(protocols.ExpandingSection, Protocol):
    """A section that stands for hosts and objects; `source` is the folder of its code."""

    source: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin:
    """A plugin that is there: its entry point, where it is from, and the names that it registers.

    `module` is the entry point's value, `location` the file it was loaded from ("" if unknown).
    `notes` say what of it this Cobweb, with these plugins, has no use for.
    """

    name: str
    distribution: str
    version: str
    module: str
    location: str
    registered: Mapping[Kind, tuple[str, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPlugin:
    """A plugin that was left out whole, and why."""

    name: str
    distribution: str
    version: str
    module: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.name} ({self.distribution} {self.version}): {self.reason}{hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """All that was loaded; every mapping goes by the registered name.

    `executors` are classes, made once per run without arguments; `solvers`, `planners`, `adapters`
    and `transports` are instances. Calls of these raise PluginError where the plugin breaks.
    `generators` are those adapters that make a site's files from a model, `providers` those that
    make machines; `task_planners` are those planners that schedule tasks of nodes.
    `observers` make one each time that they are called, for a call of a command;
    `unasked_observers` are those of them that may come without being named.
    `python_types` are the instances whose methods the type's `PythonAction`s name; what these raise
    fails a job. `extensions` are classes by `POINT/NAME`; `extensions_at` has those of a point.
    """

    loaded: tuple[LoadedPlugin, ...] = ()
    failed: tuple[FailedPlugin, ...] = ()
    types: Mapping[str, CobType] = field(default_factory=dict)
    python_types: Mapping[str, protocols.PythonType] = field(default_factory=dict)
    executors: Mapping[str, type[protocols.Executor]] = field(default_factory=dict)
    solvers: Mapping[str, protocols.Solver] = field(default_factory=dict)
    planners: Mapping[str, protocols.Planner] = field(default_factory=dict)
    task_planners: Mapping[str, protocols.TaskPlanner] = field(default_factory=dict)
    adapters: Mapping[str, protocols.Adapter] = field(default_factory=dict)
    generators: Mapping[str, protocols.Generator] = field(default_factory=dict)
    providers: Mapping[str, protocols.NodeProvider] = field(default_factory=dict)
    commands: Mapping[str, click.Command] = field(default_factory=dict)
    sections: Mapping[str, type[protocols.Section]] = field(default_factory=dict)
    expanders: Mapping[str, Expander] = field(default_factory=dict)
    transports: Mapping[str, protocols.Transport] = field(default_factory=dict)
    observers: Mapping[str, Callable[[], protocols.Observer]] = field(default_factory=dict)
    unasked_observers: Mapping[str, Callable[[], protocols.UnaskedObserver]] = field(
        default_factory=dict
    )
    extensions: Mapping[str, type[protocols.Extension]] = field(default_factory=dict)

    @property
    def decision_schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schema of what may be decided, by the name of each section that takes that."""
        sections = self.sections.items()
        return {name: it.decision_schema for name, it in sections if hasattr(it, "decision_schema")}

    def extensions_at(self, point: str) -> Mapping[str, type[protocols.Extension]]:
        """Return by name what plugins add at a point that another plugin asks for."""
        return {it.name: it for it in self.extensions.values() if it.point == point}
