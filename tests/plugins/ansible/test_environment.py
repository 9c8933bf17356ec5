"""A vaulted value in the `environment` of a task is refused before it is on a command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cobweb.model import Host, Outcome
from cobweb.plugin import Executor
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor
from cobweb_plugins.ansible._workspace import ansible_tool
from tests.plugins.ansible.conftest import BOTH, PLAIN, MakeBench

pytestmark = [pytest.mark.full("three ways to an environment by Ansible itself")]

CANARY = "canary-in-the-vault"
TOLD = "the `environment` of this task uses a vaulted value"
COMMAND = "- ansible.builtin.command: {cmd: touch ran}\n"
BLOCK = "- environment: {P: '{{ cob.spec.pw }}'}\n  block:\n    - command: touch ran\n"
FACT = """
- set_fact: {made: '{{ cob.spec.pw }}'}
- command: touch ran
  environment: {P: '{{ made }}'}
"""
LONGER = FACT.replace("'{{ cob.spec.pw }}'", "'pw={{ cob.spec.pw }};'")
LOOP = "- command: touch ran\n  loop: ['{{ cob.spec.pw }}']\n  environment: {P: '{{ item }}'}\n"
COPY = "- copy: {content: x, dest: ran}\n  environment: {P: '{{ cob.spec.pw }}'}\n"
USES = {
    "a spec": "{P: '{{ cob.spec.pw }}'}",
    "a variable of the host": "{P: '{{ host_pw }}'}",
    "a variable by another way": "{P: '{{ hostvars.h1.host_pw }}'}",
    "a longer text": "{P: 'user:{{ cob.spec.pw }}@host'}",
    "an encoding": "{P: '{{ cob.spec.pw | b64encode }}'}",
    "an expression": "{P: '{{ cob.spec.pw.upper() }}'}",
    "a list": "[{A: b}, {P: '{{ cob.spec.pw }}'}]",
    "a whole mapping": "'{{ cob.spec.env }}'",
}
TASKS = {
    **{name: f"{COMMAND}  environment: {text}\n" for name, text in USES.items()},
    "a block": BLOCK,
    "a fact": FACT,
    "a fact with more": LONGER,
    "a loop": LOOP,
    "an action of two modules": COPY,
}


@pytest.fixture
def vaulted(tmp_path: Path) -> dict[str, str]:
    """Return the mark of the vaulted canary, for a site that has the password."""
    (tmp_path / "password").write_text("open sesame", encoding="utf-8")
    config = f"[defaults]\nvault_password_file = {tmp_path / 'password'}\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "ansible.cfg").write_text(config, encoding="utf-8")
    password = ("--vault-password-file", str(tmp_path / "password"))
    done = subprocess.run(
        [ansible_tool("ansible-vault"), "encrypt_string", *password],
        input=CANARY,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.strip() for line in done.stdout.splitlines() if not line.startswith("!vault")]
    return {"__ansible_vault": "\n".join(lines) + "\n"}


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (AnsibleExecutor, tuple(TASKS)),
        pytest.param(
            *(AnsiblePlainExecutor, ("a spec", "a fact with more")),
            marks=PLAIN.marks,
        ),
    ],
)
def test_a_vaulted_value_in_an_environment_is_refused(
    make_bench: MakeBench,
    local: dict[str, str],
    vaulted: dict[str, str],
    kind: type[Executor],
    names: tuple[str, ...],
) -> None:
    own = {**local, "host_pw": vaulted}
    bench = make_bench(kind, inventory={"h1": Host(name="h1", variables=own)})
    ran = bench.folder / "ran"
    spec = {"pw": vaulted, "env": {"P": vaulted}}
    for name in names:
        task = bench.tasks("use.yml", TASKS[name].replace("ran", str(ran)))
        (report,) = bench.run(bench.job(task, spec=spec))
        assert (report.outcome, TOLD in report.message) == (Outcome.FAILED, True), (name, report)
        assert CANARY not in str(report)
        assert not ran.exists()


@BOTH
def test_what_is_not_vaulted_may_be_in_an_environment(
    make_bench: MakeBench, local: dict[str, str], vaulted: dict[str, str], kind: type[Executor]
) -> None:
    bench = make_bench(kind, inventory={"h1": Host(name="h1", variables=local)})
    text = """
- shell: test "$P" = plain && test "$(cat)" = '{{ cob.spec.pw }}'
  args: {stdin: '{{ cob.spec.pw }}'}
  environment: {P: '{{ cob.spec.user }}'}
  when: cob.spec.pw is defined
"""
    spec = {"pw": vaulted, "user": "plain"}
    (report,) = bench.run(bench.job(bench.tasks("use.yml", text), spec=spec))
    assert report.outcome is Outcome.OK, report


OLDER = """
import sys
sys.modules["cobweb_plugins.ansible.strategy.cobweb_vaulted"] = None
from ansible.errors import AnsibleError
from ansible.playbook.task import Task
from cobweb_plugins.ansible.strategy.cobweb_environment import guard_environment
Task._post_validate_environment = lambda task, attr, value, templar: value
guard_environment()
guard_environment()
for value in ([], [{"A": "b", "C": 1}], [{"A": "{{ b }}"}], ["{{ a }}"], [{"A": object()}]):
    try:
        Task._post_validate_environment(None, None, value, None)
        print("ok")
    except AnsibleError as error:
        print(str(error)[:12])
"""


def test_where_use_is_not_told_templates_are_refused() -> None:
    """As where the module cannot be imported that listens for it: another version of Ansible."""
    done = subprocess.run([sys.executable, "-c", OLDER], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["ok", "ok", *["with this ver"[:12]] * 3, ""]
