"""A variable that a role reads is rolled out, and taken back, as a change of its objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
SIMULATED = ("--yes", "--executor", "simulate")
VAULTED = "!vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  "

SITE = """\
cobweb: 1
name: inputs
inventory:
  web:
    hosts: HOSTS
    vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}
types:
  web:
    states: [outdated, down, up]
    preferred: up
    remove: down
    serving: [up, outdated]
    check: {tasks: check.yml}
    transitions:
      down -> up: {role: nginx, facts: false}
      outdated -> up: {role: nginx, facts: false, interrupts: true}
      up -> down: {tasks: stop.yml}
      outdated -> down: {tasks: stop.yml}
cobs: {page: {type: web, on: web}}
limits: {rolling: {on: web, cob: page, max: 1}}
"""
CHECK = """\
- ansible.builtin.stat: {path: "OUT/{{ inventory_hostname }}"}
  register: it
- ansible.builtin.set_fact:
    cob_state: "{{ same if it.stat.exists else 'down' }}"
  vars: {same: "{{ 'up' if cob.applied == cob.spec else 'outdated' }}"}
"""
ROLE = """\
- ansible.builtin.copy:
    dest: "OUT/{{ inventory_hostname }}"
    content: "{{ nginx_port }} {{ nginx_user | default('-') }} {{ more }}"
  vars: {more: "{{ lookup('vars', 'nginx_' ~ 'more', default='-') }}"}
"""
STOP = '- ansible.builtin.file: {path: "OUT/{{ inventory_hostname }}", state: absent}\n'


class Place:
    """A site whose type is a role; what this does is a file for each host in `out`."""

    def __init__(self, run: Run, folder: Path, hosts: str) -> None:
        self._run, self.site, self.out = run, folder / "site", folder / "out"
        self.out.mkdir()
        self.write("site.yml", SITE.replace("HOSTS", hosts))
        self.write("roles/nginx/tasks/main.yml", ROLE)
        self.write("check.yml", CHECK)
        self.write("stop.yml", STOP)

    def write(self, name: str, text: str) -> None:
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("OUT", str(self.out)), encoding="utf-8")

    def variables(self, text: str) -> None:
        """Let the group have these variables."""
        self.write("group_vars/web.yml", text)

    def call(self, *words: str, code: int = 0) -> str:
        """Call a command, and return what it says."""
        ran = self._run("-C", self.site, *words)
        assert ran.code == code, ran.err
        said: str = ran.out + ran.err
        return said


@pytest.fixture
def place(run: Run, tmp_path: Path) -> Place:
    return Place(run, tmp_path, "{w1: , w2: , w3: }")


@pytest.mark.gate("the story of a variable, from a plan to a rollback")
def test_a_changed_variable_is_planned_rolled_out_and_taken_back(place: Place) -> None:
    place.variables("nginx_port: 80\nnginx_old: x\nother: 1\n")
    place.call("apply", *SIMULATED)
    place.variables("nginx_port: 80\nnginx_old: x\nother: 2\n")
    place.call("plan", "--detailed-exitcode")
    place.variables('nginx_new: [1]\nnginx_port: "80"\n')
    said = place.call("plan", "--detailed-exitcode", code=2)
    lines = ['-inputs.nginx_old: "x"', "-inputs.nginx_port: 80", '+inputs.nginx_port: "80"']
    assert all(said.count(line) == 3 for line in [*lines, "+inputs.nginx_new: [1]"])
    assert "limit rolling (max 1): w1, w2, w3" in said
    assert "done (3 transitions" in place.call("apply", *SIMULATED)
    place.call("plan", "--detailed-exitcode")
    assert "done (3 transitions" in place.call("rollback", *SIMULATED)
    said = place.call("plan", "--detailed-exitcode", code=2)
    assert said.count("+inputs.nginx_new: [1]") == 3


def test_of_a_vaulted_variable_it_is_told_that_it_differs(place: Place) -> None:
    place.variables(f"nginx_port: 80\nnginx_token: {VAULTED}3632\n")
    place.call("apply", *SIMULATED)
    place.variables(f"nginx_port: 80\nnginx_token: {VAULTED}3733\n")
    said = place.call("plan", "--detailed-exitcode", code=2)
    assert said.count("~inputs.nginx_token: (secret changed)") == 3
    assert "3632" not in said
    assert "3733" not in said
    assert "done (3 transitions" in place.call("apply", *SIMULATED)
    said = place.call("rollback", *SIMULATED, code=3)
    assert "w1/page.spec.inputs.nginx_token: its vaulted value is not in the site any more" in said


def test_a_vaulted_variable_may_go_together_with_its_objects(place: Place) -> None:
    """What is left of its work has no use for it, or says so."""
    place.variables(f"nginx_port: 80\nnginx_token: {VAULTED}3632\n")
    place.call("apply", *SIMULATED)
    place.variables("")
    cobs = "cobs: {page: {type: web, on: web}}"
    text = (place.site / "site.yml").read_text(encoding="utf-8")
    place.write("site.yml", text.replace(cobs, "present: false\n" + cobs))
    assert "any more" not in place.call("plan")
    assert "done (3 transitions" in place.call("apply", *SIMULATED)


@pytest.mark.full("Ansible runs a role; the gate looks at what it would be given")
def test_a_role_sees_the_variables_of_the_generation(run: Run, tmp_path: Path) -> None:
    """Also one that is looked up by a name that stands nowhere, and one that was not there."""
    place = Place(run, tmp_path, "{w1: }")
    place.variables("nginx_port: 80\nnginx_more: then\n")
    place.call("apply", "--yes")
    assert (place.out / "w1").read_text(encoding="utf-8") == "80 - then"
    place.variables("nginx_port: 81\nnginx_user: www\n")
    place.call("apply", "--yes")
    assert (place.out / "w1").read_text(encoding="utf-8") == "81 www -"
    place.call("rollback", "--yes")
    assert (place.out / "w1").read_text(encoding="utf-8") == "80 - then"
