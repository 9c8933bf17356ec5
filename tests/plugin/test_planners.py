"""A planner may plan steps, tasks of nodes, or both; one that does neither is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cobweb.plugin import load_plugins

Install = Callable[[str, str], Path]

SOURCE = """
    class P:
        name = "mine"
{methods}

    @hookimpl
    def cobweb_register_planners(): return [P]
"""
STEPS = (
    "        def stages(self, graph, steps): return None\n"
    "        def priorities(self, graph): return {}\n"
)
TASKS = "        def schedule(self, tasks, workers=None): return None\n"


@pytest.mark.parametrize(
    ("methods", "tables"),
    [(STEPS, {"steps"}), (TASKS, {"tasks"}), (STEPS + TASKS, {"steps", "tasks"})],
    ids=["steps", "tasks", "both"],
)
def test_a_planner_is_where_its_methods_say(
    methods: str, tables: set[str], install: Install
) -> None:
    install("mine", SOURCE.format(methods=methods))
    plugins = load_plugins(strict=True)
    by_table = {"steps": plugins.planners, "tasks": plugins.task_planners}
    assert {name for name, table in by_table.items() if "mine" in table} == tables


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ("", "P lacks the method stages(graph, steps)"),
        (TASKS + STEPS.splitlines()[0], "P lacks the method priorities(graph)"),
        ("        def schedule(self, work): return None\n", "schedule"),
    ],
    ids=["none", "half", "other-arguments"],
)
def test_a_planner_without_its_methods_is_left_out(
    methods: str, reason: str, install: Install
) -> None:
    install("mine", SOURCE.format(methods=methods))
    (failed,) = [it for it in load_plugins().failed if it.name == "mine"]
    assert reason in failed.reason
