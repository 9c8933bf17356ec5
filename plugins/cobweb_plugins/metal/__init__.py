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

__all__ = ["cobweb_interface"]

cobweb_interface = 1


class PowerPoint:
    """The extension point `machine_power`, at which plugins add kinds of power."""

    point: ClassVar[str] = "extension-point"
    name: ClassVar[str] = POINT


def _schema() -> Mapping[str, Any]:
    path = data_dir("schemas") / "sections" / "metal.schema.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


class MetalSection:
    """Machines that boot from the network, and what runs on them."""

    name: ClassVar[str] = "metal"
    schema: ClassVar[Mapping[str, Any]] = _schema()

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return boot server, images and machines."""
        from cobweb_plugins.metal._section import expand_metal

        return expand_metal(sections, context)


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `metal`."""
    from cobweb.plugin import on_site
    from cobweb_plugins.metal._commands import metal
    from cobweb_plugins.metal._discovery import COMMANDS

    for each in COMMANDS:
        metal.add_command(each)
    return [on_site(metal)]


@hookimpl
def cobweb_register_extensions() -> Sequence[type[Extension]]:
    """Register the built-in kinds of power, and the point that they are at."""
    return [PowerPoint, *BUILT_IN]


@hookimpl
def cobweb_register_sections() -> Sequence[type[Section]]:
    """Register `metal`."""
    return [MetalSection]


@hookimpl
def cobweb_register_types() -> Sequence[type[RegisteredType]]:
    """Register `machine` and `machine-image`."""
    from cobweb_plugins.metal._types import Machine, MachineImage

    return [Machine, MachineImage]
