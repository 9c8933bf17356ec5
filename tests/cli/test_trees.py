"""File trees from the site to the tasks of a type, kept in generations, and back."""

from __future__ import annotations

import json
import os
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
    cob_message: "{{ '' if it.stat.exists else 'nothing\n is there' }}"
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


@pytest.mark.full("by both executors; tests/types has a tree on a real host in the gate")
@pytest.mark.parametrize("executor", ["ansible", "ansible-plain"])
def test_a_transition_finds_the_archive_and_a_check_says_what_differs(
    place: Place, executor: str, check_schema: Any
) -> None:
    place.write({"a/b": "one\n", ".hidden": "x"})
    place.done("apply", "--yes", "--executor", executor)
    assert place.unpacked() == [{"a/b": "one\n", ".hidden": "x"}]
    shutil.rmtree(place.root)
    ran = place.run("drift", "--executor", executor, "-o", "json")
    assert ran.code == 2
    found = json.loads(ran.out)
    check_schema("drift", found)
    assert [(it["is"], it["message"]) for it in found["drifted"]] == [("down", "nothing is there")]
    report = place.run("report", found["run"]).out
    assert "was up, is down: nothing is there" in report


@pytest.mark.full("by Ansible itself, several runs; what is kept of a generation is in the gate")
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
    place.done("gc", "--keep-generations", "2")
    assert len(trees_of(place)) == 2


def trees_of(place: Place) -> set[str]:
    """Return the digests of the archives that the state database has."""
    with closing(sqlite3.connect(place.site / ".cobweb/state.db")) as connection:
        rows = connection.execute("SELECT digest, content FROM cobweb_files").fetchall()
    return {digest for digest, content in rows if b"ustar" in zlib.decompress(content)[:512]}


def forget_files(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM cobweb_files")


# --- what changes is told file by file

OLD = {
    "app.conf": "listen 80\nport 1\nlog on\n",
    "gone.txt": "one\ntwo\n",
    "long.txt": "".join(f"line {number}\n" for number in range(30)),
    "same.txt": "same\n",
}
NEW = {
    "app.conf": "listen 80\nport 2\nlog on\n",
    "long.txt": "".join(f"other {number}\n" for number in range(30)),
    "new/a.txt": "hello\n",
    "same.txt": "same\n",
}
PLAN = """\
~ here/etc
    ~tree: 4 files, 267 bytes -> 4 files, 295 bytes
    ~ app.conf: +1 -1
      @@ -1,3 +1,3 @@
      listen 80
    - port 1
    + port 2
      log on
    - gone.txt: +0 -2
      @@ -1,2 +0,0 @@
    - one
    - two
    ~ long.txt: +30 -30
      @@ -1,30 +1,30 @@
    - line 0
    - line 1
    - line 2
    - line 3
    - line 4
    - line 5
    - line 6
    - line 7
    - line 8
    - line 9
      ... and 50 more lines (`cobweb plan --diff` shows all)
    + new: folder
    + new/a.txt: +1 -0
      @@ -0,0 +1 @@
    + hello
"""


@pytest.fixture
def changed(place: Place) -> Place:
    """Return a site whose tree has changed since it was applied."""
    place.write(OLD)
    for file in (place.site / "etc").iterdir():
        file.chmod(0o644)
    place.done("apply", "--yes", "--executor", "simulate")
    place.write(NEW)
    for file in (place.site / "etc").rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    return place


def test_a_plan_shows_what_changes_in_each_file(changed: Place) -> None:
    assert changed.run("plan").out.partition("?")[0] == PLAN


def test_a_plan_shows_all_lines_if_asked(changed: Place) -> None:
    whole = changed.run("plan", "--diff").out
    assert "more lines" not in whole
    assert "    + other 29\n" in whole
    assert "    - line 29\n" in whole


def test_a_plan_for_programs_has_all_lines(changed: Place, check_schema: Any) -> None:
    plan = json.loads(changed.run("plan", "-o", "json").out)
    check_schema("plan", plan)
    (change,) = plan["changes"]
    assert [(it["file"], it["kind"], it["added"], it["removed"]) for it in change["files"]] == [
        ("app.conf", "changed", 1, 1),
        ("gone.txt", "removed", 0, 2),
        ("long.txt", "changed", 30, 30),
        ("new", "added", 0, 0),
        ("new/a.txt", "added", 1, 0),
    ]
    assert change["files"][0]["diff"] == [
        "@@ -1,3 +1,3 @@",
        " listen 80",
        "-port 1",
        "+port 2",
        " log on",
    ]
    assert change["files"][3]["notes"] == ["folder"]


def test_generations_are_compared_file_by_file(changed: Place, check_schema: Any) -> None:
    with_files = changed.run("diff").out
    assert with_files == PLAN.replace("`cobweb plan --diff` shows all", "-o json has all")
    changed.done("apply", "--yes", "--executor", "simulate")
    shutil.rmtree(changed.site / "etc")
    changed.say("")
    assert changed.run("diff", "1", "2").out == with_files
    found = json.loads(changed.run("diff", "1", "2", "-o", "json").out)
    check_schema("diff", found)
    assert [it["file"] for it in found["cobs"][0]["files"]] == [
        "app.conf",
        "gone.txt",
        "long.txt",
        "new",
        "new/a.txt",
    ]


def test_the_way_back_is_shown_in_files(changed: Place) -> None:
    changed.done("apply", "--yes", "--executor", "simulate")
    shown = changed.run("plan", "--generation", "1").out
    assert "    + gone.txt: +2 -0\n" in shown
    assert "    - port 2\n    + port 1\n" in shown


def test_odd_names_are_shown_safely(place: Place) -> None:
    place.write({"a": ""})
    place.done("apply", "--yes", "--executor", "simulate")
    odd = os.fsencode(place.site / "etc") + b"/odd\n\x1b[31m\xff"
    Path(os.fsdecode(odd)).write_bytes(b"")
    assert r"+ odd\n\x1b[31m\udcff" in place.run("plan").out
    plan = place.run("plan", "-o", "json")
    assert json.loads(plan.out)["changes"][0]["files"][0]["file"] == "odd\n\x1b[31m\udcff"
