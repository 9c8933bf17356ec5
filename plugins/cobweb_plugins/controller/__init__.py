"""Built-in plugin: what was decided besides the site's files, to read and to write by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cobweb.plugin import hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["cobweb_interface"]

cobweb_interface = 1


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `decisions` and `decide`."""
    from cobweb.plugin import on_site
    from cobweb_plugins.controller._commands import decide, decisions

    return [on_site(decisions), on_site(decide)]
