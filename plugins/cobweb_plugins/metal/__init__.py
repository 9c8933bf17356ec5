"""Built-in plugin: machines from the power button to a running system (Cluster-on-Demand)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.plugin import Extension, RegisteredType, Section, data_dir, hookimpl
from cobweb_plugins.metal._power import BUILT_IN, POINT

if TYPE_CHECKING:
    import click

    from cobweb.model import Expansion
    from cobweb.plugin import ExpandContext
    from cobweb_plugins.metal._provider import Metal

__all__ = ["cobweb_interface"]

cobweb_interface = 1


class PowerPoint:
    """The extension point `machine_power`, at which plugins add kinds of power."""

    point: ClassVar[str] = "extension-point"
    name: ClassVar[str] = POINT


class FilterPoint:
    """The extension point `machine_filter`, at which a plugin reads `where` of nodes."""

    point: ClassVar[str] = "extension-point"
    name: ClassVar[str] = "machine_filter"


def _schema(name: str) -> Mapping[str, Any]:
    path = data_dir("schemas") / "sections" / f"{name}.schema.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


class MetalSection:
    """Machines that boot from the network, and what runs on them."""

    name: ClassVar[str] = "metal"
    schema: ClassVar[Mapping[str, Any]] = _schema("metal")
    decision_schema: ClassVar[Mapping[str, Any]] = _schema("metal.decision")

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return boot server, images and machines."""
        from cobweb_plugins.metal._section import expand_metal

        return expand_metal(sections, context)


@hookimpl
def cobweb_register_adapters() -> Sequence[type[Metal]]:
    """Register the provider `metal`."""
    from cobweb_plugins.metal._provider import Metal

    return [Metal]


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `metal` and `vcluster`."""
    from cobweb.plugin import on_site
    from cobweb_plugins.metal._commands import metal
    from cobweb_plugins.metal._discovery import COMMANDS
    from cobweb_plugins.metal._vcluster import metal_release, vcluster

    for each in (*COMMANDS, metal_release):
        metal.add_command(each)
    return [on_site(metal), on_site(vcluster)]


@hookimpl
def cobweb_register_extensions() -> Sequence[type[Extension]]:
    """Register the built-in kinds of power, and the points of the plugin."""
    return [PowerPoint, FilterPoint, *BUILT_IN]


@hookimpl
def cobweb_register_sections() -> Sequence[type[Section]]:
    """Register `metal`."""
    return [MetalSection]


@hookimpl
def cobweb_register_types() -> Sequence[type[RegisteredType]]:
    """Register `machine` and `machine-image`."""
    from cobweb_plugins.metal._types import Machine, MachineImage

    return [Machine, MachineImage]
