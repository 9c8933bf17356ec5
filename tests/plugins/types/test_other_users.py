"""The modules for somebody who is not root."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.trees import HostTree, make

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

NOBODY = 65534


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a home folder that nobody owns and can reach."""
    folder = Path(tempfile.mkdtemp(prefix="cobweb-test-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def test_files_are_kept_in_the_users_own_state_folder(file_module: ModuleType, home: Path) -> None:
    """A file of root's in the user's folder is replaced, and its content put back."""
    path = home / "a.ini"
    path.write_text("root's")
    cob = {"id": "h1/thing", "spec": {"path": str(path), "content": "ours"}, "applied": None}

    def life() -> None:
        file_module.write(cob)
        assert path.stat().st_uid == NOBODY
        assert file_module.check(cob) == {"state": "up"}
        assert list((home / ".local" / "state" / "cobweb" / "file").iterdir())
        file_module.remove(cob)
        assert path.read_text() == "root's"
        assert file_module.check(cob) == {"state": "down"}

    _as_nobody(home, life)


def test_only_root_gives_files_away(file_module: ModuleType, home: Path) -> None:
    """An owner that cannot be had is an error, and the file is as it was."""
    path = home / "a.ini"
    path.write_text("before")
    spec = {"path": str(path), "content": "ours", "owner": "root"}

    def refused() -> None:
        with pytest.raises(file_module.Failed, match="Operation not permitted"):
            file_module.write({"id": "h1/thing", "spec": spec, "applied": None})
        assert path.read_text() == "before"

    _as_nobody(home, refused)


def test_a_tree_of_the_user(tree_module: ModuleType, home: Path) -> None:
    """Root's file in its way comes back, as the user's; an owner that cannot be had is refused."""
    tree = HostTree(tree_module, home / "app", home / ".local" / "state" / "cobweb")
    make(tree.root, {"a": "root's"})
    os.chown(tree.root, NOBODY, NOBODY)

    def life() -> None:
        tree.want({"a": "1", "f/b": "1"}, owner="daemon")
        with pytest.raises(tree.module.Failed, match="only root can give files away"):
            tree.write()
        tree.want({"a": "1", "f/b": "1"}).write()
        assert tree.check() == "up"
        assert (tree.root / "a").stat().st_uid == NOBODY
        tree.want({"a": "2"}).write()
        tree.remove()
        assert tree.check() == "down"
        assert (tree.root / "a").read_text() == "root's"

    _as_nobody(home, life)


def test_a_process_of_the_user(
    process_module: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start, check, stop, all without root."""
    # The Python of the tests may be in root's home.
    monkeypatch.setattr(process_module.sys, "executable", "/usr/bin/python3")
    spec: dict[str, Any] = {"command": f"exec sleep 1000.{os.getpid()}"}
    cob = {"id": "h1/thing", "spec": spec, "applied": None}

    def life() -> None:
        process_module.start(cob)
        assert process_module.check(cob) == {"state": "up"}
        process_module.stop(cob)
        assert process_module.check(cob) == {"state": "down"}
        assert list((home / ".local" / "state" / "cobweb" / "process").iterdir())

    _as_nobody(home, life)


def test_a_change_is_taken_back_by_a_watcher_of_the_user(
    confirm_module: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Armed, taken back and confirmed, all without root."""
    monkeypatch.setattr(confirm_module.sys, "executable", "/usr/bin/python3")
    log = home / "log"
    wish = {"token": "one", "within_s": 300.0, "revert_s": 20.0, "revert": f"id -u >> {log}"}
    cob = {"id": "h1/thing", "spec": {}, "confirm": wish}

    def life() -> None:
        confirm_module.arm(cob)
        assert confirm_module.revert(cob) == {"state": "taken-back"}
        assert log.read_text() == f"{NOBODY}\n"
        confirm_module.arm(cob)
        assert confirm_module.confirm(cob) == {"state": "confirmed"}
        assert list((home / ".local" / "state" / "cobweb" / "confirm").iterdir())

    _as_nobody(home, life)


def _as_nobody(home: Path, claim: Callable[[], None]) -> None:
    """Carry out a claim in a child that is nobody."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.environ["HOME"] = str(home)
            os.environ.pop("XDG_STATE_HOME", None)
            claim()
            status = 0
        except BaseException:  # noqa: BLE001 - the child must not go on as a second pytest
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
