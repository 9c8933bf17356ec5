"""Built-in plugin: resources move between services by need (Hedeby)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.plugin import (
    Extension,
    RegisteredType,
    Section,
    data_dir,
    hookimpl,
    type_file,
)

if TYPE_CHECKING:
    import click

    from cobweb.model import Expansion
    from cobweb.plugin import ExpandContext
    from cobweb_plugins.pools._decider import Turn

__all__ = ["cobweb_interface"]

cobweb_interface = 1


class PolicyPoint:
    """The extension point `pool_policy`, at which plugins add policies."""

    point: ClassVar[str] = "extension-point"
    name: ClassVar[str] = "pool_policy"


class AdapterPoint:
    """The extension point `service_adapter`, at which plugins add adapters of services."""

    point: ClassVar[str] = "extension-point"
    name: ClassVar[str] = "service_adapter"


class PriorityPolicy:
    """Urgency x priority: see `decision.Priority`, which is imported for those who decide by it."""

    point: ClassVar[str] = "pool_policy"
    name: ClassVar[str] = "priority"

    def __init__(self) -> None:
        from cobweb_plugins.pools.decision import Priority

        self.weight = Priority().weight


class SharePolicy:
    """Shares that are kept for services: see `decision.Share`."""

    point: ClassVar[str] = "pool_policy"
    name: ClassVar[str] = "share"

    def __init__(self) -> None:
        from cobweb_plugins.pools.decision import Share

        self.weight = Share().weight


class WhereFilter:
    """Filters of machines that `metal` chooses, in the language of `where`: `decision.Filter`."""

    point: ClassVar[str] = "machine_filter"
    name: ClassVar[str] = "where"

    def accepts(self, text: str, properties: Mapping[str, Any]) -> bool:
        """Say whether a machine with these properties fits; ValueError for a wrong filter."""
        from cobweb_plugins.pools.decision import Filter

        return Filter(text).accepts(properties)


def _file(kind: str, name: str) -> Path:
    return Path(str(data_dir(kind))) / name  # type: ignore[arg-type]


def _adapter(adapter: str) -> type[Extension]:
    """Return the class of a built-in service adapter, which is a file of playbooks/pools."""

    class BuiltIn:
        point: ClassVar[str] = "service_adapter"
        name: ClassVar[str] = adapter
        source: ClassVar[Path] = _file("playbooks", f"pools/{adapter}.yml")

    return BuiltIn


def _schema(name: str) -> Mapping[str, Any]:
    path = _file("schemas", f"sections/{name}.schema.json")
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


class PoolsSection:
    """Resources and services; whose each resource is, is decided."""

    name: ClassVar[str] = "pools"
    schema: ClassVar[Mapping[str, Any]] = _schema("pools")
    decision_schema: ClassVar[Mapping[str, Any]] = _schema("pools.decision")

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return the objects of all members."""
        from cobweb_plugins.pools._section import expand_pools

        return expand_pools(sections, context)


class PoolsDecider:
    """Decides whose each resource is, by what services answer."""

    point: ClassVar[str] = "decider"
    name: ClassVar[str] = "pools"
    every_s: ClassVar[float] = 10.0
    limit_s: ClassVar[float] = 60.0

    def observe(self, context: Any) -> Mapping[str, Any]:
        """Ask all services that take part."""
        from cobweb_plugins.pools._decider import look

        return look(context)

    def decide(self, view: Any, observations: Any, memory: Any, now_s: float) -> Turn:
        """Decide by what they have answered."""
        from cobweb_plugins.pools._decider import decided

        return decided(view, observations, memory, now_s)


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `pool`."""
    from cobweb.plugin import on_site
    from cobweb_plugins.pools._hand import commands

    return [on_site(it) for it in commands()]


@hookimpl
def cobweb_register_extensions() -> Sequence[type[Extension]]:
    """Register policies, service adapters, the points that they are at, and the decider."""
    return [
        *(PolicyPoint, PriorityPolicy, SharePolicy, AdapterPoint, WhereFilter, PoolsDecider),
        *map(_adapter, ("processes", "counter", "gridengine", "slurm", "spare")),
    ]


@hookimpl
def cobweb_register_sections() -> Sequence[type[Section]]:
    """Register `pools`."""
    return [PoolsSection]


@hookimpl
def cobweb_register_types() -> Sequence[type[RegisteredType]]:
    """Register the types of members of the built-in adapters."""
    paths = _file("playbooks", "pools").glob("*/type.yml")
    return [type_file(path) for path in sorted(paths)]
