"""The third-party package of tests/fixtures is whole: found by its entry point, and self-tested."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cobweb.model import PythonAction
from cobweb.plugin import Kind, load_plugins

PACKAGE = Path(__file__).resolve().parents[1] / "fixtures" / "cobweb-example-plugin"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the package and the metadata that its pyproject.toml asks for on the import path."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    names = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{names}")
    points = project["entry-points"]["cobweb"].items()
    lines = [f"{name} = {value}" for name, value in points]
    (info / "entry_points.txt").write_text("\n".join(["[cobweb]", *lines]))
    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_one_type_one_executor_and_one_solver_are_registered() -> None:
    plugins = load_plugins()
    (example,) = [plugin for plugin in plugins.loaded if plugin.name == "example"]
    assert (example.distribution, example.version) == ("cobweb-example-plugin", "0.3.0")
    assert example.registered == {
        Kind.TYPES: ("marker",),
        Kind.EXECUTORS: ("record",),
        Kind.SOLVERS: ("first-fit",),
    }
    assert plugins.types["marker"].check == PythonAction(type_name="marker", method="check")
    assert plugins.python_types["marker"].name == "marker"
    layout = plugins.solvers["first-fit"].solve({"services": {"web": {}}}, {"capacity": 1})
    assert layout == {"nodes": [{"services": ["web"]}]}


@pytest.mark.slow
def test_its_own_tests_pass() -> None:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=PACKAGE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
