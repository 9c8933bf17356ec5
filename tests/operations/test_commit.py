"""The commit of a site's repository, with a real Git; what hinders the answer makes it empty."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cobweb.operations.context._desired import commit_of

AUTHOR = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    command = ("git", *AUTHOR, "-C", str(folder), *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def no_repository_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep Git from finding a repository in a folder above the test's."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a committed site folder `repo/sites/demo` in a repository."""
    folder = tmp_path / "repo/sites/demo"
    folder.mkdir(parents=True)
    (folder / "site.yml").write_text("cobweb: 1\n")
    (folder / ".gitignore").write_text("*.log\n")
    (tmp_path / "repo/other.txt").write_text("other\n")
    git(tmp_path, "init", "-q", "repo")
    git(folder, "add", "-A", "../..")
    git(folder, "commit", "-q", "-m", "all")
    return folder


def test_clean_folder_is_at_its_commit(site: Path) -> None:
    commit = git(site, "rev-parse", "HEAD")
    assert len(commit) == 40
    assert commit_of(site) == commit


@pytest.mark.parametrize("name", ["site.yml", "new.yml", "new/x.yml", "ü \n.yml"])
def test_changed_or_untracked_file_is_told(site: Path, name: str) -> None:
    commit = commit_of(site)
    (site / name).parent.mkdir(exist_ok=True)
    (site / name).write_text("changed\n")
    assert commit_of(site) == f"{commit}+changes"
    git(site, "add", ".")
    assert commit_of(site) == f"{commit}+changes"
    git(site, "commit", "-q", "-m", "new")
    assert commit_of(site) == git(site, "rev-parse", "HEAD") != commit


def test_removed_file_is_a_change(site: Path) -> None:
    (site / ".gitignore").unlink()
    assert commit_of(site).endswith("+changes")


@pytest.mark.parametrize("name", ["x.log", ".cobweb/state.db", "../../other.txt", "../new.txt"])
def test_ignored_files_the_state_and_other_folders_are_no_change(site: Path, name: str) -> None:
    commit = commit_of(site)
    (site / name).parent.mkdir(exist_ok=True)
    (site / name).write_text("changed\n")
    assert commit_of(site) == commit


def test_link_to_the_folder_is_followed(site: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(site)
    assert commit_of(tmp_path / "link") == commit_of(site) != ""


def test_looking_changes_nothing_in_the_repository(site: Path) -> None:
    os.utime(site / "site.yml", (1, 1))  # Git would like to note this in its index
    index = site.parents[1] / ".git/index"
    before = index.read_bytes()
    commit_of(site)
    assert index.read_bytes() == before
    assert git(site, "status", "--porcelain") == ""


def test_repository_that_a_hook_works_on_is_not_taken_for_ours(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = commit_of(site)
    git(tmp_path, "init", "-q", "hooked")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "hooked/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "hooked/.git/index"))
    assert commit_of(site) == commit


# --- no answer


def test_folder_without_a_repository(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ""
    assert commit_of(tmp_path / "missing") == ""


def test_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    assert commit_of(tmp_path / "empty") == ""


def test_folder_that_no_commit_has(site: Path) -> None:
    fresh = site.parent / "fresh"
    fresh.mkdir()
    (fresh / "site.yml").write_text("cobweb: 1\n")
    assert commit_of(fresh) == ""


@pytest.mark.parametrize(
    "damaged", ["HEAD", "config", "index", "refs", "objects"], ids=lambda name: name
)
def test_broken_repository(site: Path, damaged: str) -> None:
    path = site.parents[1] / ".git" / damaged
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.write_bytes(b"\0[")
    assert commit_of(site) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_repository_of_someone_else(site: Path) -> None:
    for path in (site.parents[1], site.parents[1] / ".git"):
        os.chown(path, 65534, 65534)
    assert commit_of(site) == ""


def test_no_git_program(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(site) == ""


@pytest.mark.full("waits for a time limit")
def test_git_that_hangs_is_ended_with_its_helpers(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hold the pipe, which ends with the last of them."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\nexec 3>{pipe}\necho began >&3\nsleep 600 &\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("cobweb.operations.context._desired.TIMEOUT_S", 3.0)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as held:
        assert commit_of(site) == ""
        os.set_blocking(held.fileno(), True)
        assert held.read() == "began\n"
