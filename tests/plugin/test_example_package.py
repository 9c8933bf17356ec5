"""The third-party package of tests/fixtures is whole: found by its entry point, and self-tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cobweb.cli import main
from cobweb.model import PythonAction
from cobweb.plugin import Kind, load_plugins
from tests.support.example_plugin import PACKAGE


@pytest.mark.usefixtures("example_plugin")
def test_one_of_each_kind_is_registered() -> None:
    plugins = load_plugins()
    (example,) = [plugin for plugin in plugins.loaded if plugin.name == "example"]
    assert (example.distribution, example.version) == ("cobweb-example-plugin", "0.4.0")
    assert example.registered == {
        Kind.TYPES: ("marker", "haproxy-server"),
        Kind.EXECUTORS: ("record",),
        Kind.SOLVERS: ("first-fit",),
        Kind.ADAPTERS: ("folders",),
        Kind.SECTIONS: ("lamps",),
        Kind.EXTENSIONS: ("service_adapter/haproxy", "decider/lamps"),
    }
    assert set(plugins.providers) >= {"folders"}
    assert plugins.types["marker"].check == PythonAction(type_name="marker", method="check")
    assert plugins.python_types["marker"].name == "marker"
    template = {"services": ["web"], "hardwaretypes": ["h"], "imagetypes": ["i"]}
    layout = plugins.solvers["first-fit"].solve(template, {"nodes": 1})
    assert layout == {"nodes": [{"hardwaretype": "h", "imagetype": "i", "services": ["web"]}]}


@pytest.mark.gate("a package of a third party, as its author tests it, with a real haproxy")
@pytest.mark.timeout(600)
def test_its_own_tests_pass(example_plugin: Path) -> None:
    paths = os.pathsep.join([str(PACKAGE / "src"), str(example_plugin)])
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=PACKAGE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


SITE = """
cobweb: 1
name: markers
inventory: {all: {hosts: {one: {ansible_connection: local}, two: {ansible_connection: local}}}}
cobs:
  schema:
    type: marker
    on: one
    spec: {folder: markers, text: "schema 7"}
  app:
    type: marker
    on: two
    spec: {folder: markers, text: "app 7"}
    requires: [schema@one]
"""


@pytest.fixture
def site(tmp_path: Path, example_plugin: Path) -> Path:  # noqa: ARG001  # a fixture's fixture
    """Return a site whose objects are of the package's type."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(SITE)
    return folder


def test_its_type_is_applied_as_any_other(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["-C", str(site), "apply", "--yes"])
    assert code == 0, capsys.readouterr()
    found = {path.name: path.read_text() for path in (site / "markers").iterdir()}
    assert found == {"one--schema": "schema 7", "two--app": "app 7"}
    (site / "site.yml").write_text(SITE.replace("schema 7", "schema 8"))
    assert main(["-C", str(site), "apply", "--yes"]) == 0
    assert (site / "markers" / "one--schema").read_text() == "schema 8"


def test_its_executor_carries_out_a_run(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["-C", str(site), "apply", "--yes", "--executor", "record"])
    assert code == 0, capsys.readouterr()
    lines = (site / ".cobweb" / "record.jsonl").read_text().splitlines()
    moves = [job["cob"] for job in map(json.loads, lines) if job["kind"] == "transition"]
    assert moves == ["one/schema", "two/app"]
    assert not (site / "markers").exists()
