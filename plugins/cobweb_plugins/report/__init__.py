"""Built-in plugin: the command `report` and the annotations of pipelines.

A report says what happened in a run. It needs the events alone, from the journal or from a file
that `--events` wrote: no site, no host. Reading keeps per object and transition, not per event;
`forms` has all that is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cobweb.plugin import Observer, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["cobweb_interface"]

cobweb_interface = 1


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `report`."""
    from cobweb.plugin import on_site
    from cobweb_plugins.report._command import FORMS, command

    return [on_site(command, *FORMS)]


@hookimpl
def cobweb_register_observers() -> Sequence[type[Observer]]:
    """Register `annotations`."""
    from cobweb_plugins.report._observer import Annotations

    return [Annotations]
