"""The groups `cobweb cluster` and `cobweb import`; their commands are imported when asked for."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

import click

from cobweb.plugin import on_site


class LateGroup(click.Group):
    """A group whose commands the module `home` adds: every start of Cobweb would pay for them."""

    def __init__(self, *args: Any, home: str, **options: Any) -> None:
        self._home = home
        super().__init__(*args, **options)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """The commands by name."""
        import_module(self._home)
        return self._commands

    @commands.setter
    def commands(self, commands: MutableMapping[str, click.Command]) -> None:
        self._commands = commands


@click.group("cluster", cls=LateGroup, home="cobweb_plugins.cluster._commands")
def cluster() -> None:
    """Create, change, look at and delete clusters of the catalog's templates.

    Each operation is an edit of the site (the file that has the cluster, and
    site.lock with its layout) and an apply of it: all of it is in Git.
    """


@click.group(
    "import",
    cls=LateGroup,
    home="cobweb_plugins.cluster._import_command",
    epilog="\b\nExamples:\n  cobweb import coopr ../coopr-templates",
)
def import_command() -> None:
    """Read what other tools have written into the site."""


on_site(cluster)
on_site(import_command)
