"""COB types in files of plugins: what is wrong in one is said, with the file and the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobweb.errors import CobwebError
from cobweb.model import Role, Tasks
from cobweb.plugin import type_file

GOOD = """\
states: [outdated, down, up]
preferred: up
remove: down
check: {tasks: check.yml}
transitions:
  down -> up: {tasks: start.yml, timeout: 60, attempts: 2}
"""
BAD = {
    "states": ("[outdated, down, up]", "down", "`states` must be a list of words"),
    "state": ("[outdated, down, up]", "[1, down, up]", "`states` must be a list of words"),
    "preferred": ("preferred: up", "preferred: [up]", "`preferred` must be a text"),
    "check": ("{tasks: check.yml}", "{}", "`check` has neither `tasks` nor `role`"),
    "timeout": ("60", "soon", "`down -> up`: `timeout` must be a number of seconds"),
    "no time": ("60", "0", "must be more than nothing"),
    "attempts": ("attempts: 2", "attempts: true", "`attempts` must be a whole number"),
    "tasks": ("start.yml", "[start.yml]", "`down -> up`: `tasks` must be a text"),
    "spec": ("remove: down", "remove: down\nspec: [1]", "a JSON Schema or the path of one"),
    "groups": ("remove: down", "remove: down\ngroups: [off]", "`groups` must be a mapping"),
    "group": ("remove: down", "remove: down\ngroups: {stopped: down}", "`stopped` must be a word"),
    "name": ("remove: down", "remove: down\ngroups: {off: [down]}", "with a list of words"),
    "member": ("remove: down", "remove: down\ngroups: {stopped: [1]}", "with a list of words"),
    "serving": ("remove: down", "remove: down\nserving: up", "`serving` must be a list of words"),
    "server": ("remove: down", "remove: down\nserving: [1]", "`serving` must be a list of words"),
    "nobody": ("remove: down", "remove: down\nserving: []", "`serving` names no states"),
    "connection": ("remove: down", "remove: down\nconnection: {}", "`connection` must be a list"),
    "interrupts": ("attempts: 2", "interrupts: 1", "`interrupts` must be true or false"),
    "checks": ("{tasks: check.yml}", "{tasks: a, interrupts: true}", "unknown keys: interrupts"),
    "facts": ("attempts: 2", "facts: all", "`facts` must be true, false or a list of subsets"),
    "vars": ("attempts: 2", "role: x, vars: 1", "`vars` must be a mapping"),
    "schema": ("remove: down", "remove: down\nspec: list.json", "list.json is no mapping"),
}


def _file(tmp_path: Path, text: str) -> Path:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "list.json").write_text("[1]")
    path = tmp_path / "thing" / "type.yml"
    path.write_text(text)
    return path


def test_a_type_has_the_name_of_its_folder(tmp_path: Path) -> None:
    """And may have no transitions yet."""
    path = _file(tmp_path, GOOD.partition("  down")[0])
    assert type_file(path)().cob_type().name == "thing"


def test_groups_of_states_are_read(tmp_path: Path) -> None:
    """In the order of writing."""
    path = _file(tmp_path, f"{GOOD}groups: {{stopped: [outdated, down]}}\n")
    assert type_file(path)().cob_type().groups == {"stopped": ("outdated", "down")}


def test_what_its_results_may_say_of_the_connection_is_read(tmp_path: Path) -> None:
    path = _file(tmp_path, f"{GOOD}connection: [ansible_timeout]\n")
    assert type_file(path)().cob_type().connection == ("ansible_timeout",)


def test_facts_and_variables_of_roles_are_read(tmp_path: Path) -> None:
    """What an action says of facts counts, then its type; else a role has all and tasks none."""
    text = GOOD + "  up -> down: {role: x.y, vars: {port: '{{ cob.spec.port }}'}, facts: [min]}\n"
    made = type_file(_file(tmp_path, text))().cob_type()
    assert made.actions() == (
        Tasks(path=f"{tmp_path}/thing/check.yml"),
        Tasks(path=f"{tmp_path}/thing/start.yml"),
        Role(name="x.y", vars={"port": "{{ cob.spec.port }}"}, facts=("min",)),
    )
    for said, found in (("", (False, True)), ("facts: true\n", (True, True))):
        path = tmp_path / "thing" / "type.yml"
        path.write_text(GOOD.replace("{tasks: start.yml", "{role: x") + said)
        actions = type_file(path)().cob_type().actions()
        assert tuple(it.facts for it in actions if isinstance(it, Tasks | Role)) == found


def test_what_serves_is_read(tmp_path: Path) -> None:
    """With the steps that interrupt it; without the keys only the preferred state serves."""
    text = f"{GOOD}  outdated -> up: {{interrupts: true}}\nserving: [up, outdated]\n"
    made = type_file(_file(tmp_path, text))().cob_type()
    assert made.serving == ("up", "outdated")
    assert [step.interrupts for step in made.transitions] == [False, True]
    assert made.serves("outdated")
    assert not made.serves("down")


@pytest.mark.parametrize(("old", "new", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, message: str) -> None:
    """No other exception comes out, and nothing is taken for what it is not."""
    path = _file(tmp_path, GOOD.replace(old, new))
    with pytest.raises(CobwebError) as found:
        type_file(path)().cob_type()
    assert str(path) in str(found.value)
    assert message in str(found.value)
