"""The module of `tree`: the keys of its spec, the folders around a tree, and what goes wrong."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.trees import Entries, HostTree, as_root, content_of, make

RULES: dict[str, tuple[list[dict[str, Any]], dict[str, str]]] = {
    "anywhere": ([{"match": "*.key", "mode": "0600"}], {"a.key": "600", "f/b.key": "600"}),
    "from the top": ([{"match": "/*.key", "mode": "600"}], {"a.key": "600", "f/b.key": "644"}),
    "below": ([{"match": "f/**", "mode": "0600"}], {"f/b.key": "600", "f/g/c": "600", "f": "755"}),
    "folders": ([{"match": "g/", "mode": "2770"}], {"f/g": "2770", "f": "755", "f/g/c": "644"}),
    "last": (
        [{"match": "*", "mode": "0640"}, {"match": "a*", "mode": "4755"}],
        {"a.key": "4755", "f/g/c": "640"},
    ),
    "letters": ([{"match": "[ab].key", "mode": "0600"}], {"a.key": "600", "f/b.key": "600"}),
    "other letters": ([{"match": "[!a].key", "mode": "0600"}], {"a.key": "644", "f/b.key": "600"}),
    "one letter": ([{"match": "?", "mode": "0600"}], {"f/g/c": "600", "a.key": "644", "f": "755"}),
    "not a letter": ([{"match": "a?key", "mode": "0600"}], {"a.key": "600"}),
}
RULED: Entries = {"a.key": "1", "f/b.key": "1", "f/g/c": "1"}


@pytest.fixture
def tree(tree_module: ModuleType, memory: Path) -> HostTree:
    """Return a tree whose folder is not there yet."""
    return HostTree(tree_module, memory / "etc" / "app", memory / "state")


@pytest.mark.parametrize("case", RULES.values(), ids=RULES)
def test_modes_of_what_matches(
    tree: HostTree, case: tuple[list[dict[str, Any]], dict[str, str]]
) -> None:
    """Globs as in `exclude`; the last one counts; one with `/` at its end is for folders."""
    rules, expected = case
    tree.want(RULED, modes=rules).write()
    modes = {path: f"{(tree.root / path).stat().st_mode & 0o7777:o}" for path in expected}
    assert modes == expected
    assert tree.check() == "up"


@as_root
def test_owners_are_those_of_the_spec_or_stay(tree: HostTree) -> None:
    """Links too; an owner that is changed by the spec alone needs no archive."""
    make(tree.root, {"a": "before"})
    os.chown(tree.root / "a", 5, 6)
    entries: Entries = {"a": "1", "f/b": "1", "link": "-> a"}
    tree.want(entries).write()
    assert {path: it[1:3] for path, it in content_of(tree.root).items()} == {
        "a": (5, 6),
        "f": (0, 0),
        "f/b": (0, 0),
        "link": (0, 0),
    }
    rules = [{"match": "b", "group": 8}, {"match": "f/", "owner": "daemon"}]
    tree.want(entries, owner=7, group="daemon", modes=rules)
    tree.archive = b"not needed"
    assert tree.check() == "outdated"
    tree.write()
    assert {path: it[1:3] for path, it in content_of(tree.root).items()} == {
        "a": (7, 1),
        "f": (1, 1),
        "f/b": (7, 8),
        "link": (7, 1),
    }
    tree.remove()
    assert {path: it[1:3] for path, it in content_of(tree.root).items()} == {"a": (5, 6)}


@as_root
def test_a_folder_that_was_there_keeps_its_mode(tree: HostTree) -> None:
    """Unless a rule names it; then it comes back as it was."""
    make(tree.root, {"f": None, "g": None})
    for name in ("f", "g"):
        (tree.root / name).chmod(0o1770)
        os.chown(tree.root / name, 3, 4)
    before = content_of(tree.root)
    tree.want({"f/a": "", "g/a": ""}, owner=9, modes=[{"match": "g/", "mode": "0700"}]).write()
    assert content_of(tree.root)["f"] == before["f"]
    assert content_of(tree.root)["g"][:3] == ("drwx------", 9, 4)
    (tree.root / "f").chmod(0o700)
    assert tree.check() == "up"
    (tree.root / "f").chmod(0o1770)
    tree.remove()
    assert content_of(tree.root) == before


@as_root
def test_the_folder_that_is_made_belongs_to_the_owner(
    tree: HostTree,
) -> None:
    """And can be entered whatever the umask; removed, with those above it, once it is empty."""
    before = os.umask(0o077)
    try:
        tree.want({"a": ""}, owner=9, group=10).write()
    finally:
        os.umask(before)
    status = tree.root.stat()
    assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (0o755, 9, 10)
    (tree.root / "others").write_text("x")
    tree.remove()
    assert [path.name for path in tree.root.iterdir()] == ["others"]


def test_a_link_to_the_folder_is_followed(tree: HostTree, memory: Path) -> None:
    """`path` is the administrator's own words; only below it nothing is followed."""
    (memory / "real").mkdir()
    tree.root.parent.mkdir()
    tree.root.symlink_to(memory / "real")
    tree.want({"a": "1"}).write()
    assert (memory / "real" / "a").read_text() == "1"
    tree.remove()
    assert tree.root.is_symlink()
    assert content_of(memory / "real") == {}


def test_a_changed_path_moves_the_tree(tree: HostTree, memory: Path) -> None:
    """What was at the old one comes back in the same transition, also where the two overlap."""
    make(tree.root, {"a": "before"})
    tree.want({"a": "1", "f/b": "1"}).write()
    tree.root = memory / "etc"
    tree.want({"app/a": "2", "c": "2"})
    assert tree.check() == "outdated"
    tree.write()
    assert {path: it[3] for path, it in content_of(tree.root).items()} == {
        "app": b"",
        "app/a": b"2",
        "c": b"2",
    }
    assert tree.check() == "up"
    tree.remove()
    assert {path: it[3] for path, it in content_of(tree.root).items()} == {
        "app": b"",
        "app/a": b"before",
    }


def test_two_trees_share_a_folder(tree: HostTree) -> None:
    """Each has its own repository; one goes without the other. The folder stays for the second."""
    other = HostTree(tree.module, tree.root, tree.state)
    tree.want({"a": "1"}).write()
    other.want({"b": "1"})
    other.cob["name"] = "other"
    other.write()
    assert sorted(content_of(tree.root)) == ["a", "b"]
    tree.remove()
    assert (tree.check(), other.check()) == ("down", "up")
    other.remove()
    assert content_of(tree.root) == {}
    assert not list(tree.state.rglob("*.*"))


# --- validation


def test_validation_sees_the_merged_tree(tree: HostTree) -> None:
    """With the local edit, before anything is active."""
    command = "sh -c 'grep -qx two %s/a && test ! -e %s/others && test -x %s/f/run'"
    tree.want({"a": "one\nx\nx\nx\nsix\n", "f/run": ("", 0o755)}).write()
    (tree.root / "others").write_text("")
    (tree.root / "a").write_text("two\nx\nx\nx\nsix\n")
    tree.want({"a": "one\nx\nx\nx\nseven\n", "f/run": ("", 0o755)}, validate=command).write()
    assert (tree.root / "a").read_text() == "two\nx\nx\nx\nseven\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sh -c 'echo line 3: no such option; exit 3' %s", "with status 3\nline 3: no such option"),
        ("/no/such/command %s", "there is no command /no/such/command on this host"),
    ],
    ids=["refused", "no command"],
)
def test_what_is_not_valid_changes_nothing(tree: HostTree, command: str, message: str) -> None:
    """The command's own words are the message; no trace of the tree is left."""
    make(tree.root, {"a": "before"})
    before = content_of(tree.root)
    tree.want({"a": "1"}, validate=command)
    with pytest.raises(tree.module.Failed, match=message):
        tree.write()
    assert content_of(tree.root) == before
    assert tree.check() == "down"
    assert not list(tree.state.rglob("a"))


# --- what goes wrong


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"owner": "nobody-of-that-name"}, "there is no user nobody-of-that-name on this host"),
        ({"modes": [{"match": "a", "group": "none-such"}]}, "there is no group none-such on this"),
    ],
    ids=["user", "group"],
)
def test_an_unknown_owner_is_an_error(tree: HostTree, keys: dict[str, Any], message: str) -> None:
    """Before anything is changed."""
    tree.want({"a": "1"}, **keys)
    with pytest.raises(tree.module.Failed, match=message):
        tree.write()
    assert not tree.root.exists()


def test_an_archive_that_is_not_whole(tree: HostTree) -> None:
    """Missing, cut off, of another tree, or made to break out: nothing of it is stored."""
    tree.want({"a": "1" * 5_000, "b": "2"})
    whole = tree.archive
    other = HostTree(tree.module, tree.root, tree.state).want({"b": "1"}).archive
    bad = {
        "damaged": whole[:-20],
        "Not a gzipped file": b"no archive",
        "is not": other,
        "damaged: ": gzip.compress(b"x" * 600),
    }
    for message, archive in bad.items():
        tree.archive = archive
        with pytest.raises(tree.module.Failed, match=message):
            tree.write()
    tree.module.prepare(tree.cob)
    with pytest.raises(tree.module.Failed, match="has not arrived"):
        tree.module.write(tree.cob)
    assert not tree.root.exists()
    tree.archive = whole
    tree.write()
    assert tree.check() == "up"


@pytest.mark.parametrize(
    "entries",
    [{"../a": ""}, {"/etc/a": ""}, {"a//b": ""}, {"a": "-> /etc", "a/passwd": ""}],
    ids=["up", "absolute", "empty name", "below a link"],
)
def test_an_archive_that_breaks_out_is_refused(
    tree: HostTree, monkeypatch: pytest.MonkeyPatch, entries: Entries
) -> None:
    """Cobweb makes no such archive; who does has it refused."""
    monkeypatch.setattr("tests.support.trees.folders_above", lambda _: set())
    tree.want(entries)
    with pytest.raises(tree.module.Failed, match="the archive of the tree has"):
        tree.write()
    assert not tree.root.exists()


def test_too_little_space_is_said_before(tree: HostTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the words of the system, and how much it takes."""
    monkeypatch.setattr(tree.module.Disk, "free", lambda _: 4_999)
    tree.want({"a": "1" * 5_000})
    message = f"{tree.root}: No space left on device: 5000 bytes are needed, 4999 are free"
    with pytest.raises(tree.module.Failed, match=message):
        tree.write()
    assert not tree.root.exists()
    assert tree.check() == "down"


def test_a_host_without_git(tree: HostTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(tree.module.Failed, match="this host has no git, which keeps"):
        tree.want({"a": "1"}).write()


def test_nobodys_git_configuration_matters(
    tree: HostTree, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the user's nor what the environment says."""
    (memory / ".gitconfig").write_text("[core]\n autocrlf = true\n bare = nonsense\n[broken\n")
    monkeypatch.setenv("HOME", str(memory))
    monkeypatch.setenv("GIT_DIR", str(memory))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(memory / ".gitconfig"))
    tree.want({"a": "1\r\n"}).write()
    assert (tree.root / "a").read_bytes() == b"1\r\n"
    assert tree.check() == "up"


def test_a_damaged_record_or_repository_is_said(tree: HostTree) -> None:
    """Nobody guesses what was there before."""
    tree.want({"a": "1"}).write()
    (repository,) = tree.state.rglob("repository.git")
    for pack in repository.glob("objects/pack/*"):
        pack.unlink()
    with pytest.raises(tree.module.Failed, match="is damaged: it has no"):
        tree.remove()
    (record,) = tree.state.rglob("record.json")
    record.write_text("{")
    for act in (tree.check, tree.write, tree.remove):
        with pytest.raises(tree.module.Failed, match="is damaged"):
            act()
    assert (tree.root / "a").read_text() == "1"


def test_a_lost_cache_is_made_again(tree: HostTree) -> None:
    """What was written is in the repository too."""
    tree.want({"a": "1", "f/b": "1"}).write()
    (known,) = tree.state.rglob("known.json")
    known.unlink()
    assert tree.check() == "up"
    (tree.root / "a").write_text("2")
    assert tree.check() == "outdated"


def test_an_edit_of_the_same_size_and_time_is_seen(tree: HostTree) -> None:
    """Its change of the inode gives it away, or that it was too recent to be trusted."""
    tree.want({"a": "1"}).write()
    path = tree.root / "a"
    times = path.stat()
    path.write_text("2")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert tree.check() == "outdated"


def test_edits_outlive_the_tree(tree: HostTree) -> None:
    """The message has the command that shows them."""
    tree.want({"f/a": "1\n"}).write()
    (tree.root / "f/a").write_text("an edit\n")
    answer = tree.remove()
    _, _, command = answer["msg"].partition("`")
    assert answer["msg"].startswith("local edits are kept: f/a; see `git ")
    shown = subprocess.run(["sh", "-c", command.strip("`")], capture_output=True, check=True)
    assert shown.stdout == b"an edit\n"
    assert not tree.root.exists()
    assert tree.check() == "down"
    assert tree.remove() == {"changed": True}
    tree.want({"f/a": "2\n"}).write()
    assert (tree.root / "f/a").read_text() == "2\n"
    tree.remove()
    assert tree.check() == "down"


def test_many_versions_are_packed(tree: HostTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository does not grow by a pack for each version."""
    monkeypatch.setattr(tree.module.git, "PACKS", 4)
    for number in range(6):
        tree.want({"a": str(number)}).write()
    assert len(list(tree.state.rglob("*.pack"))) < 6
    assert tree.git("show", "applied~2:tree/a") == "3"
    assert tree.check() == "up"
    shutil.rmtree(tree.state)
