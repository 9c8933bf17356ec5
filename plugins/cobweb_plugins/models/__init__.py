"""Built-in plugin: files of a site that an adapter makes from a data model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cobweb.plugin import hookimpl
from cobweb_plugins.models._section import GenerateSection

if TYPE_CHECKING:
    import click

__all__ = ["cobweb_interface"]

cobweb_interface = 1


@hookimpl
def cobweb_register_sections() -> Sequence[type[GenerateSection]]:
    """Register `generate`."""
    return [GenerateSection]


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `generate`."""
    from cobweb.plugin import on_site
    from cobweb_plugins.models._command import command

    return [on_site(command)]
