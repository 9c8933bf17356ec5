"""The task files that an import makes are right about which action they are called for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb_plugins.cluster._automators import task_file
from cobweb_plugins.cluster._service_type import STATES

ACTIONS = ("install", "configure", "initialize", "start", "stop", "remove")
STEPS = (
    *("absent -> installed", "installed -> configured", "configured -> initialized"),
    *("initialized -> started", "started -> initialized", "initialized -> absent"),
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site with one service on this machine, whose actions write down their names."""
    log = tmp_path / "log"
    fields = {name: {"script": "/bin/sh", "args": f"-c 'echo {name} >> {log}'"} for name in ACTIONS}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    site = {
        "cobweb": 1,
        "inventory": {"all": {"hosts": {"here": local}}},
        "types": {
            "life": {
                "states": list(STATES),
                "preferred": "started",
                "remove": "absent",
                "check": {"tasks": "check.yml"},
                "transitions": {step: {"tasks": "shell.yml"} for step in STEPS},
            }
        },
        "cobs": {
            "web": {"type": "life", "on": "here", "spec": {"service": "web", "fields": fields}}
        },
    }
    found = {"cob_state": "{{ cob.recorded or 'absent' }}"}
    (tmp_path / "check.yml").write_text(yaml.safe_dump([{"ansible.builtin.set_fact": found}]))
    (tmp_path / "shell.yml").write_text(task_file("shell"))
    (tmp_path / "site.yml").write_text(yaml.safe_dump(site))
    return tmp_path


@pytest.mark.full("the steps of a service by Ansible itself; the gate has a real cluster")
def test_each_step_does_the_action_that_it_is(run: Any, site: Path) -> None:
    ran = run("apply", "--yes", "-C", site)
    assert ran.code == 0, ran.err
    assert (site / "log").read_text().split() == list(ACTIONS[:4])
    said = yaml.safe_load((site / "site.yml").read_text())
    (site / "site.yml").write_text(yaml.safe_dump({**said, "cobs": {}}))
    ran = run("apply", "--yes", "-C", site)
    assert ran.code == 0, ran.err
    assert (site / "log").read_text().split() == list(ACTIONS)
