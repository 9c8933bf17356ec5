"""The module of `tree` on a real file system: versions, edits, conflicts, and the way back."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.trees import Entries, HostTree, as_root, content_of, make

LINES = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
TREES: dict[str, Entries] = {
    "modes": {"a": ("x", 0o600), "run": ("#!/bin/sh", 0o755), "su": ("x", 0o4755)},
    "links": {"out": "-> /etc/passwd", "gone": "-> nowhere", "up": "-> ../..", "f/l": "-> ../out"},
    "empty folders": {"a/b/c": None, "d": None},
    "binary": {"a.bin": bytes(range(256)) * 40, "nul": b"\0"},
    "empty files": {"a": "", "b/c": ""},
    "names": {
        "with space": "1",
        "new\nline": "2",
        'quo"te\\': "3",
        "ü/é": "4",
        "\udcff\udc80": "5",
    },
    "names that Git keeps for itself": {
        ".git": "gitdir: /nowhere\n",
        "a/.gitattributes": "* text eol=crlf filter=lfs\n",
        "a/.gitignore": "*\n",
        "a/text": "one\r\ntwo\n",
        "b/.gitmodules": "-> /etc/passwd",
        "c/.GIT/config": "[core]\n",
        "c/%.git": "percent",
        "d/git~1": "short",
    },
    "nothing": {},
    "long names": {"/".join(["x" * 200] * 4): "deep"},
}


@pytest.fixture
def tree(tree_module: ModuleType, memory: Path) -> HostTree:
    """Return a tree whose folder is not there yet."""
    return HostTree(tree_module, memory / "etc" / "app", memory / "state")


@pytest.mark.parametrize("entries", TREES.values(), ids=TREES)
def test_whatever_is_in_a_tree_arrives_and_goes(tree: HostTree, entries: Entries) -> None:
    """Content, modes, links and empty folders are as packed; then nothing of them is left."""
    tree.want(entries)
    assert tree.check() == "down"
    assert tree.write() == {"changed": True}
    assert tree.check() == "up"
    expected = tree.root.parent / "expected"
    make(expected, entries)
    expected.mkdir(exist_ok=True)
    assert content_of(tree.root) == content_of(expected)
    before = content_of(tree.root.parents[1])
    assert tree.write() == {"changed": False}
    assert tree.check() == "up"
    assert content_of(tree.root.parents[1]) == before
    assert tree.remove() == {"changed": True}
    assert tree.check() == "down"
    assert not tree.root.exists()
    assert not list(tree.state.rglob("*.*"))


@pytest.mark.parametrize("entries", TREES.values(), ids=TREES)
def test_what_was_there_comes_back(tree: HostTree, entries: Entries) -> None:
    """Files and links in the way are put back with their modes; others were never touched."""
    made = {name: "theirs" for name, value in entries.items() if value is not None}
    make(tree.root, {**made, "other/file": ("others'", 0o640), "other/link": "-> file"})
    for name in made:
        (tree.root / name).chmod(0o604)
    before = content_of(tree.root)
    tree.want(entries).write()
    assert (
        content_of(tree.root).items()
        >= {name: before[name] for name in ("other", "other/file", "other/link")}.items()
    )
    tree.remove()
    assert content_of(tree.root) == before
    assert tree.check() == "down"


def test_a_link_in_the_way_is_replaced_not_what_it_leads_to(tree: HostTree, memory: Path) -> None:
    """And it is put back as a link."""
    (memory / "real").write_text("real")
    make(tree.root, {"a": f"-> {memory}/real"})
    tree.want({"a": "ours"}).write()
    assert (memory / "real").read_text() == "real"
    assert not (tree.root / "a").is_symlink()
    tree.remove()
    assert str((tree.root / "a").readlink()) == f"{memory}/real"


def test_a_new_version_adds_changes_and_drops(tree: HostTree) -> None:
    """What the site has dropped is again what it was before us."""
    make(tree.root, {"dropped": "original"})
    tree.want({"a": "1", "dropped": "1", "x/y": "1", "kind": "file"}).write()
    tree.want({"a": "2", "new/b": "2", "kind/c": "2"})
    assert tree.check() == "outdated"
    tree.write()
    assert tree.check() == "up"
    assert {name: said[3] for name, said in content_of(tree.root).items()} == {
        "a": b"2",
        "dropped": b"original",
        "kind": b"",
        "kind/c": b"2",
        "new": b"",
        "new/b": b"2",
    }
    tree.want({"kind": "-> a"}).write()
    assert sorted(content_of(tree.root)) == ["dropped", "kind"]
    tree.remove()
    assert sorted(content_of(tree.root)) == ["dropped"]


# --- local edits


def test_an_edit_is_outdated_then_recorded_then_up(tree: HostTree) -> None:
    """The next apply keeps it, and so does every one after that."""
    tree.want({"a": LINES}).write()
    (tree.root / "a").write_text(LINES.replace("two", "TWO"))
    assert tree.module.check(tree.cob) == {"state": "outdated", "msg": "changed on the host: a"}
    assert tree.write() == {"changed": True, "msg": "local edits stay: a"}
    assert tree.check() == "up"
    assert (tree.root / "a").read_text() == LINES.replace("two", "TWO")
    tree.want({"a": LINES.replace("six", "SIX")}).write()
    assert (tree.root / "a").read_text() == LINES.replace("two", "TWO").replace("six", "SIX")
    assert tree.check() == "up"


def test_what_was_deleted_is_written_again(tree: HostTree) -> None:
    """Nothing is lost by that."""
    tree.want({"a": "1", "f/b": "1"}).write()
    (tree.root / "a").unlink()
    (tree.root / "f/b").unlink()
    (tree.root / "f").rmdir()
    assert tree.check() == "broken"
    tree.write()
    assert sorted(content_of(tree.root)) == ["a", "f", "f/b"]


@as_root
def test_modes_and_owners_are_merged(tree: HostTree) -> None:
    """A changed mode stays with a changed content."""
    tree.want({"a": "1"}).write()
    (tree.root / "a").chmod(0o600)
    os.chown(tree.root / "a", 1, 2)
    assert tree.check() == "outdated"
    tree.want({"a": "2"}).write()
    assert content_of(tree.root)["a"] == ("-rw-------", 1, 2, b"2")


CONFLICTS: dict[str, tuple[Entries, Entries, Entries, str]] = {
    "content": ({"a": "1\n"}, {"a": "h\n"}, {"a": "s\n"}, "a: its content was changed on the host"),
    "binary": ({"a": b"\0"}, {"a": b"\0h"}, {"a": b"\0s"}, "a: its content was changed"),
    "link": ({"a": "-> 1"}, {"a": "-> h"}, {"a": "-> s"}, "a: its target was changed"),
    "mode": ({"a": "1"}, {"a": ("1", 0o600)}, {"a": ("1", 0o640)}, "a: its mode was changed"),
    "link and file": ({"a": "1"}, {"a": "-> h"}, {"a": "s"}, "a: is a link on the host, a file in"),
    "dropped": ({"a": "1", "b": ""}, {"a": "h"}, {"b": ""}, "a: was changed on the host, and is g"),
}


@pytest.mark.parametrize("case", CONFLICTS.values(), ids=CONFLICTS)
def test_a_conflict_changes_nothing(
    tree: HostTree, case: tuple[Entries, Entries, Entries, str]
) -> None:
    """The message names the paths first; not even a file without conflict was touched."""
    base, edit, site, message = case
    tree.want({**base, "other": "1"}).write()
    _edit(tree, edit)
    before = content_of(tree.root)
    tree.want({**site, "other": "2"})
    for _ in range(2):
        with pytest.raises(tree.module.Failed) as raised:
            tree.write()
        told = f"conflict in {tree.root}, nothing was changed: {message}"
        assert str(raised.value).startswith(told)
        assert content_of(tree.root) == before
        assert tree.check() == "outdated"


@pytest.mark.parametrize("case", CONFLICTS.values(), ids=CONFLICTS)
@pytest.mark.parametrize("policy", ["site", "host"])
def test_a_policy_decides(
    tree: HostTree, case: tuple[Entries, Entries, Entries, str], policy: str
) -> None:
    """`site` takes the site's version (the edit is in the repository), `host` keeps the edit."""
    base, edit, site, _ = case
    tree.want({**base, "other": "1"}).write()
    _edit(tree, edit)
    edited = content_of(tree.root)["a"]
    answer = tree.want({**site, "other": "2"}, on_conflict=policy).write()
    expected = tree.root.parent / "expected"
    make(expected, site)
    there = content_of(expected).get("a") if policy == "site" else edited
    assert content_of(tree.root).get("a") == there
    assert tree.check() == "up"
    told = {"site": "local edits are overruled: a; see ", "host": "local edits stay: a"}
    assert answer["msg"].startswith(told[policy])
    if edited[3] and not edited[0].startswith("l"):
        assert tree.git("show", "host~1:tree/a") == edited[3].decode()


def test_a_text_conflict_shows_the_three_versions(tree: HostTree) -> None:
    """On one line, as all messages are, without what is around it."""
    tree.want({"a": LINES}).write()
    (tree.root / "a").write_text(LINES.replace("two", "mine"))
    tree.want({"a": LINES.replace("two", "yours")})
    with pytest.raises(tree.module.Failed) as raised:
        tree.write()
    assert str(raised.value) == (
        f"conflict in {tree.root}, nothing was changed: "
        "a: its content was changed on the host and in the site "
        "(host `mine`, applied before `two`, site `yours`); "
        "merge the edits into the site, or say `on_conflict: site` or `host`"
    )


def test_a_file_in_place_of_the_folder_is_named(tree: HostTree) -> None:
    """It is somebody's, and stays."""
    tree.root.parent.mkdir(parents=True, exist_ok=True)
    tree.root.write_text("mine")
    tree.want({"a": LINES})
    with pytest.raises(tree.module.Failed, match="is there and no folder, nothing was changed"):
        tree.write()
    assert tree.root.read_text() == "mine"


def _edit(tree: HostTree, entries: Entries) -> None:
    for name in entries:
        (tree.root / name).unlink()
    make(tree.root, entries)


# --- what no policy solves


def _link_in_the_way(root: Path) -> None:
    (root.parent / "elsewhere").mkdir()
    (root / "f").symlink_to(root.parent / "elsewhere")


def _file_in_the_way(root: Path) -> None:
    (root / "f").write_text("a file")


def _folder_in_the_way(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "theirs").write_text("x")


def _pipe_in_the_way(root: Path) -> None:
    os.mkfifo(root / "a")


def _socket_in_the_way(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(root / "a"))


OBSTACLES = {
    "link": (_link_in_the_way, "f: is a link on the host, a folder in the site"),
    "file": (_file_in_the_way, "f: is a file on the host, a folder in the site"),
    "folder": (_folder_in_the_way, "a: is a folder on the host, a file in the site"),
    "pipe": (_pipe_in_the_way, "a: is no file, folder or link on the host"),
    "socket": (_socket_in_the_way, "a: is no file, folder or link on the host"),
}


@pytest.mark.parametrize("policy", ["fail", "site", "host"])
@pytest.mark.parametrize("case", OBSTACLES.values(), ids=OBSTACLES)
def test_what_is_in_the_way_is_an_error(tree: HostTree, case: Any, policy: str) -> None:
    """No link is followed, no folder emptied, whatever the policy."""
    obstruct, message = case
    tree.root.mkdir(parents=True)
    obstruct(tree.root)
    before = content_of(tree.root.parent)
    tree.want({"a": "1", "f/b": "1"}, on_conflict=policy)
    with pytest.raises(tree.module.Failed, match=message):
        tree.write()
    assert content_of(tree.root.parent) == before
    assert tree.check() == "down"
    tree.remove()
    assert content_of(tree.root.parent) == before


def _now_a_link_elsewhere(root: Path) -> None:
    shutil.rmtree(root / "f")
    _link_in_the_way(root)
    make(root.parent / "elsewhere", {"b": "others'", "c": "others'"})


def _now_a_file(root: Path) -> None:
    shutil.rmtree(root / "f")
    _file_in_the_way(root)


def _now_a_folder(root: Path) -> None:
    (root / "a").unlink()
    _folder_in_the_way(root)


def _now_a_pipe(root: Path) -> None:
    (root / "a").unlink()
    _pipe_in_the_way(root)


BECOME = {
    "link": (_now_a_link_elsewhere, "f: is a link on the host", ["f"]),
    "file": (_now_a_file, "f: is a file on the host", ["f"]),
    "folder": (_now_a_folder, "a: is a folder on the host", ["a", "a/theirs"]),
    "pipe": (_now_a_pipe, "a: is no file, folder or link", ["a"]),
}


@pytest.mark.parametrize("case", BECOME.values(), ids=BECOME)
def test_what_somebody_has_put_in_our_place(tree: HostTree, case: Any) -> None:
    """No update touches it, and removal leaves it: it is not ours."""
    act, message, left = case
    tree.want({"a": "1", "f/b": "1", "f/c": "1", "g/d": "1"}).write()
    act(tree.root)
    before = content_of(tree.root.parent)
    # Where a file is in the place of their folder, its files are gone.
    assert tree.check() == ("broken" if "is a file" in message else "outdated")
    tree.want({"a": "2", "f/b": "2", "f/c": "2", "g/d": "2"}, on_conflict="site")
    with pytest.raises(tree.module.Failed, match=message):
        tree.write()
    assert content_of(tree.root.parent) == before
    tree.remove()
    assert sorted(content_of(tree.root)) == left
    assert {path: it for path, it in before.items() if path.startswith("else")}.items() <= (
        content_of(tree.root.parent).items()
    )
    assert tree.check() == "down"


def test_a_folder_that_shall_be_a_file_is_not_emptied(tree: HostTree) -> None:
    """What somebody has put into it would be lost."""
    tree.want({"f/a": "1", "f/g/b": "1"}).write()
    (tree.root / "f" / "g" / "others").write_text("x")
    before = content_of(tree.root)
    tree.want({"f": "2"})
    with pytest.raises(tree.module.Failed):
        tree.write()
    assert content_of(tree.root) == before
    (tree.root / "f" / "g" / "others").unlink()
    tree.write()
    assert (tree.root / "f").read_text() == "2"


@pytest.mark.full("ten thousand files; the other tests have some")
@pytest.mark.timeout(180)
def test_ten_thousand_files(tree: HostTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check reads none of them, and a change of one writes one."""
    entries = {f"f{number // 100}/{number}": f"content {number}\n" for number in range(10_000)}
    tree.want(entries).write()
    assert sum(path.is_file() for path in tree.root.rglob("*")) == 10_000
    read: list[str] = []

    def reading(_: object, path: str) -> bytes:
        read.append(path)
        return b""

    monkeypatch.setattr(tree.module.Disk, "read", reading)
    recent = 200  # so many may have been written too shortly before they were looked at
    assert tree.check() == "up" or len(read) < recent
    assert len(read) < recent
    monkeypatch.undo()
    inodes = {path: path.stat().st_ino for path in tree.root.rglob("*")}
    tree.want({**entries, "f0/0": "new\n"}).write()
    changed = [path for path, inode in inodes.items() if path.stat().st_ino != inode]
    assert changed == [tree.root / "f0" / "0"]
    tree.remove()
    assert not tree.root.exists()
