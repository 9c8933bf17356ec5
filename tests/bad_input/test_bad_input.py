"""Every kind of bad input gets one clear message with its place, and the exit code of section 7.

The cases are data: `cases.yml` says what each entry means.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb.cli import main
from cobweb.store import open_store

HERE = Path(__file__).parent
TABLE: dict[str, Any] = yaml.safe_load((HERE / "cases.yml").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]
LONG = "n" * 3000
KEYS = {"name", "base", "files", "edits", "binary", "remove", "setup", "command", "expect", "exit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a set-up step may change before the command runs."""

    site: Path
    monkeypatch: pytest.MonkeyPatch


def _spoiled_database(scene: Scene) -> None:
    state = scene.site / ".cobweb"
    state.mkdir()
    (state / "state.db").write_bytes(b"this is no database, whatever its name says" * 100)


def _database_is_a_folder(scene: Scene) -> None:
    (scene.site / ".cobweb" / "state.db").mkdir(parents=True)


def _foreign_database(scene: Scene) -> None:
    state = scene.site / ".cobweb"
    state.mkdir()
    with sqlite3.connect(state / "state.db") as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()


def _newer_database(scene: Scene) -> None:
    _database_of_format(scene, "99")


def _older_database(scene: Scene) -> None:
    _database_of_format(scene, "4")


def _database_of_format(scene: Scene, found: str) -> None:
    open_store("sqlite:///.cobweb/state.db", scene.site).close()
    with closing(sqlite3.connect(scene.site / ".cobweb/state.db")) as connection, connection:
        connection.execute("UPDATE cobweb_meta SET value = ? WHERE key = 'format'", (found,))


SETUPS: Mapping[str, Callable[[Scene], None]] = {
    "spoiled database": _spoiled_database,
    "database is a folder": _database_is_a_folder,
    "foreign database": _foreign_database,
    "newer database": _newer_database,
    "older database": _older_database,
}


def test_the_table_is_well_formed() -> None:
    """At least sixty cases, each with a name of its own and keys that are known."""
    names = [case["name"] for case in CASES]
    assert len(names) >= 60
    assert len(set(names)) == len(names)
    for case in CASES:
        assert set(case) <= KEYS, case["name"]
        assert case["expect"], case["name"]


@pytest.mark.gate("one takes what a template may take")
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_bad_input_gets_a_clear_message(
    case: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message, its place and the exit code; no traceback, and the files stay as they were."""
    for name in ("COBWEB_SITE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    site = tmp_path / "site"
    _write(case, site)
    for step in case.get("setup", ()):
        SETUPS[step](Scene(site=site, monkeypatch=monkeypatch))
    before = _contents(site)
    words = map(str, case.get("command", ["validate"]))
    command = [word.replace("SITE", str(site)).replace("LONG", LONG) for word in words]
    code = main(["-C", str(site), *command])
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    for part in case["expect"]:
        assert part in shown
    assert code == case.get("exit", 3), shown
    assert _contents(site) == before


def _write(case: dict[str, Any], site: Path) -> None:
    files = dict(TABLE["bases"][case.get("base", "shop")])
    files.update(case.get("files", {}))
    for name in case.get("remove", ()):
        del files[name]
    for edit in case.get("edits", ()):
        file, old, new = edit
        assert old in files[file], f"{case['name']}: the base has no {old!r}"
        files[file] = files[file].replace(old, new.replace("LONG", LONG), 1)
    site.mkdir()
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, data in case.get("binary", {}).items():
        (site / name).write_bytes(data)


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_bases_are_valid(tmp_path: Path) -> None:
    """A case is bad by its own change alone."""
    for name in TABLE["bases"]:
        site = tmp_path / name
        _write({"name": name, "base": name}, site)
        assert main(["-C", str(site), "validate"]) == 0
        shutil.rmtree(site)
