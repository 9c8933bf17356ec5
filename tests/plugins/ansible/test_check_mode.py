"""A check in Ansible's check mode: up where nothing would change, else outdated, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Outcome, Report, Role, Tasks
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._results import Collector, TaskEnd
from tests.plugins.ansible.conftest import BOTH, Bench, MakeBench

pytestmark = pytest.mark.gate("Ansible runs roles on this machine")

FINDS = ("up", "outdated", "down")
ROLE = {
    "defaults/main.yml": "thing_word: one\nthing_fails: false\n",
    "templates/conf.j2": "word={{ thing_word }}\n",
    "tasks/main.yml": """
- name: folder
  ansible.builtin.file: {path: "{{ thing_dir }}", state: directory, mode: '0755'}
- name: config
  ansible.builtin.template: {src: conf.j2, dest: "{{ thing_dir }}/conf", mode: '0644'}
  notify: restart
- name: look
  ansible.builtin.command: cat {{ thing_dir }}/conf
  check_mode: false
  changed_when: false
- name: build
  ansible.builtin.command: touch {{ thing_dir }}/built
  when: not thing_fails
- name: once
  ansible.builtin.command: touch {{ thing_dir }}/once
  args: {creates: "{{ thing_dir }}/once"}
- name: never
  ansible.builtin.command: touch {{ thing_dir }}/never
  when: false
- name: none
  ansible.builtin.command: touch {{ item }}
  loop: []
- name: say the mode
  ansible.builtin.set_fact: {cob_results: {mode: "{{ ansible_check_mode }}"}}
""",
    "handlers/main.yml": """
- name: restart
  ansible.builtin.shell: echo again >> {{ thing_dir }}/restarts
""",
}


class Thing:
    """A role that keeps a folder below the bench's own, and the jobs that check and make it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.dir = bench.folder / "thing"
        for name, text in ROLE.items():
            bench.write(f"site/roles/thing/{name}", text)

    def run(self, *, check: bool, recorded: str | None = None, **more: Any) -> Report:
        """Run the role, in check mode or not, with these variables."""
        role = Role(
            name=str(self.bench.folder / "site/roles/thing"),
            vars={"thing_dir": str(self.dir), **more},
            facts=False,
            finds=FINDS if check else (),
        )
        job = self.bench.job(role, check=check)
        job.cob_vars["recorded"] = recorded  # type: ignore[index]  # the bench's is a dict
        (report,) = self.bench.run(job)
        return report

    def files(self) -> dict[str, str]:
        """Return what is in the folder."""
        return {path.name: path.read_text() for path in sorted(self.dir.glob("*"))}


@BOTH
def test_a_role_is_up_where_nothing_would_change(make_bench: MakeBench, kind: Any) -> None:
    """A change by hand, or of a variable, is `outdated`; the check itself changes nothing."""
    thing = Thing(make_bench(kind, hosts=1))
    first = thing.run(check=True)
    assert (first.outcome, first.state) == (Outcome.OK, "outdated")
    assert first.message.startswith("would change: folder, config; then ")
    assert "look: " in first.message
    assert not thing.dir.exists()

    made = thing.run(check=False)
    assert (made.outcome, made.results) == (Outcome.OK, {"mode": False})
    before = thing.files()
    found = thing.run(check=True)
    assert (found.state, found.message, found.results) == ("up", "", {"mode": True})
    assert thing.files() == before

    (thing.dir / "conf").write_text("word=by hand\n")
    found = thing.run(check=True)
    assert found.state == "outdated"
    unseen = "; not looked at: build, restart" if kind is AnsibleExecutor else ""
    assert found.message == f"would change: config{unseen}"
    thing.run(check=False)
    found = thing.run(check=True, thing_word="two")
    assert (found.state, thing.files()["conf"]) == ("outdated", "word=one\n")
    assert thing.run(check=True).state == "up"


@BOTH
def test_what_was_taken_down_stays_down(make_bench: MakeBench, kind: Any) -> None:
    """The journal knows that nothing is there; what is there all the same is found."""
    thing = Thing(make_bench(kind, hosts=1))
    assert thing.run(check=True, recorded="down").state == "down"
    assert thing.run(check=True, recorded="outdated").state == "outdated"
    thing.run(check=False)
    assert thing.run(check=True, recorded="down").state == "up"
    assert thing.run(check=True, recorded="up").state == "up"


@BOTH
def test_a_step_that_has_not_ended_well_is_taken_again(make_bench: MakeBench, kind: Any) -> None:
    """Check mode sees neither the command nor the handler that failed: the journal does."""
    thing = Thing(make_bench(kind, hosts=1))
    thing.run(check=False)
    found = thing.run(check=True, recorded="outdated")
    assert (found.state, found.message) == ("outdated", "")


@BOTH
def test_a_role_that_fails_before_anything_would_change(make_bench: MakeBench, kind: Any) -> None:
    """Nothing is known then: the check has failed, and says where."""
    bench = make_bench(kind, hosts=1)
    text = "- {name: first, ansible.builtin.fail: {msg: no such thing}}\n"
    path = str(bench.write("fails.yml", text))
    (report,) = bench.run(bench.job(Tasks(path=path, finds=FINDS), check=True))
    assert (report.outcome, report.message) == (
        Outcome.FAILED,
        "in check mode: first: no such thing",
    )


def test_a_failure_names_what_was_not_looked_at(make_bench: MakeBench) -> None:
    """It may be what the task lacks that failed."""
    bench = make_bench(AnsibleExecutor, hosts=1)
    text = """
- {name: ask, ansible.builtin.command: echo 1, register: said}
- {name: use, ansible.builtin.assert: {that: said.stdout == '1', fail_msg: no answer}}
"""
    path = str(bench.write("fails.yml", text))
    (report,) = bench.run(bench.job(Tasks(path=path, finds=FINDS), check=True))
    assert report.outcome is Outcome.FAILED
    assert report.message == "in check mode: use: no answer; not looked at: ask"


def test_lists_of_packages_are_no_state() -> None:
    """A role that reads them anew after some time changes nothing; a package is another matter."""

    def found(**result: Any) -> str:
        collector = Collector()
        end = TaskEnd(event="ok", name="apt", result=result, changed=True, ignored=False)
        collector.add(end)
        fields = collector.end(ok=True, check=True, finds=FINDS)
        return f"{fields['state']} {fields['message']}".strip()

    lists = {"changed": True, "cache_updated": True, "cache_update_time": 1}
    assert found(**lists) == "up"
    assert found(**lists, diff={}, stdout="Inst nginx", stderr="") == "outdated would change: apt"


def test_task_files_are_run_in_check_mode_too(make_bench: MakeBench, tmp_path: Path) -> None:
    """Also those that go past Ansible otherwise; the next job is in no check mode."""
    bench = make_bench(AnsibleExecutor, hosts=1)
    made = tmp_path / "made"
    text = f"- ansible.builtin.file: {{path: {made}, state: touch, mode: '0644'}}\n"
    path = str(bench.write("touch.yml", text))
    check, step = Tasks(path=path, finds=FINDS), Tasks(path=path)
    for _ in range(2):
        (report,) = bench.run(bench.job(check, check=True))
        assert (report.state, made.exists()) == ("outdated", False)
    bench.run(bench.job(step))
    assert made.exists()
