"""What the docs say of other names, of hosts and after a lost state database, on real processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.supervised import end_supervised, supervisors

Run = Callable[..., Any]
pytestmark = [
    pytest.mark.full("odd names on real processes; the gate has them in files"),
    pytest.mark.timeout(180),
]

SITE = """\
cobweb: 1
name: names
inventory:
  all:
    hosts: {old01: {}}
    vars:
      ansible_connection: local
      ansible_python_interpreter: "{{ ansible_playbook_python }}"
cobs:
  note:
    type: file
    on: all
    spec: {path: BASE/note.txt, content: "hello", state_dir: BASE}
  app:
    type: process
    on: all
    spec: {command: exec sleep 100000, state_dir: BASE}
    requires: [note]
"""


class Place:
    """A site of one host, which is this machine, and what it has there in `base`."""

    def __init__(self, run: Run, site: Path, base: Path) -> None:
        self._run, self.site, self.base = run, site, base
        (site / "site.yml").write_text(SITE.replace("BASE", str(base)), encoding="utf-8")

    def edit(self, old: str, new: str) -> None:
        """Change the site."""
        file = self.site / "site.yml"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def call(self, *words: str, code: int = 0) -> str:
        """Call a command, and return what it says."""
        ran = self._run("-C", self.site, *words)
        assert ran.code == code, ran.err
        said: str = ran.out + ran.err
        return said

    def has_one_process_and_the_file(self) -> bool:
        """Say whether all is there once."""
        return len(supervisors(self.base)) == 1 and (self.base / "note.txt").exists()


@pytest.fixture
def place(run: Run, tmp_path: Path) -> Iterator[Place]:
    """Yield a site that is up."""
    base = tmp_path / "host"
    base.mkdir()
    (tmp_path / "site").mkdir()
    made = Place(run, tmp_path / "site", base)
    made.call("apply", "--yes")
    yield made
    end_supervised(base)


def test_a_host_gets_another_name_by_forget(place: Place) -> None:
    """What remembers names is down meanwhile; all else is found as it is."""
    place.edit("requires: [note]", "requires: [note]\n    want: down")
    place.call("apply", "--yes")
    place.edit("old01", "new01")
    place.edit("\n    want: down", "")
    place.call("forget", "--host", "old01", "--yes")
    assert "+ new01/note" in place.call("plan")
    said = place.call("apply", "--yes")
    assert "new01/app  down -> up" in said
    assert "new01/note" not in said
    assert place.has_one_process_and_the_file()
    assert "no drift" in place.call("drift")


def test_a_host_that_is_renamed_like_that_loses_what_the_new_name_has_found(place: Place) -> None:
    place.edit("old01", "new01")
    place.call("apply", "--yes")
    assert not (place.base / "note.txt").exists()
    assert "new01/note" in place.call("drift", code=2)
    place.call("apply", "--yes")
    assert place.has_one_process_and_the_file()


def test_an_address_is_no_name(place: Place) -> None:
    place.edit("old01: {}", "old01: {ansible_host: 127.0.0.1}")
    assert "nothing to change" in place.call("plan", "--detailed-exitcode")


def test_first_names_help_after_the_state_database_was_lost(place: Place) -> None:
    place.edit("  app:", "  shop:\n    was: app")
    place.call("apply", "--yes")
    shutil.rmtree(place.site / ".cobweb")
    place.edit("  shop:\n    was: app", "  app:")
    assert "nothing to do" in place.call("apply", "--yes", "--adopt", "all")
    place.edit("  app:", "  shop:\n    was: app")
    assert "= old01/shop (was old01/app)" in place.call("plan")
    place.call("apply", "--yes")
    assert place.has_one_process_and_the_file()


def test_without_them_a_process_is_started_again(place: Place) -> None:
    place.edit("  app:", "  shop:\n    was: app")
    place.call("apply", "--yes")
    shutil.rmtree(place.site / ".cobweb")
    place.call("apply", "--yes", "--adopt", "all")
    assert len(supervisors(place.base)) == 2
