"""The files that a generation keeps of a site's types."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cobweb._resources import data_dir
from cobweb.model import CobType, Tasks
from cobweb.site import load_site
from cobweb.site.objects._work_files import MAX_BYTES, MAX_FILES
from cobweb.site.reading._files import Files, Member

Maker = Any

SITE = """
cobs: {{a: {{type: web, on: app01}}}}
types:
  web:
    states: [up, down]
    preferred: up
    remove: down
    check: {check}
    transitions: {{down -> up: {up}, up -> down: }}
  unused: {{states: [up], preferred: up, remove: up, check: {{tasks: other/check.yml}}}}
"""
TASKS = {"other/check.yml": "- debug:", "web/check.yml": "- debug:"}


def names(maker: Maker, check: str, up: str = "", **files: str) -> list[str]:
    text = SITE.format(check=check, up=up)
    site = maker.site({"site.yml": text, **TASKS, **files})
    return sorted(site.work_files())


def test_the_folder_of_a_task_file_is_kept_with_all_below(maker: Maker) -> None:
    files = {
        "web/files/a.conf.j2": "{{ port }}",
        "web/.git/config": "hidden",
        "web/.hidden": "hidden",
        "web2/beside.yml": "- debug:",
    }
    found = names(maker, "{tasks: web/check.yml}", **files)
    assert found == ["site:web/check.yml", "site:web/files/a.conf.j2"]


def test_a_role_of_the_site_is_kept_whole(maker: Maker) -> None:
    files = {"roles/r/tasks/main.yml": "- debug:", "roles/r/defaults/main.yml": "port: 1"}
    found = names(maker, "{tasks: check.yml}", "{role: r}", **files, **{"check.yml": "- debug:"})
    assert found == [
        "site:check.yml",
        "site:roles/r/defaults/main.yml",
        "site:roles/r/tasks/main.yml",
    ]


def test_of_the_sites_own_folder_the_task_file_alone_is_kept(maker: Maker) -> None:
    found = names(maker, "{tasks: check.yml}", **{"check.yml": "- debug:", "secret.txt": "x"})
    assert found == ["site:check.yml"]


def test_a_role_of_ansible_and_shipped_playbooks_are_not_kept(maker: Maker) -> None:
    assert names(maker, "{role: galaxy.nginx}") == []
    own = str(data_dir("playbooks") / "file/check.yml")
    foreign = CobType(
        name="file",
        states=("up",),
        preferred="up",
        remove="up",
        check=Tasks(path=own),
        transitions=(),
    )
    site = maker.site("cobs: {a: {type: file, on: app01}}", types={"file": foreign})
    assert site.work_files() == {}


def test_a_task_file_that_is_missing_is_left_out(maker: Maker) -> None:
    assert names(maker, "{tasks: gone.yml}") == []
    assert names(maker, "{tasks: none/gone.yml}") == []


def test_a_large_file_is_left_out(maker: Maker) -> None:
    files = {"web/most": "x" * MAX_BYTES, "web/more": "x" * (MAX_BYTES + 1)}
    assert names(maker, "{tasks: web/check.yml}", **files) == [
        "site:web/check.yml",
        "site:web/most",
    ]


@pytest.mark.parametrize(("number", "kept"), [(MAX_FILES, MAX_FILES), (MAX_FILES + 1, 1)])
def test_of_a_folder_with_too_many_files_the_task_file_alone_is_kept(
    maker: Maker, number: int, kept: int
) -> None:
    files = {f"web/{folder}/{n}": "" for n in range((number - 1) // 2) for folder in "ab"}
    files |= {"web/last": ""} if number % 2 == 0 else {}
    assert len(files) + 1 == number
    assert len(names(maker, "{tasks: web/check.yml}", **files)) == kept


def test_links_to_folders_are_not_followed(maker: Maker, tmp_path: Path) -> None:
    names(maker, "{tasks: web/check.yml}")
    (tmp_path / "web/again").symlink_to(tmp_path / "web")
    (tmp_path / "web/also.yml").symlink_to(tmp_path / "other/check.yml")
    os.mkfifo(tmp_path / "web/pipe")
    assert sorted(load_site(tmp_path).work_files()) == ["site:web/also.yml", "site:web/check.yml"]


def test_files_beside_an_imported_file_outside_are_kept_alone(maker: Maker, tmp_path: Path) -> None:
    maker.root = tmp_path / "prod"
    (tmp_path / ".git").mkdir()
    maker.write(
        {
            "site.yml": "cobweb: 1\nimports: [../common/ntp.yml]\ninventory: {app: {hosts: {h: }}}",
            "../common/ntp.yml": SITE.format(check="{tasks: t/check.yml}", up="").replace(
                "app01", "h"
            ),
            "../common/t/check.yml": "- debug:",
            "../common/t/beside.yml": "- debug:",
        }
    )
    assert load_site(maker.root).work_files() == {"site:../common/t/check.yml": b"- debug:"}


def test_what_cannot_be_read_is_left_out(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user may be root here, who reads everything: so the reading fails."""
    data, members = Files.data, Files.members

    def closed(path: Path) -> None:
        if path.name in ("secret", "closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

    def read(files: Files, path: Path, most_bytes: int | None = None) -> bytes:
        closed(path)
        return data(files, path, most_bytes)

    def listed(files: Files, folder: Path) -> tuple[Member, ...]:
        closed(folder)
        return members(files, folder)

    monkeypatch.setattr(Files, "data", read)
    monkeypatch.setattr(Files, "members", listed)
    found = names(maker, "{tasks: web/check.yml}", **{"web/secret": "x", "web/closed/x": "x"})
    assert found == ["site:web/check.yml"]
