"""`Site.ask`: read-only questions to hosts, also while a run is at work; nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobweb.api import Site
from cobweb.model import Outcome, Tasks
from cobweb.plugin import Answer, Question

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
    cob_results: {host: "{{ inventory_hostname }}", said: "{{ cob.spec.said }}"}
"""
FAILING = "- ansible.builtin.fail: {msg: nobody is there}\n"
LONG = "- ansible.builtin.set_fact: {cob_results: {said: \"{{ 'x' * 2000000 }}\"}}\n"
SLOW = "- ansible.builtin.command: sleep 60\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site.yml").write_text(SITE, encoding="utf-8")
    return tmp_path


def tasks(folder: Path, text: str) -> Tasks:
    path = folder / f"{abs(hash(text))}.yml"
    path.write_text(text, encoding="utf-8")
    return Tasks(path=str(path))


@pytest.mark.gate("asks two hosts by real tasks of Ansible, with an executor that stays open")
def test_hosts_are_asked_while_a_run_is_at_work(site: Path) -> None:
    asks, fails = tasks(site, TASKS), tasks(site, FAILING)
    with Site(site) as it, it.turn("apply"):
        runs = it.history().last_run()
        answers = it.ask_all(
            {
                "a": Question(host="n1", action=asks, spec={"said": "a"}),
                "b": Question(host="n2", action=asks, spec={"said": "b"}),
                "fails": Question(host="n2", action=fails),
                "nowhere": Question(host="nowhere", action=asks),
            }
        )
        again = it.ask(["n2", "n1"], asks, 30.0, {"said": "c"})
        long = it.ask(["n1"], tasks(site, LONG))["n1"]
        late = it.ask(["n1"], tasks(site, SLOW), 1.0)["n1"]
        assert it.history().last_run() == runs
        assert not it.history().results()
    outcomes = {key: answer.outcome for key, answer in answers.items()}
    assert outcomes == {
        "a": Outcome.OK,
        "b": Outcome.OK,
        "fails": Outcome.FAILED,
        "nowhere": Outcome.UNREACHABLE,
    }
    assert answers["a"].data == {"host": "n1", "said": "a"}
    assert answers["b"].data == {"host": "n2", "said": "b"}
    assert "nobody is there" in answers["fails"].message
    assert answers["nowhere"].message == "the site has no host nowhere"
    assert {host: answer.data["said"] for host, answer in again.items()} == {"n1": "c", "n2": "c"}
    assert (long.outcome, long.data) == (Outcome.FAILED, {})
    assert "a job may hand back 1048576" in long.message
    assert late.outcome is Outcome.TIMEOUT


def test_the_executor_stays_open_until_the_site_is_another_one(site: Path) -> None:
    action = tasks(site, TASKS)
    with Site(site) as it:

        def ask() -> dict[str, Answer]:
            return it.ask_all({"x": Question(host="n1", action=action)}, "simulate")

        assert "nobody is there" in ask()["x"].message
        first = vars(it._questions)["_of"]
        ask()
        assert vars(it._questions)["_of"] is first
        (site / "site.yml").write_text(SITE.replace("n2: {}", "n3: {}"), encoding="utf-8")
        assert it.refresh()
        ask()
        assert vars(it._questions)["_of"] is not first
        assert it.ask(["n2"], action)["n2"].message == "the site has no host n2"
