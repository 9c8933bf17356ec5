"""Carry out the task files of a built-in type, by a real ansible-playbook or module by module."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cobweb.model import CobType, Tasks
from cobweb.plugin import data_dir

PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_tasks: "{{ cobweb_test_tasks }}"
    - ansible.builtin.copy:
        content: "{{ cob_state | default('') }}"
        dest: "{{ cobweb_test_answer }}"
"""
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a task file ended: `state` of a check, and what Ansible printed."""

    ok: bool
    state: str
    output: str


@dataclass(slots=True)
class OneCob:
    """A COB on localhost whose checks and transitions can be run one by one."""

    type: CobType
    folder: Path
    spec: Mapping[str, Any]
    applied: Mapping[str, Any] | None = None
    host: str = "h1"
    name: str = "thing"
    environment: dict[str, str] = field(default_factory=dict)

    def check(self) -> str:
        """Return the state; the check must end well."""
        ran = self.run(self.type.check)
        assert ran.ok, ran.output
        return ran.state

    def move(self, source: str, dest: str) -> Ran:
        """Carry out one transition."""
        step = self.type.transition(source, dest)
        assert step is not None
        return self.run(step.action, state=source, target=dest)

    def go(self, source: str, dest: str) -> None:
        """Carry out one transition, which must end well and lead to `dest`."""
        ran = self.move(source, dest)
        assert ran.ok, ran.output
        assert self.check() == dest

    def run(self, action: object, *, state: str = "unknown", target: str = "up") -> Ran:
        """Run a task file with the variable `cob` as an executor would."""
        assert isinstance(action, Tasks)
        answer = self.folder / "answer"
        answer.unlink(missing_ok=True)
        (self.folder / "play.yml").write_text(PLAYBOOK, encoding="utf-8")
        variables = self._variables(action, answer, state, target)
        text = yaml.dump({"all": {"hosts": {self.host: variables}}}, Dumper=_Dumper)
        (self.folder / "hosts.yml").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [str(ANSIBLE), "-i", "hosts.yml", "play.yml"],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        found = answer.read_text(encoding="utf-8") if answer.exists() else ""
        return Ran(ok=done.returncode == 0, state=found, output=done.stdout + done.stderr)

    def _variables(self, action: Tasks, answer: Path, state: str, target: str) -> dict[str, Any]:
        cob = {
            "id": f"{self.host}/{self.name}",
            "name": self.name,
            "host": self.host,
            "type": self.type.name,
            "spec": self.spec,
            "applied": self.applied,
            "state": state,
            "target": target,
            "generation": 1,
        }
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "cobweb_test_tasks": action.path,
            "cobweb_test_answer": str(answer),
            "cob": _Untrusted(cob),
        }

    def _environment(self) -> dict[str, str]:
        playbooks = Path(str(data_dir("playbooks")))
        return {
            **os.environ,
            "ANSIBLE_LIBRARY": str(playbooks / "library"),
            "ANSIBLE_MODULE_UTILS": str(playbooks / "module_utils"),
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.folder / ".ansible"),
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            **self.environment,
        }


class Vaulted(str):
    """A text that Ansible shall decrypt."""

    __slots__ = ()


class _Untrusted(dict[str, Any]):
    """A mapping whose texts Ansible must not take for templates."""


class _Dumper(yaml.SafeDumper):
    """Writes the two kinds of values above with the tags of Ansible."""


_Dumper.add_representer(
    _Untrusted, lambda dumper, data: dumper.represent_mapping("!unsafe", dict(data))
)
_Dumper.add_representer(
    Vaulted, lambda dumper, text: dumper.represent_scalar("!vault", str(text), style="|")
)


def digest_of(folder: Path) -> str:
    """Name everything in a folder: paths, kinds, modes, times of change and contents."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        digest.update(f"{path} {found.st_mode} {found.st_mtime_ns} {found.st_ino}".encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()
