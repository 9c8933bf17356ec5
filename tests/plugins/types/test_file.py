"""The type `file` on a real file system: by real Ansible, and crashed at every step."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.tasks import Hand, OneCob, built_in, digest_of, vaulted

AWKWARD = 'a={{ nope }}\n{% raw\n\t"quotes" \\ ünïcödé \U0001f578\n{"json": true}'
TEXTS = {
    "templates and unicode": AWKWARD,
    "no newline at the end": "x",
    "empty": "",
    "carriage returns": "a\r\nb\rc\n",
    "looks like JSON": '{"a": [1, 2]}',
    "looks like a number": "0644",
    "looks like nothing": "null",
}


@pytest.fixture
def cob(hand: Hand, system: Path) -> OneCob:
    """Return a file COB that Ansible carries out."""
    spec = {"path": str(system / "a.ini"), "content": AWKWARD, "state_dir": str(system / "state")}
    return OneCob(built_in("file"), hand, spec)


@pytest.mark.gate("the life of a file by Ansible itself")
def test_whole_life_with_nothing_before(cob: OneCob, system: Path) -> None:
    """Down, up, outdated, up, down: the bytes are right and nothing of ours is left."""
    path = system / "a.ini"
    assert cob.check() == "down"
    cob.go("down", "up")
    assert path.read_bytes() == AWKWARD.encode()
    assert path.stat().st_mode & 0o7777 == 0o644
    cob.applied, cob.spec = cob.spec, {**cob.spec, "content": "new", "mode": "0600"}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o7777 == 0o600
    cob.go("up", "down")
    assert not path.exists()
    assert [found for found in system.rglob("*") if found.is_file()] == []


def test_the_replaced_file_comes_back(cob: OneCob, system: Path) -> None:
    """A file that was there before is outdated, replaced, and put back with its mode."""
    path = system / "a.ini"
    path.write_bytes(b"\xff\x00 original")
    path.chmod(0o640)
    before = digest_of(system)
    assert cob.check() == "outdated"
    assert digest_of(system) == before
    cob.go("outdated", "up")
    cob.go("up", "down")
    assert path.read_bytes() == b"\xff\x00 original"
    assert path.stat().st_mode & 0o7777 == 0o640


def test_a_vaulted_content_arrives_and_is_not_reported(cob: OneCob, system: Path) -> None:
    """The secret is in the file and in no report."""
    cob.spec = {**cob.spec, "content": vaulted("s3cret")}
    assert cob.check() == "down"
    assert "s3cret" not in str(cob.move("down", "up"))
    assert (system / "a.ini").read_text() == "s3cret"
    assert cob.check() == "up"


# --- the module without Ansible around it: every corner, and crashes


@pytest.fixture
def one(system: Path) -> dict[str, Any]:
    """Return the variable `cob` of a file."""
    path, state = str(system / "etc" / "a.ini"), str(system / "state")
    spec = {"path": path, "content": "ours", "state_dir": state}
    return {"id": "h1/thing", "spec": spec, "applied": None}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_content_arrives_to_the_byte(
    file_module: ModuleType, one: dict[str, Any], text: str
) -> None:
    """Whatever the text looks like, it is the file's content."""
    one["spec"]["content"] = text
    file_module.write(one)
    assert Path(one["spec"]["path"]).read_bytes() == text.encode()
    assert file_module.check(one) == {"state": "up"}


def test_bytes_that_are_no_text(file_module: ModuleType, one: dict[str, Any]) -> None:
    """Base64 is decoded on the host."""
    raw = bytes(range(256))
    one["spec"] |= {"content": base64.b64encode(raw).decode(), "encoding": "base64"}
    file_module.write(one)
    assert Path(one["spec"]["path"]).read_bytes() == raw


def test_missing_folders_are_made_and_removed(
    file_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """Folders that we made go with the file, unless somebody else uses them."""
    one["spec"]["path"] = str(system / "etc" / "x" / "y" / "a.ini")
    file_module.write(one)
    (system / "etc" / "other").write_text("somebody's")
    file_module.remove(one)
    assert not (system / "etc" / "x").exists()
    assert (system / "etc" / "other").exists()


def test_repeating_changes_nothing(
    file_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """A second write finds all done and touches nothing."""
    file_module.write(one)
    before = digest_of(system)
    assert file_module.write(one) == {"changed": False}
    assert digest_of(system) == before
    file_module.remove(one)
    file_module.remove(one)
    assert file_module.check(one) == {"state": "down"}


def test_a_symbolic_link_comes_back_as_a_link(
    file_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """The link is replaced, not what it points to."""
    path = Path(one["spec"]["path"])
    path.parent.mkdir()
    (system / "real").write_text("real")
    path.symlink_to("../real")
    assert file_module.check(one) == {"state": "outdated"}
    file_module.write(one)
    assert not path.is_symlink()
    assert (system / "real").read_text() == "real"
    file_module.remove(one)
    assert str(path.readlink()) == "../real"
    assert file_module.check(one) == {"state": "down"}


@pytest.mark.parametrize("action", ["write", "remove"])
def test_a_local_edit_is_kept(file_module: ModuleType, one: dict[str, Any], action: str) -> None:
    """What somebody wrote into our file is in the state folder after we replace or remove it."""
    path = Path(one["spec"]["path"])
    file_module.write(one)
    path.write_text("an edit")
    assert file_module.check(one) == {"state": "outdated"}
    answer = getattr(file_module, action)(one)
    (kept,) = answer["kept"]
    assert Path(kept).read_text() == "an edit"
    assert kept in answer["msg"]
    file_module.remove(one)
    assert Path(kept).read_text() == "an edit"


def test_edits_of_what_was_put_back_are_left_alone(
    file_module: ModuleType, one: dict[str, Any]
) -> None:
    """Once removed, the file is its owner's: a repeated removal leaves an edit in place."""
    path = Path(one["spec"]["path"])
    path.parent.mkdir()
    path.write_text("original")
    file_module.write(one)
    file_module.remove(one)
    assert file_module.check(one) == {"state": "down"}
    path.write_text("the owner's edit")
    assert file_module.check(one) == {"state": "outdated"}
    file_module.remove(one)
    assert path.read_text() == "the owner's edit"
    assert file_module.check(one) == {"state": "down"}


def test_what_was_never_ours_is_not_removed(file_module: ModuleType, one: dict[str, Any]) -> None:
    """Before our first write there is nothing to remove, even if the content is the wanted one."""
    path = Path(one["spec"]["path"])
    path.parent.mkdir()
    path.write_text("ours")
    assert file_module.check(one) == {"state": "up"}
    file_module.remove(one)
    assert path.read_text() == "ours"
    assert file_module.check(one) == {"state": "down"}


def test_a_changed_path_moves_the_file(
    file_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """The file of the applied spec is outdated, and goes when the new one comes."""
    file_module.write(one)
    old = Path(one["spec"]["path"])
    moved = {**one, "applied": one["spec"], "spec": {**one["spec"], "path": str(system / "b")}}
    assert file_module.check(moved) == {"state": "outdated"}
    file_module.write(moved)
    assert not old.exists()
    assert file_module.check(moved) == {"state": "up"}
    file_module.remove(moved)
    assert file_module.check(moved) == {"state": "down"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"owner": "nobody-of-that-name"}, "no user nobody-of-that-name"),
        ({"group": "nobody-of-that-name"}, "no group nobody-of-that-name"),
        ({"path": "/dev"}, "/dev is a folder, not a file"),
        ({"path": "/dev/null"}, "/dev/null is a special file"),
    ],
)
def test_what_cannot_be_is_said_by_the_check(
    file_module: ModuleType, one: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    """A check fails with the reason, and does not wait for the write."""
    if "path" not in change:
        Path(one["spec"]["path"]).parent.mkdir()
        Path(one["spec"]["path"]).write_text("x")
    one["spec"] |= change
    with pytest.raises(file_module.Failed, match=message):
        file_module.check(one)


def test_a_damaged_record_is_no_reason_to_lose_the_original(
    file_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """Nobody guesses what was there before."""
    file_module.write(one)
    (record,) = system.rglob("record.json")
    record.write_text("{")
    with pytest.raises(file_module.Failed, match="damaged"):
        file_module.remove(one)


class Crash(BaseException):
    """Stands for the end of the process in the middle of an action."""


STEPS = [(Path, "replace"), (Path, "unlink"), (Path, "mkdir"), (Path, "rmdir"), (os, "fsync")]


@pytest.mark.parametrize("original", ["original", None], ids=["something before", "nothing before"])
def test_any_crash_is_survived(
    file_module: ModuleType,
    one: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    original: str | None,
) -> None:
    """Crash around each step of each action, check, go on: nothing is lost or mixed up."""
    path = Path(one["spec"]["path"])
    for number in itertools.count():
        path.parent.mkdir(exist_ok=True)
        if original is not None:
            path.write_text(original)
        crashed = [
            _crash_in(monkeypatch, number, lambda: file_module.write(one)),
            _crash_in(monkeypatch, number, lambda: file_module.write(_changed(one))),
            _crash_in(monkeypatch, number, lambda: file_module.remove(_changed(one))),
        ]
        _recover(file_module, _changed(one))
        assert (path.read_text() if path.exists() else None) == original
        assert file_module.check(_changed(one)) == {"state": "down"}
        path.unlink(missing_ok=True)
        for record in path.parents[1].rglob("record.json"):
            record.unlink()
        if not any(crashed):
            break
    assert number > 10


def _changed(cob: dict[str, Any]) -> dict[str, Any]:
    return {**cob, "spec": {**cob["spec"], "content": "changed"}, "applied": cob["spec"]}


def _recover(module: ModuleType, cob: dict[str, Any]) -> None:
    """Do what a run does after a crash: check, and go on from there to up, then down."""
    path = Path(cob["spec"]["path"])
    assert module.check(cob)["state"] in ("down", "outdated", "up")
    module.write(cob)
    assert module.check(cob) == {"state": "up"}
    assert path.read_text() == cob["spec"]["content"]
    module.remove(cob)


def _crash_in(monkeypatch: pytest.MonkeyPatch, number: int, action: Callable[[], object]) -> bool:
    """Carry out an action that crashes at step `number`; say whether it had so many."""
    steps: Iterator[int] = itertools.count()
    with monkeypatch.context() as patched:
        for owner, name in STEPS:
            patched.setattr(owner, name, _crashing(getattr(owner, name), steps, number))
        try:
            action()
        except Crash:
            return True
    return False


def _crashing(real: Callable[..., Any], steps: Iterator[int], number: int) -> Callable[..., Any]:
    def step(*args: Any, **kwargs: Any) -> Any:
        if next(steps) == number:
            raise Crash
        result = real(*args, **kwargs)
        if next(steps) == number:
            raise Crash
        return result

    return step
