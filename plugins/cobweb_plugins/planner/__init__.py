"""Built-in plugin: the planner `stages`, the default order for people and dispatch policy."""

from __future__ import annotations

from collections.abc import Sequence

from cobweb.plugin import Planner, hookimpl
from cobweb_plugins.planner._stages import StagesPlanner

__all__ = ["StagesPlanner", "cobweb_interface"]

cobweb_interface = 1


@hookimpl
def cobweb_register_planners() -> Sequence[type[Planner]]:
    """Register `stages`."""
    return [StagesPlanner]
