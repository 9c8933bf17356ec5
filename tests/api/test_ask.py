"""`Site.ask`: checks that belong to no object, also while a run is at work; nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.model import Job, JobKind, Outcome, Tasks, cob_id

SITE = """
cobweb: 1
inventory:
  all:
    vars:
      ansible_connection: local
      ansible_python_interpreter: "{{ ansible_playbook_python }}"
    hosts: {n1: {}, n2: {}}
"""
TASKS = """
- ansible.builtin.set_fact:
    cob_state: running
    cob_results: {host: "{{ inventory_hostname }}", said: "{{ cob.spec.said }}"}
"""
FAILING = "- ansible.builtin.fail: {msg: nobody is there}\n"


def job(number: int, host: str, tasks: Path, **spec: Any) -> Job:
    name = f"question-{number}"
    cob_vars = {"id": f"{host}/{name}", "name": name, "host": host, "spec": spec, "results": {}}
    return Job(
        number=number,
        kind=JobKind.CHECK,
        cob=cob_id(host, name),
        host=host,
        type_name="question",
        action=Tasks(path=str(tasks)),
        cob_vars=cob_vars,
    )


@pytest.mark.gate("asks two hosts by real tasks of Ansible")
def test_hosts_are_asked_while_a_run_is_at_work(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(SITE, encoding="utf-8")
    asks, fails = tmp_path / "ask.yml", tmp_path / "fail.yml"
    asks.write_text(TASKS, encoding="utf-8")
    fails.write_text(FAILING, encoding="utf-8")
    with Site(tmp_path) as site, site.turn("apply"):
        runs = site.history().last_run()
        reports = site.ask(
            [
                job(3, "n1", asks, said="a"),
                job(1, "n2", asks, said="b"),
                job(2, "n2", fails),
                job(4, "nowhere", asks),
            ]
        )
        assert site.history().last_run() == runs
        assert not site.history().results()
    assert {number: it.outcome for number, it in reports.items()} == {
        1: Outcome.OK,
        2: Outcome.FAILED,
        3: Outcome.OK,
        4: Outcome.UNREACHABLE,
    }
    assert reports[3].results == {"host": "n1", "said": "a"}
    assert reports[1].results == {"host": "n2", "said": "b"}
    assert "nobody is there" in reports[2].message
    assert reports[4].message == "the site has no host nowhere"
