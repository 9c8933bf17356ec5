"""What becomes of jobs: cases as data, the same for both executors."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Action, Host, Job, JobKind, Nothing, Outcome, Report, Role, Tasks, cob_id
from cobweb.plugin import Executor, ExecutorSetting
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor
from cobweb_plugins.ansible._workspace import ansible_tool

PASSWORD = "open sesame"  # noqa: S105  # of a vault that the test makes
SECRET = "hunter2-in-the-vault"  # noqa: S105
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
CLOSED = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_common_args": "-F none"}

AWKWARD: dict[str, Any] = {
    "text": "a\nb\t'\"ü☃ #%",
    "list": [1, 2.5, True, None, {"k": "v"}, []],
    "octal": "0644",
    "empty": "",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job and its report; `message` is a pattern, `last` the message of the last task."""

    name: str
    tasks: str = ""
    action: Action | None = None
    check: bool = False
    host: str = "h1"
    spec: dict[str, Any] = field(default_factory=dict)
    outcome: Outcome = Outcome.OK
    state: str = ""
    message: str = "^$"
    last: str = ""
    statuses: str = ""
    began: bool = True
    plain_outcome: Outcome | None = None


OK, FAILED, UNREACHABLE = Outcome.OK, Outcome.FAILED, Outcome.UNREACHABLE

CASES = (
    Case(name="transition", tasks="- command: 'true'", statuses="changed"),
    Case(
        name="check",
        tasks="- command: 'true'\n- set_fact: {cob_state: up}",
        check=True,
        state="up",
        statuses="changed ok",
    ),
    Case(
        name="state from a template",
        tasks="- set_fact: {cob_state: \"{{ 'up' if cob.spec.good else 'down' }}\"}",
        spec={"good": False},
        check=True,
        state="down",
    ),
    Case(
        name="check without a state",
        tasks="- command: 'true'",
        check=True,
        outcome=FAILED,
        message="the check set no fact cob_state",
    ),
    Case(
        name="state that is no string",
        tasks="- set_fact: {cob_state: [up]}",
        check=True,
        outcome=FAILED,
        message="set cob_state to a list, a state is a string",
    ),
    Case(
        name="end_host keeps the state",
        tasks="- set_fact: {cob_state: up}\n- meta: end_host\n- fail:",
        check=True,
        state="up",
    ),
    Case(
        name="failure says command, code and stderr",
        tasks="- name: break it\n  shell: echo out; echo oh no >&2; exit 3",
        outcome=FAILED,
        message="break it: non-zero return code.*oh no",
        statuses="failed",
    ),
    Case(
        name="undefined variable",
        tasks="- debug: {msg: '{{ nothing_of_the_kind }}'}",
        outcome=FAILED,
        message="'nothing_of_the_kind' is undefined",
    ),
    Case(
        name="missing task file",
        action=Tasks(path="/nonexistent/tasks.yml"),
        outcome=FAILED,
        message="no such file: /nonexistent/tasks.yml",
        began=False,
    ),
    Case(
        name="host that is not in the inventory",
        tasks="- command: 'true'",
        host="h77",
        outcome=FAILED,
        message="the host h77 is not in the inventory",
        began=False,
    ),
    Case(
        name="action that is no business of Ansible",
        action=Nothing(),
        outcome=FAILED,
        message="does not carry out a Nothing",
        began=False,
    ),
    Case(
        name="syntax error",
        tasks="- command: [\n",
        outcome=FAILED,
        message="(?i)yaml|syntax|parsing",
    ),
    Case(
        name="unknown module",
        tasks="- no_such_module: {}",
        outcome=FAILED,
        message="no_such_module",
    ),
    Case(
        name="task file that is no list",
        tasks="command: 'true'",
        outcome=FAILED,
        message="list of tasks",
    ),
    Case(
        name="block, rescue, always",
        tasks=(
            "- block:\n  - command: 'false'\n  rescue:\n  - set_fact: {cob_state: down}\n"
            "  always:\n  - command: 'true'\n"
        ),
        check=True,
        state="down",
        statuses="failed ok changed",
    ),
    Case(
        name="failure in the rescue",
        tasks="- block:\n  - fail: {msg: one}\n  rescue:\n  - fail: {msg: two}\n",
        outcome=FAILED,
        message="two",
    ),
    Case(
        name="ignored errors",
        tasks="- command: 'false'\n  ignore_errors: true\n- command: 'true'",
        statuses="failed changed",
    ),
    Case(
        name="failed_when and changed_when",
        tasks="- command: 'false'\n  failed_when: false\n  changed_when: false",
        statuses="ok",
    ),
    Case(
        name="include_tasks beside the task file",
        tasks="- include_tasks: sub/more.yml\n  vars: {word: in}\n",
        last="in the included file",
    ),
    Case(
        name="include_tasks of a missing file",
        tasks="- include_tasks: sub/none.yml\n",
        outcome=FAILED,
        message="sub/none.yml",
    ),
    Case(
        name="include_role with handlers",
        tasks="- include_role: {name: notifier}\n- meta: flush_handlers\n",
        last="handled",
    ),
    Case(name="role", action=Role(name="notifier"), last="handled"),
    Case(
        name="missing role",
        action=Role(name="no.such_role"),
        outcome=FAILED,
        message="no.such_role",
    ),
    Case(
        name="until and retries",
        tasks=(
            "- tempfile: {state: directory}\n  register: dir\n"
            "- shell: 'echo x >> {{ dir.path }}/n; wc -l < {{ dir.path }}/n'\n"
            "  register: out\n  until: out.stdout | int >= 3\n  retries: 5\n  delay: 0\n"
            "- file: {path: '{{ dir.path }}', state: absent}\n"
        ),
        statuses="changed changed changed",
    ),
    Case(
        name="loop with one failing item",
        tasks="- shell: '{{ item }}'\n  loop: ['true', 'echo bad >&2; exit 4', 'true']",
        outcome=FAILED,
        message="non-zero return code.*bad",
    ),
    Case(name="skipped", tasks="- command: 'false'\n  when: false", statuses="skipped"),
    Case(
        name="delegate_to and run_once",
        tasks="- command: echo {{ inventory_hostname }}\n  delegate_to: h2\n  run_once: true",
        last="h1",
    ),
    Case(
        name="delegate_to a host that cannot be reached is a failure of the task",
        tasks="- ping:\n  delegate_to: closed",
        outcome=FAILED,
        message="closed|127.0.0.1",
        plain_outcome=UNREACHABLE,
    ),
    Case(
        name="unreachable",
        tasks="- ping:",
        host="closed",
        outcome=UNREACHABLE,
        message="(?i)connection refused",
        statuses="unreachable",
    ),
    Case(
        name="ignore_unreachable",
        tasks="- ping:\n  ignore_unreachable: true\n- set_fact: {cob_state: down}",
        host="closed",
        check=True,
        state="down",
    ),
    Case(
        name="what looks like a template in the spec is text",
        tasks="- assert: {that: [\"cob.spec.text == '{' ~ '{ 1 + 1 }' ~ '}'\"]}\n"
        "- debug: {msg: '{{ cob.spec.text }}'}",
        spec={"text": "{{ 1 + 1 }}"},
        last="{{ 1 + 1 }}",
    ),
    Case(
        name="awkward values arrive as they are",
        tasks="- assert: {that: cob.spec == expected and cob.applied is none}\n"
        f"  vars: {{expected: {json.dumps(AWKWARD)}}}\n",
        spec=AWKWARD,
    ),
    Case(
        name="vaulted spec is decrypted on use",
        tasks="- assert: {that: [cob.spec.password == expected], quiet: true}\n"
        f"  vars: {{expected: {SECRET}}}\n",
        spec={"password": {"__ansible_vault": ""}},
    ),
    Case(
        name="vaulted host variable is decrypted on use",
        tasks=f"- assert: {{that: [vaulted == expected]}}\n  vars: {{expected: {SECRET}}}\n",
    ),
    Case(
        name="no_log",
        tasks="- shell: echo secret-word; exit 1\n  no_log: true",
        outcome=FAILED,
        message="no_log",
    ),
    Case(
        name="no_log on items",
        tasks="- shell: echo {{ item }} secret-word; exit 1\n  no_log: true\n  loop: [a, b]",
        outcome=FAILED,
        message="no_log",
    ),
    Case(
        name="host variables are templates",
        tasks="- assert: {that: [greeting == 'hello h1']}",
    ),
    Case(
        name="what is unsafe in host variables is no template",
        tasks="- debug: {msg: '{{ unsafe.deep[0] }}'}",
        last="{{ 1 + 1 }}",
    ),
    Case(
        name="files beside the task file are found",
        tasks="- debug: {msg: \"{{ lookup('file', 'beside.txt') }}\"}",
        last="I stand beside",
    ),
    Case(
        name="groups and hostvars",
        tasks="- assert:\n    that:\n    - groups.app == ['h1', 'h2']\n"
        "    - hostvars.h2.greeting == 'hello h2'\n",
    ),
    Case(name="fail module", tasks="- fail: {msg: no way}", outcome=FAILED, message="no way"),
    Case(name="prompt is not waited for", tasks="- pause: {prompt: really}", statuses="ok"),
    Case(
        name="modules that run on this side",
        tasks=(
            "- tempfile: {state: directory}\n  register: dir\n"
            "- copy: {content: '{{ cob.spec.x }}', dest: '{{ dir.path }}/a', mode: '0600'}\n"
            "- template: {src: beside.txt, dest: '{{ dir.path }}/b'}\n"
            "- command: cat a b\n  args: {chdir: '{{ dir.path }}'}\n  register: cat\n"
            "- file: {path: '{{ dir.path }}', state: absent}\n"
            "- debug: {var: cat.stdout}\n- debug: {msg: '{{ cat.stdout }}'}\n"
        ),
        spec={"x": "{{ y }}"},
        last="{{ y }}I stand beside",
    ),
    Case(
        name="task timeout",
        tasks="- command: sleep 30\n  timeout: 1",
        outcome=FAILED,
        message="Timed out after 1 second",
    ),
    Case(
        name="async with poll",
        tasks="- command: 'true'\n  async: 30\n  poll: 1\n",
        statuses="changed",
    ),
    Case(name="end_play", tasks="- command: 'true'\n- meta: end_play\n- fail:"),
    Case(
        name="long output is bounded",
        tasks="- shell: head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1",
        outcome=FAILED,
        message=r"^.{100,700}$",
    ),
)

ROLE = {
    "tasks/main.yml": "- command: 'true'\n  notify: handle it\n",
    "handlers/main.yml": "- name: handle it\n  debug: {msg: handled}\n",
}


def _vaulted(folder: Path) -> str:
    password = folder / "password"
    password.write_text(PASSWORD)
    done = subprocess.run(
        [ansible_tool("ansible-vault"), "encrypt_string", "--vault-password-file", str(password)],
        input=SECRET,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    return "\n".join(line.strip() for line in lines if not line.startswith("!vault")) + "\n"


def _prepare(folder: Path) -> dict[str, Host]:
    for name, text in ROLE.items():
        path = folder / "roles" / "notifier" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (folder / "sub").mkdir()
    (folder / "sub" / "more.yml").write_text("- debug: {msg: '{{ word }} the included file'}\n")
    (folder / "beside.txt").write_text("I stand beside")
    (folder / "site").mkdir()
    (folder / "work").mkdir()
    cipher = {"__ansible_vault": _vaulted(folder)}
    (folder / "site" / "ansible.cfg").write_text(
        f"[defaults]\nvault_password_file = {folder / 'password'}\n"
        "callbacks_enabled = ansible.builtin.tree\n"
    )
    variables = {
        **LOCAL,
        "greeting": "hello {{ inventory_hostname }}",
        "vaulted": cipher,
        "unsafe": {"deep": [{"__ansible_unsafe": "{{ 1 + 1 }}"}]},
    }
    hosts = {name: Host(name=name, groups=("app",), variables=variables) for name in ("h1", "h2")}
    return {**hosts, "closed": Host(name="closed", variables=CLOSED)}


def _spec(case: Case, cipher: Any) -> dict[str, Any]:
    return {key: cipher if key == "password" else value for key, value in case.spec.items()}


def _jobs(folder: Path, cipher: Any) -> Iterator[Job]:
    for number, case in enumerate(CASES):
        action = case.action
        if action is None:
            path = folder / f"case-{number}.yml"
            path.write_text(case.tasks + "\n", encoding="utf-8")
            action = Tasks(path=str(path))
        spec = _spec(case, cipher)
        yield Job(
            number=number,
            kind=JobKind.CHECK if case.check else JobKind.TRANSITION,
            cob=cob_id(case.host, "a"),
            host=case.host,
            type_name="simple",
            action=action,
            cob_vars={"id": f"{case.host}/a", "spec": spec, "applied": None},
        )


def _run_all(kind: type[Executor], folder: Path) -> dict[str, Report]:
    hosts = _prepare(folder)
    executor = kind()
    executor.open(
        ExecutorSetting(
            hosts=hosts,
            site_dir=folder / "site",
            work_dir=folder / "work",
            parallel=4,
            timeout_s=120,
            roles_path=(folder / "roles",),
        )
    )
    reports: dict[int, Report] = {}
    try:
        for job in _jobs(folder, hosts["h1"].variables["vaulted"]):
            executor.submit(job)
        while len(reports) < len(CASES):
            reports |= {report.number: report for report in executor.wait(None)}
    finally:
        executor.close(kill=True)
    return {case.name: reports[number] for number, case in enumerate(CASES)}


@pytest.fixture(scope="module")
def lanes_reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    return _run_all(AnsibleExecutor, tmp_path_factory.mktemp("lanes"))


@pytest.fixture(scope="module")
def plain_reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    return _run_all(AnsiblePlainExecutor, tmp_path_factory.mktemp("plain"))


def _verify(case: Case, report: Report) -> None:
    assert report.outcome == case.outcome, report
    assert report.state == case.state
    assert re.search(case.message, report.message), report.message
    assert report.began == case.began
    assert "\n" not in report.message
    assert "secret-word" not in str(report)
    assert SECRET not in str(report)
    if case.statuses:
        assert " ".join(task.status for task in report.tasks) == case.statuses
    if case.last:
        assert report.tasks[-1].message == case.last


@pytest.mark.gate("the first has all cases carried out by Ansible itself")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_report_of_the_executor_ansible(case: Case, lanes_reports: dict[str, Report]) -> None:
    """The report says what the case says."""
    _verify(case, lanes_reports[case.name])


@pytest.mark.full(
    "two minutes of ansible-playbook; the executor `ansible` has all cases in the gate"
)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_report_of_the_executor_ansible_plain(case: Case, plain_reports: dict[str, Report]) -> None:
    """The report says what the case says, but for what events do not tell."""
    expected = replace(case, outcome=case.plain_outcome or case.outcome)
    _verify(expected, plain_reports[case.name])


def test_ssh_is_there_for_the_unreachable_cases() -> None:
    """The cases with a closed port need an ssh client (Debian: openssh-client)."""
    assert shutil.which("ssh")
