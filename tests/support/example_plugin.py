"""The third-party package of tests/fixtures, installed for a test without pip."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "fixtures" / "cobweb-example-plugin"


@pytest.fixture
def example_plugin(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Put the package and the metadata that its pyproject.toml asks for on the import path.

    Return the folder of the metadata: a child process finds the package with it and `src`.
    """
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    folder = tmp_path_factory.mktemp("installed")
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    names = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{names}")
    points = project["entry-points"]["cobweb"].items()
    lines = [f"{name} = {value}" for name, value in points]
    (info / "entry_points.txt").write_text("\n".join(["[cobweb]", *lines]))
    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    monkeypatch.syspath_prepend(str(folder))
    return folder
