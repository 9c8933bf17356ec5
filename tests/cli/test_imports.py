"""No command imports what it has no use for: what each pays before, and for, its work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cobweb.cli import _group
from cobweb.cli._group import COMMANDS, PLUGGED

ROOT = Path(__file__).resolve().parents[2]
EVALUATES = ("jinja2", "jsonschema")
PREDICTS = ("cobweb.engine", "cobweb.operations")
STORES = ("sqlalchemy", "asyncio", "ssl")
RUNS = ("cobweb.kernel._kernel", "cobweb.kernel._dispatch", "ansible_runner", "tenacity")
PLUGS = ("pluggy", "cobweb_plugins", "importlib.metadata")
WORKS = (*EVALUATES, *PREDICTS, *STORES, *RUNS, *PLUGS, "yaml", "cobweb.site", "cobweb.model")
OTHERS = ("cobweb_plugins.cluster._catalog", "cobweb_plugins.ansible._lanes", "rich")
"""Of plugins that this site has no use for, and of progress on a terminal."""

FACE = "cobweb.operations"
"""Its names are loaded when they are asked for: by itself it is a table of them."""

USED = {
    **dict.fromkeys(("apply", "rollback", "restart"), ("plan",)),
    "init": ("schema",),
}
"""The other commands that a command stands on."""

SCRIPT = """
import sys
from cobweb.cli import _group, main
_group._has_foreign_plugins = lambda: False
code = main(sys.argv[1:])
import json
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the demo, of which nothing was kept yet."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copytree(ROOT / "inventories" / "demo", folder / "demo")
    return folder


def modules(home: Path, command: str) -> list[str]:
    """Return the modules that a command of a process of its own has imported when it ends.

    The face of the operations is left out, what is behind it is not.
    """
    environment = {**os.environ, "XDG_CACHE_HOME": str(home / "xdg"), "HOME": str(home)}
    environment.pop("COBWEB_NO_CACHE")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command.split()],
        cwd=home / "demo",
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    code, names = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return [name for name in names if name != FACE]


@pytest.mark.parametrize(
    ("place", "text", "may"),
    [
        (
            "cobweb-0.1.0.dist-info/entry_points.txt",
            "[cobweb]\ntypes = cobweb_plugins.types",
            False,
        ),
        ("cobweb.egg-info/entry_points.txt", "[cobweb]\nt = cobweb_plugins.types", False),
        ("other-1.0.dist-info/entry_points.txt", "[console_scripts]\na = b:c", False),
        ("other-1.0.dist-info/entry_points.txt", "[console_scripts]\n[cobweb]\na = b", True),
        ("Other.egg-info/entry_points.txt", "[cobweb]\na = b", True),
        ("cobweb_more-1.0.dist-info/entry_points.txt", "[cobweb]\na = b", True),
        ("cobweb.more-1.0.dist-info/entry_points.txt", "[cobweb]\na = b", True),
        ("cobweb-more-1.0.dist-info/entry_points.txt", "[cobweb]\na = b", True),
    ],
)
def test_a_closer_look_at_plugins_is_taken_where_there_may_be_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, text: str, *, may: bool
) -> None:
    (tmp_path / place).parent.mkdir()
    (tmp_path / place).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "is-not-there")])
    assert _group._may_have_foreign_plugins() is may


def test_a_closer_look_at_plugins_is_taken_where_folders_do_not_tell_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Finder:
        @staticmethod
        def find_distributions(_context: object) -> list[object]:
            return []

    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert not _group._may_have_foreign_plugins()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
        assert _group._may_have_foreign_plugins()
    (tmp_path / "packed.zip").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "packed.zip")])
    assert _group._may_have_foreign_plugins()


def found(names: list[str], unwanted: tuple[str, ...]) -> list[str]:
    """Return the first module of each package that should not be there."""
    inside = {it: [n for n in names if n == it or n.startswith(f"{it}.")] for it in unwanted}
    return [its[0] for its in inside.values() if its]


@pytest.mark.parametrize("command", ["--version", "--help", "completion bash", "schema"])
def test_what_has_no_site_imports_nothing_of_one(home: Path, command: str) -> None:
    names = modules(home, command)
    assert not found(names, (*WORKS, *OTHERS))
    assert len(names) <= 190


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - PLUGGED))
def test_what_comes_before_the_work_imports_nothing_of_it(home: Path, name: str) -> None:
    names = modules(home, f"{name} --help")
    assert not found(names, (*WORKS, *OTHERS))
    assert len(names) <= 190
    own = {it for it in names if it.startswith("cobweb.cli.") and "._" not in it}
    assert own == {f"cobweb.cli.{it}" for it in (name, *USED.get(name, ()))}


@pytest.mark.gate("one claim of each command, on a site that is new and once more")
def test_a_command_imports_what_its_work_needs(home: Path) -> None:
    """The first one evaluates the site, the others meet one that is known."""
    for command, unwanted, most in (
        ("validate", (*STORES, *RUNS), 580),
        ("validate", (*EVALUATES, *PREDICTS, *STORES, *RUNS), 340),
        ("graph", (*EVALUATES, *PREDICTS, *STORES, *RUNS), 340),
        ("show", (*PREDICTS, *STORES, *RUNS), 410),
        ("status", (*EVALUATES, *RUNS), 570),
        ("plan", RUNS, 650),
        ("plan", (*EVALUATES, *PREDICTS, *RUNS), 510),
        ("runs", (*EVALUATES, *PREDICTS, *RUNS, "cobweb_plugins"), 440),
        ("generations", (*EVALUATES, *PREDICTS, *RUNS, "cobweb_plugins"), 440),
        ("plugins", (*EVALUATES, *PREDICTS, *STORES, *RUNS, "cobweb.site"), 315),
    ):
        names = modules(home, command)
        assert not found(names, (*unwanted, *OTHERS)), command
        assert len(names) <= most, command
