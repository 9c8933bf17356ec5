"""File trees from the site to the tasks of a type, kept in generations, and back."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

SITE = """\
cobweb: 1
name: trees
inventory:
  all:
    hosts:
      here:
        root: {root}
        ansible_connection: local
        ansible_python_interpreter: {python}
types:
  unpacked:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {{tasks: unpacked/check.yml}}
    transitions:
      down -> up: {{tasks: unpacked/up.yml}}
      outdated -> up: {{tasks: unpacked/up.yml}}
      up -> down: {{tasks: unpacked/down.yml}}
      outdated -> down: {{tasks: unpacked/down.yml}}
    spec:
      type: object
      properties: {{source: {{type: string, x-cobweb: tree}}}}
cobs:
"""
COB = "  etc: {type: unpacked, on: all, spec: {source: etc}}\n"
TASKS = {
    "check.yml": """
- ansible.builtin.stat: {path: "{{ root }}/{{ cob.spec.tree.digest }}"}
  register: it
- ansible.builtin.stat: {path: "{{ root }}/{{ cob.applied.tree.digest if cob.applied else 'x' }}"}
  register: before
- ansible.builtin.set_fact:
    cob_state: "{{ 'up' if it.stat.exists else 'outdated' if before.stat.exists else 'down' }}"
""",
    "up.yml": """
- ansible.builtin.file: {path: "{{ root }}/{{ cob.spec.tree.digest }}", state: directory}
- ansible.builtin.unarchive:
    src: "{{ cobweb_trees }}/{{ cob.spec.tree.digest }}.tar.gz"
    dest: "{{ root }}/{{ cob.spec.tree.digest }}"
- ansible.builtin.stat: {path: "{{ cobweb_trees }}"}
  register: folder
- ansible.builtin.assert: {that: folder.stat.mode == '0700'}
""",
    "down.yml": """
- ansible.builtin.file: {path: "{{ root }}/{{ cob.spec.tree.digest }}", state: absent}
""",
}


class Place:
    """A site with a tree, and where its host has what was unpacked."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.site, self.root, self._run = folder / "site", folder / "root", run
        self.root.mkdir()
        (self.site / "unpacked").mkdir(parents=True)
        for name, text in TASKS.items():
            (self.site / "unpacked" / name).write_text(text)
        self.say(COB)

    def say(self, cobs: str) -> None:
        head = SITE.format(root=self.root, python=sys.executable)
        (self.site / "site.yml").write_text(head + (cobs or "  {}\n"))

    def write(self, files: Mapping[str, str]) -> None:
        shutil.rmtree(self.site / "etc", ignore_errors=True)
        for name, text in files.items():
            path = self.site / "etc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(self, *arguments: str) -> Any:
        return self._run("-C", self.site, *arguments)

    def done(self, *arguments: str) -> None:
        ran = self.run(*arguments)
        assert ran.code == 0, ran.out + ran.err

    def unpacked(self) -> list[dict[str, str]]:
        """Return the files of each tree that is there."""
        return [
            {str(it.relative_to(top)): it.read_text() for it in top.rglob("*") if it.is_file()}
            for top in self.root.iterdir()
        ]


@pytest.fixture
def place(tmp_path: Path, run: Run) -> Place:
    return Place(tmp_path, run)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["ansible", "ansible-plain"])
def test_a_transition_finds_the_archive_of_its_tree(place: Place, executor: str) -> None:
    place.write({"a/b": "one\n", ".hidden": "x"})
    place.done("apply", "--yes", "--executor", executor)
    assert place.unpacked() == [{"a/b": "one\n", ".hidden": "x"}]


@pytest.mark.slow
def test_generations_have_the_trees_that_their_folders_have_lost(place: Place) -> None:
    """Applied, changed, gone from the site with its folder, and brought back."""
    one, two = {"a": "one\n"}, {"a": "two\n", "b": "more\n"}
    place.write(one)
    place.done("apply", "--yes")
    place.write(two)
    place.done("apply", "--yes")
    assert two in place.unpacked()
    place.write({})
    place.say("")
    place.done("apply", "--yes")
    assert two not in place.unpacked()
    shutil.rmtree(place.root)
    place.root.mkdir()
    place.done("rollback", "1", "--yes")
    assert place.unpacked() == [one]
    place.done("rollback", "2", "--yes")
    assert two in place.unpacked()


def test_a_tree_that_is_lost_is_told_before_anything_is_done(place: Place) -> None:
    place.write({"a": "one\n"})
    place.done("apply", "--yes", "--executor", "simulate")
    place.say("")
    place.done("apply", "--yes", "--executor", "simulate")
    forget_files(place.site / ".cobweb/state.db")
    ran = place.run("rollback", "1", "--yes", "--executor", "simulate")
    assert ran.code == 3
    assert "here/etc.spec.tree: the copy of the tree is gone" in ran.err


def test_the_journal_and_generations_have_the_digest_alone(place: Place) -> None:
    place.write({"a": "a text that is nowhere else\n"})
    place.done("apply", "--yes", "--executor", "simulate")
    (cob,) = json.loads(place.run("show", "-o", "json").out)["hosts"][0]["cobs"]
    tree = cob["spec"].pop("tree")
    assert cob["spec"] == {}
    assert tree == {"digest": tree["digest"], "files": 1, "bytes": 28}
    assert "here/etc.spec.source = etc\n" in place.run("explain", "here/etc.spec.source").out
    assert trees_of(place) == {tree["digest"]}


def test_archives_that_no_generation_names_go(place: Place) -> None:
    for number in range(4):
        place.write({"a": f"{number}\n"})
        place.done("apply", "--yes", "--executor", "simulate")
    assert len(trees_of(place)) == 4
    place.done("generations", "--gc", "--keep", "2")
    assert len(trees_of(place)) == 2


def trees_of(place: Place) -> set[str]:
    """Return the digests of the archives that the state database has."""
    with closing(sqlite3.connect(place.site / ".cobweb/state.db")) as connection:
        rows = connection.execute("SELECT digest, content FROM cobweb_files").fetchall()
    return {digest for digest, content in rows if b"ustar" in zlib.decompress(content)[:512]}


def forget_files(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM cobweb_files")
