"""Built-in plugin: the planners `event` (the default) and `stages` (Coopr's)."""

from __future__ import annotations

from collections.abc import Sequence

from cobweb.plugin import Planner, TaskPlanner, hookimpl
from cobweb_plugins.planner._event import EventPlanner
from cobweb_plugins.planner._stages import StagesPlanner

__all__ = ["EventPlanner", "StagesPlanner", "cobweb_interface"]

cobweb_interface = 1


@hookimpl
def cobweb_register_planners() -> Sequence[type[Planner | TaskPlanner]]:
    """Register `event` and `stages`, both of them for steps and for tasks."""
    return [EventPlanner, StagesPlanner]
