"""The built-in plugins are whole, and their types pass the conformance kit."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

import pytest

from cobweb.plugin import Plugins, RegisteredType, load_plugins
from cobweb.testing import NamedCheck, TypeCase, type_checks


def _built_in() -> Plugins:
    return load_plugins()


def _type_checks() -> list[NamedCheck]:
    """Return the checks of all built-in types; the classes are asked of the plugin itself."""
    (entry,) = entry_points(group="cobweb", name="types")
    classes: list[Callable[[], RegisteredType]] = entry.load().cobweb_register_types()
    return [check for make in classes for check in type_checks(TypeCase(make=make))]


def test_every_built_in_plugin_is_loaded() -> None:
    plugins = _built_in()
    ours = {plugin.name for plugin in plugins.loaded if plugin.distribution == "cobweb"}
    assert ours == {
        *(
            "agents",
            "ansible",
            "applications",
            "cluster",
            "controller",
            "models",
            "namespaces",
            "planner",
            "providers",
        ),
        *("metal", "pools", "report", "simulate", "solvers", "storage", "types"),
    }
    assert [str(plugin) for plugin in plugins.failed if plugin.distribution == "cobweb"] == []


def test_they_register_what_the_design_names() -> None:
    plugins = _built_in()
    assert {"file", "process", "script", "service"} <= set(plugins.types)
    assert {"ansible", "simulate"} <= set(plugins.executors)
    assert set(plugins.planners) >= {"event", "stages"} <= set(plugins.task_planners)
    assert "ansible-inventory" in plugins.adapters


@pytest.mark.parametrize("check", _type_checks(), ids=str)
def test_a_built_in_type_conforms(check: NamedCheck) -> None:
    check()
