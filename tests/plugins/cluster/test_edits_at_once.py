"""Operations that edit the site at the same time, or die in it, undo nothing of each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cobweb.errors import CobwebError
from cobweb_plugins.cluster._edit import SiteEdit
from cobweb_plugins.cluster._lock import read_lock
from tests.plugins.cluster.test_commands import SIMULATED, Site, site

pytestmark = [
    pytest.mark.full("processes that edit at once; one edit after the other is in the gate")
]

__all__ = ["site"]  # a fixture

NAMES = ("p1", "p2", "p3", "p4")
MAKE = ("--template", "stack", "--nodes", "2")


def started(site: Site, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "cobweb", "-C", str(site.folder), "cluster", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate()
    return process.returncode, err


def known(site: Site) -> tuple[set[str], set[str]]:
    """Return the clusters that the site has, and those that are laid out."""
    said = yaml.safe_load((site.folder / "clusters.yml").read_text())["clusters"]
    return set(said), set(read_lock((site.folder / "site.lock").read_text()))


def test_four_that_begin_together_are_four_in_the_end(site: Site) -> None:
    processes = [started(site, "create", name, *MAKE, "--no-apply", "--yes") for name in NAMES]
    codes = [ended(process) for process in processes]
    assert [code for code, _ in codes] == [0] * 4, codes
    assert known(site) == ({"first", *NAMES}, {"first", *NAMES})
    site.cobweb("validate")


def test_of_those_that_apply_together_each_is_done_or_says_what_is_left(site: Site) -> None:
    processes = [started(site, "create", name, *MAKE, *SIMULATED) for name in NAMES]
    codes = [ended(process) for process in processes]
    assert {code for code, _ in codes} <= {0, 5}, codes
    for code, err in codes:
        assert ("the edit of the site stays: `cobweb apply` carries it out" in err) is (code == 5)
    assert known(site) == ({"first", *NAMES}, {"first", *NAMES})
    site.cobweb("apply", *SIMULATED)
    assert all(site.states(name) for name in NAMES)


def test_a_create_that_was_killed_after_its_edit_goes_on_when_it_is_said_again(site: Site) -> None:
    site.cluster("create", "p1", *MAKE, "--no-apply", "--yes")  # as one that died before its apply
    before = site.files()
    site.done("create", "p1", *MAKE)
    assert site.files() == before
    states = {state for it in site.states("p1").values() for state in it.values()}
    assert states == {"started", "bootstrapped"}
    site.done("create", "p1", "--template", "stack", "--nodes", "3", code=64)


def test_one_waits_for_the_other_and_says_so(site: Site) -> None:
    with SiteEdit(site.folder):
        process = started(site, "create", "p1", *MAKE, "--no-apply", "--yes")
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting for another edit of this site\n"
        assert "p1" not in known(site)[0]
    assert ended(process)[0] == 0
    assert "p1" in known(site)[0]


def test_what_a_person_writes_meanwhile_is_neither_overwritten_nor_taken_back(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.yml"
    file.write_text("a: 1\n")
    with SiteEdit(tmp_path) as edit, pytest.raises(CobwebError, match="edited by someone else"):
        edit.write("a.yml", "a: 2\n", was="a: 0\n")
    assert file.read_text() == "a: 1\n"
    with pytest.raises(ZeroDivisionError) as told:
        _fail_in_the_middle(file)
    assert file.read_text() == "a: 3\n"
    assert not (tmp_path / "b.yml").exists()
    assert told.value.__notes__ == ["a.yml was edited by someone else meanwhile: look at it"]


def _fail_in_the_middle(file: Path) -> None:
    with SiteEdit(file.parent) as edit:
        edit.write("a.yml", "a: 2\n")
        edit.write("b.yml", "b: 2\n")
        file.write_text("a: 3\n")
        raise ZeroDivisionError
