"""Built-in plugin: resources move between services by need (Hedeby)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from cobweb.plugin import Extension, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["cobweb_interface"]

cobweb_interface = 1


class PolicyPoint:
    """The extension point `pool_policy`, at which plugins add policies."""

    point: ClassVar[str] = "extension-point"
    name: ClassVar[str] = "pool_policy"


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


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `pool`."""
    from cobweb.plugin import on_site
    from cobweb_plugins.pools._commands import pool

    return [on_site(pool)]


@hookimpl
def cobweb_register_extensions() -> Sequence[type[Extension]]:
    """Register the policies `priority` and `share`, and the point that they are at."""
    return [PolicyPoint, PriorityPolicy, SharePolicy]
