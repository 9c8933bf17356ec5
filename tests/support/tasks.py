"""Carry out the task files of a built-in type by the real executor, one job at a time."""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cobweb.model import Action, CobType, Host, Job, JobKind, Outcome, Report, cob_id
from cobweb.plugin import (
    Executor,
    ExecutorSetting,
    RegisteredType,
    data_dir,
    load_plugins,
    type_file,
)

HOST = "h1"
TIMEOUT_S = 150.0
VAULT_PASSWORD = "correct horse"  # noqa: S105 - of the tests' own vault


class Carrier(Protocol):
    """What carries out jobs."""

    def carry_out(self, job: Mapping[str, Any]) -> Report:
        """Run one job, given all of it but its number, and return its report."""


@dataclass(slots=True)
class Hand:
    """An executor with one local host, and the numbers of its jobs."""

    executor: Executor
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def carry_out(self, job: Mapping[str, Any]) -> Report:
        """Run one job and return its report."""
        self.executor.submit(Job(number=next(self.numbers), **job))
        (report,) = self.executor.wait(None)
        return report


def built_in(name: str) -> CobType:
    """Return a built-in type."""
    return load_plugins().types[name]


def registered(name: str) -> type[RegisteredType]:
    """Return the class that registers a built-in type."""
    return type_file(Path(str(data_dir("playbooks"))) / name / "type.yml")


@contextmanager
def opened_hand(folder: Path) -> Iterator[Hand]:
    """Open the executor in a folder of its own; it can decrypt with `VAULT_PASSWORD`."""
    site, work = folder / "site", folder / "work"
    site.mkdir()
    work.mkdir()
    (site / "password").write_text(VAULT_PASSWORD, encoding="utf-8")
    config = "[defaults]\nvault_password_file = ./password\n"
    (site / "ansible.cfg").write_text(config, encoding="utf-8")
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    executor = load_plugins().executors["ansible"]()
    setting = ExecutorSetting(
        hosts={HOST: Host(name=HOST, variables=variables)},
        site_dir=site,
        work_dir=work,
        parallel=1,
        timeout_s=TIMEOUT_S,
    )
    executor.open(setting)
    try:
        yield Hand(executor)
    finally:
        executor.close()


@dataclass(slots=True)
class OneCob:
    """A COB whose checks and transitions are run one by one."""

    type: CobType
    hand: Carrier
    spec: Mapping[str, Any]
    applied: Mapping[str, Any] | None = None
    host: str = HOST
    name: str = "thing"
    words: Mapping[str, Any] = field(default_factory=dict)
    """More of what tasks see."""

    def check(self) -> str:
        """Return the state; the check must end well."""
        report = self._run(self.type.check, JobKind.CHECK)
        assert report.outcome is Outcome.OK, report
        return report.state

    def failing_check(self) -> str:
        """Return why the check fails."""
        report = self._run(self.type.check, JobKind.CHECK)
        assert report.outcome is Outcome.FAILED, report
        return report.message

    def move(self, source: str, dest: str) -> Report:
        """Carry out one transition."""
        step = self.type.transition(source, dest)
        assert step is not None
        return self._run(step.action, JobKind.TRANSITION, source, dest)

    def go(self, source: str, dest: str) -> None:
        """Carry out one transition, which must end well and lead to `dest`."""
        report = self.move(source, dest)
        assert report.outcome is Outcome.OK, report
        assert self.check() == dest

    def _run(self, action: Action, kind: JobKind, source: str = "", dest: str = "") -> Report:
        cob = cob_id(self.host, self.name)
        cob_vars = {
            "id": cob,
            "name": self.name,
            "host": self.host,
            "type": self.type.name,
            "spec": self.spec,
            "applied": self.applied,
            "state": source or "unknown",
            "target": dest or self.type.preferred,
            "generation": "1",
            **self.words,
        }
        job = {"kind": kind, "action": action, "source": source, "dest": dest, "cob": cob}
        more = {"host": self.host, "type_name": self.type.name, "cob_vars": cob_vars}
        return self.hand.carry_out({**job, **more})


def vaulted(text: str) -> dict[str, str]:
    """Return the mark of a text that Ansible shall decrypt."""
    from ansible.parsing.vault import VaultLib, VaultSecret

    secret = VaultSecret(VAULT_PASSWORD.encode())
    encrypted: bytes = VaultLib([("default", secret)]).encrypt(text, secret)
    return {"__ansible_vault": encrypted.decode()}


def digest_of(folder: Path) -> str:
    """Name everything in a folder: paths, kinds, modes, times of change and contents."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        digest.update(f"{path} {found.st_mode} {found.st_mtime_ns} {found.st_ino}".encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()
