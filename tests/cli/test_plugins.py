"""`cobweb plugins` tells what was loaded and what was left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cobweb.errors import PluginError
from cobweb.plugin import FailedPlugin, Kind, LoadedPlugin, Plugins

Run = Callable[..., Any]
LOADED = LoadedPlugin(
    name="fine",
    distribution="acme-cobweb",
    version="1.2",
    module="acme.cobweb",
    location="/x/acme/cobweb.py",
    registered={Kind.TYPES: ("lustre", "zfs"), Kind.SOLVERS: ("greedy",)},
)
FAILED = FailedPlugin(
    name="broken",
    distribution="bad-cobweb",
    version="0.1",
    module="bad",
    reason="bad cannot be imported: SyntaxError: \x1b[31mno",
    hint="report this to its author",
)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be a whole and a broken plugin."""

    def load(*, strict: bool = False) -> Plugins:
        if strict:
            raise PluginError("broken", FAILED.reason, hint=FAILED.hint)
        return Plugins(loaded=(LOADED,), failed=(FAILED,))

    monkeypatch.setattr("cobweb.plugin.load_plugins", load)


@pytest.mark.usefixtures("found")
def test_text_names_both_and_why(run: Run) -> None:
    ran = run("plugins")
    words = " ".join(ran.out.split())
    assert ran.code == 0
    assert "acme-cobweb 1.2 (acme.cobweb)" in words
    assert "types: lustre, zfs; solvers: greedy" in words
    assert "\\x1b[31mno" in words
    assert "\x1b" not in ran.out
    assert ran.err == "1 plugin loaded, 1 left out\n"
    assert max(len(line) for line in ran.out.splitlines()) <= 80


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("arguments", [["plugins", "-o", "json"], ["-o", "json", "plugins"]])
def test_json_says_the_same(
    run: Run, check_schema: Callable[[str, Any], None], arguments: list[str]
) -> None:
    data = json.loads(run(*arguments).out)
    check_schema("plugins", data)
    assert data["loaded"][0]["registered"] == {"types": ["lustre", "zfs"], "solvers": ["greedy"]}
    assert data["failed"][0]["reason"] == FAILED.reason


@pytest.mark.usefixtures("found")
def test_yaml_is_the_same_data(run: Run) -> None:
    as_json = json.loads(run("plugins", "-o", "json").out)
    assert yaml.safe_load(run("plugins", "-o", "yaml").out) == as_json


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    "arguments", [["plugins", "--strict-plugins"], ["--strict-plugins", "plugins"]]
)
def test_strict_makes_a_broken_plugin_fatal(run: Run, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.code == 1
    assert "plugin broken" in ran.err


def test_the_built_in_plugins_are_there(run: Run, check_schema: Callable[[str, Any], None]) -> None:
    data = json.loads(run("plugins", "-o", "json").out)
    check_schema("plugins", data)
    assert {"ansible", "planner", "simulate", "types"} <= {it["name"] for it in data["loaded"]}
