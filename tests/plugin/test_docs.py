"""The documentation of plugins is complete, and what it shows runs."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cobweb.testing
from cobweb.cli import main
from cobweb.operations import MOST_BEHIND
from cobweb.plugin import (
    ActionAdapter,
    Adapter,
    Executor,
    Generator,
    JoiningAdapter,
    Kind,
    Observer,
    OrderedAdapter,
    Planner,
    PythonType,
    Solver,
    TaskPlanner,
    Transport,
    UnvaultingAdapter,
)
from cobweb.plugin._hooks import HOOKS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "plugins"
BLOCK = re.compile(r"^```(\w+)\n# ([\w./]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: str) -> list[tuple[str, str]]:
    """Return (file, text) of the named code blocks of a page."""
    matches = BLOCK.finditer((DOCS / page).read_text())
    return [(match.group(2), match.group(3)) for match in matches]


def _write(page: str, folder: Path) -> None:
    """Write the files of a page; blocks of one file follow each other."""
    for name, text in _blocks(page):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)


@pytest.mark.parametrize("kind", Kind)
def test_each_hook_is_documented_as_it_says_itself(kind: Kind) -> None:
    text = (DOCS / "index.md").read_text()
    documented = re.search(rf"^### {kind.hook}\n\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert documented, f"docs/plugins/index.md lacks a section on {kind.hook}"
    assert documented.group(1) == inspect.getdoc(getattr(HOOKS, kind.hook))


def test_there_is_no_hook_without_a_kind() -> None:
    hooks = {name for name in vars(HOOKS) if name.startswith("cobweb_register_")}
    assert hooks == {kind.hook for kind in Kind}


@pytest.mark.parametrize(
    "protocol",
    [
        *(PythonType, Executor, Solver, Planner, TaskPlanner),
        *(Adapter, JoiningAdapter, OrderedAdapter, UnvaultingAdapter, ActionAdapter),
        *(Generator, Observer, Transport),
    ],
)
def test_each_method_of_each_protocol_is_in_the_table(protocol: type) -> None:
    text = (DOCS / "index.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{protocol.__name__}`")]
    methods = [name for name, value in vars(protocol).items() if inspect.isfunction(value)]
    missing = [name for name in methods if not name.startswith("_") and f"`{name}(" not in row]
    assert not missing


def test_each_public_name_of_the_kit_is_documented() -> None:
    text = (DOCS / "index.md").read_text() + (DOCS / "write-an-executor.md").read_text()
    kit = [name for name in cobweb.testing.__all__ if name.endswith(("Case", "_checks"))]
    assert [name for name in kit if f"`{name}`" not in text] == []


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([\w.-]+\.md)\)", (DOCS / "index.md").read_text())
    assert len(links) >= 2
    assert [link for link in links if not (DOCS / link).is_file()] == []


def test_a_type_takes_twenty_lines() -> None:
    blocks = _blocks("write-a-type.md")
    definition = [text for _, text in blocks[:4]]
    assert sum(len(text.splitlines()) for text in definition) <= 20


@pytest.mark.full("the type of a page by Ansible itself")
def test_the_type_of_the_tutorial_keeps_its_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write("write-a-type.md", tmp_path)
    site, link = tmp_path / "site.yml", tmp_path / "current"
    text = site.read_text().replace("root: /tmp/links", f"root: {tmp_path}")
    for target in ("release-7", "release-8"):
        site.write_text(text.replace("release-7", target))
        code = main(["-C", str(tmp_path), "apply", "--yes"])
        assert code == 0, capsys.readouterr()
        assert str(link.readlink()) == target


@pytest.mark.full(
    "the plugin of each page is installed and tried; the example package is in the gate"
)
@pytest.mark.parametrize(
    ("page", "passed"),
    [
        ("write-an-executor.md", 17),
        ("write-a-generator.md", 7),
        ("write-an-observer.md", 7),
        ("write-a-solver.md", 13),
        ("write-a-transport.md", 8),
    ],
)
def test_the_plugin_of_a_tutorial_conforms(tmp_path: Path, page: str, passed: int) -> None:
    _write(page, tmp_path)
    path = os.pathsep.join([str(tmp_path), *sys.path])  # the tree that is tested
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{passed} passed" in done.stdout


OBSERVED = """
cobweb: 1
name: observed
inventory: {all: {hosts: {one: {}}}}
cobs:
  first: {type: script, on: one, spec: {check: "true", do: "true"}}
  second: {type: script, on: one, spec: {check: "true", do: "true"}, requires: [first]}
"""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["simulate"], 0),
        (["simulate", "--fail", "one/first"], 1),
        (["apply", "--yes", "--executor", "simulate"], 0),
    ],
)
def test_the_observer_of_the_tutorial_is_installed_and_hears_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], code: int
) -> None:
    _install("write-an-observer.md", tmp_path / "package", monkeypatch)
    (tmp_path / "site.yml").write_text(OBSERVED)
    metrics = tmp_path / "cobweb.prom"
    assert main(["-C", str(tmp_path), *command, "--observe", f"metrics={metrics}"]) == code
    lines = metrics.read_text().splitlines()
    assert f"cobweb_exit_code {code}" in lines
    result = "failed" if code else "ok"
    assert any(line.startswith(f'cobweb_transitions{{result="{result}"}} ') for line in lines)


def test_the_observer_of_the_tutorial_is_listed_and_refuses_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _install("write-an-observer.md", tmp_path / "package", monkeypatch)
    (tmp_path / "site.yml").write_text(OBSERVED)
    assert main(["plugins", "--strict-plugins"]) == 0
    assert "observers: metrics" in capsys.readouterr().out
    site = ["-C", str(tmp_path), "simulate", "--observe"]
    assert main([*site, "metrics=x.txt"]) == 64
    assert "'x.txt' is no file of metrics" in capsys.readouterr().err
    assert main([*site, "metric"]) == 64
    assert "did you mean metrics?" in capsys.readouterr().err


def test_the_observer_of_the_tutorial_takes_fifty_lines() -> None:
    ((_, text), *_rest) = _blocks("write-an-observer.md")
    assert len(text.splitlines()) <= 50


def test_the_tutorial_knows_how_far_an_observer_may_be_behind() -> None:
    text = " ".join((DOCS / "write-an-observer.md").read_text().split())
    assert f"unless it is {MOST_BEHIND:,} events behind" in text


def _install(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the package of a page and the metadata that its pyproject.toml asks for on the path."""
    folder.mkdir()
    _write(page, folder)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = [f"{name} = {value}" for name, value in project["entry-points"]["cobweb"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[cobweb]", *points]))
    monkeypatch.syspath_prepend(str(folder))
