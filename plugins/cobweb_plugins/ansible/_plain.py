"""The executor `ansible-plain`: one ansible-playbook per job, on public interfaces.

The one exception is the guard of environments (`strategy/cobweb_environment.py`).

Slower (a second and more of processor time per job) and plainer: for versions of ansible-core that
the executor `ansible` was not tested with. Each command runs under a guard that ends it when the
coordinator is gone; what the tasks did comes from ansible-runner's events. These do not say that a
task was delegated: where the other host cannot be reached, the job counts as unreachable itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from cobweb.model import Action, Job, JobKind, Outcome, Report, Role, Tasks
from cobweb_plugins.ansible._base import BaseExecutor
from cobweb_plugins.ansible._facts import subsets_of
from cobweb_plugins.ansible._hub import Connection
from cobweb_plugins.ansible._jobs import cancelled, ended, failed, timed_out
from cobweb_plugins.ansible._processes import end_ssh_masters
from cobweb_plugins.ansible._results import (
    EVENTS,
    MARK_TASK,
    SAY_FACTS,
    Collector,
    TaskEnd,
    facts_of,
)
from cobweb_plugins.ansible._runner import Command, RunnerThread, installed_version
from cobweb_plugins.ansible._sweep import END_VARIABLE, end_tasks
from cobweb_plugins.ansible._workspace import Workspace, fresh_arguments

MEMORY_BYTES = 384 << 20
"""How much the processes of a job may take each that has to do with another host.

That is a lane's bound, and what Ansible itself takes. What the connection collects it copies again
and again, so that twice as much would take four times as long.
"""

OnEnd = Callable[[], None]
UNSAFE_MARK = "__ansible_unsafe"
VAULT_MARK = "__ansible_vault"
SSH_ARGS_VARIABLE = "ansible_ssh_args"
FIRST_VARIABLE = "cobweb_first"
FIRST = {
    "name": MARK_TASK,
    "ansible.builtin.raw": "{{ " + FIRST_VARIABLE + " }}",
    "args": {"executable": "/bin/sh"},
    "changed_when": False,
}
"""The task before all others: a script that is no template."""


class AnsiblePlainExecutor(BaseExecutor):
    """Runs task files and roles through Ansible, each job in a process of its own."""

    name: ClassVar[str] = "ansible-plain"

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[int, _Run] = {}
        self._guards: dict[int, Connection] = {}

    def _check_installed(self) -> None:
        installed_version()

    def _opened(self, workspace: Workspace) -> None:
        self._files = workspace
        self._hub.listen(workspace.socket)

    def _running(self) -> bool:
        return bool(self._runs)

    def _deadlines(self) -> Iterable[float]:
        return (run.deadline for run in self._runs.values() if not run.stopped)

    def _dispatch(self) -> None:
        while self._queue and len(self._runs) < self._setting.parallel:
            job = self._queue.popleft()
            deadline = time.monotonic() + self._timeout(job)
            command = self._command(job)
            self._runs[job.number] = _Run(job, command, deadline=deadline, on_end=self._hub.ping)

    def _command(self, job: Job) -> Command:
        files = self._files
        name = f"job-{job.number}"
        known = {"cob": _text_only(job.cob_vars)}
        play = self._play(job)
        if first := self._first(job):
            known[FIRST_VARIABLE] = _text_only(first)
            play["pre_tasks"] = [FIRST]
        mark = self._mark(job.number)
        if end := self._ends.get(job.number, ""):
            known[END_VARIABLE] = _text_only(end)
            play["tasks"] = end_tasks()
            mark = ""
        variables = files.playbook(f"{name}.json", known)
        playbook = files.playbook(f"{name}.yml", [play])
        mode = ("--check",) if getattr(job.action, "finds", ()) else ()
        arguments = (*mode, *self._more_inventory(job), "-e", f"@{variables}", str(playbook))
        memory = 0 if self._is_here(job) else MEMORY_BYTES
        command = files.command(job.number, *arguments, ident=name, memory=memory, mark=mark)
        more = {**self._with_facts(job), **self._with_role(job.action, command.environment)}
        return replace(command, environment={**command.environment, **more})

    def _with_facts(self, job: Job) -> dict[str, str]:
        """Return the settings by which jobs that ask for the same facts share them."""
        subsets = _subsets(job.action)
        if not subsets:
            return {}
        asked = json.dumps([subsets, job.host_vars], sort_keys=True, default=dict)
        folder = self._files.data / f"facts-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"
        return {"ANSIBLE_GATHERING": "smart", **self._files.fact_cache(folder)}

    @staticmethod
    def _with_role(action: Action, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the setting by which a role that is given by its path is found by its name."""
        if not isinstance(action, Role) or not action.name.startswith("/"):
            return {}
        folders = (str(Path(action.name).parent), environment["ANSIBLE_ROLES_PATH"])
        return {"ANSIBLE_ROLES_PATH": os.pathsep.join(folders)}

    def _is_here(self, job: Job) -> bool:
        return self._setting.hosts[job.host].variables.get("ansible_connection") == "local"

    def _more_inventory(self, job: Job) -> tuple[str, ...]:
        """Return the arguments by which the host has the variables that were handed back."""
        if not job.host_vars:
            return ()
        hosts = {job.host: _text_only(job.host_vars)}
        path = self._files.playbook(f"job-{job.number}-hosts.yml", {"all": {"hosts": hosts}})
        return ("-i", str(path))

    def _play(self, job: Job) -> dict[str, Any]:
        """Return the play of a job; what the site says of the host counts above facts of modules.

        Not variables of the connection: of these Ansible takes no facts, and delegated hosts have
        their own.
        """
        known = self._setting.hosts[job.host].variables
        own = {key: it for key, it in known.items() if not key.startswith("ansible_")}
        if job.fresh:
            variables = {**known, **job.host_vars}
            arguments = variables.get(SSH_ARGS_VARIABLE, self._files.ssh_arguments())
            own[SSH_ARGS_VARIABLE] = fresh_arguments(arguments)
        return {**_play(job), "vars": own}

    def _hear(self) -> None:
        for connection, hello in self._hub.take_hellos():
            run = self._runs.get(hello["number"])
            self._guards[hello["number"]] = connection
            if run is not None:
                run.guard = hello["pid"]
                if run.stop_report is not None:
                    self._doom(run.guard, partial(self._report, run.stop_report))
                    run.stop_report = None
        for number, guard in tuple(self._guards.items()):
            if guard.lost:
                self._hub.remove(self._guards.pop(number))
        for number, run in tuple(self._runs.items()):
            if run.thread.ended:
                del self._runs[number]
                if report := run.report():
                    is_lost = report.outcome is Outcome.UNREACHABLE and not self._is_here(run.job)
                    self._reports.append(replace(report, at_work=is_lost))

    def _expire(self, now: float) -> None:
        for run in self._runs.values():
            if now >= run.deadline and not run.stopped:
                self._stop(run, timed_out(run.job, self._timeout(run.job)))

    def _stop_all(self) -> None:
        for run in self._runs.values():
            if not run.stopped:
                self._stop(run, cancelled(run.job, began=True))

    def _stop(self, run: _Run, report: Report) -> None:
        """End a run, now or as soon as its guard has said who it is; nobody looks on its host."""
        run.stopped = True
        report = replace(report, at_work=not self._is_here(run.job))
        if run.guard:
            self._doom(run.guard, partial(self._report, report))
        else:
            run.stop_report = report

    def _end(self) -> None:
        self._hub.deafen()
        end_ssh_masters(self._files.sockets / "cp")


class _Run:
    """One job in its process; `guard` is the pid of the process above it, 0 until it is known."""

    def __init__(self, job: Job, command: Command, *, deadline: float, on_end: OnEnd) -> None:
        self.job = job
        self.deadline = deadline
        self.guard = 0
        self.stopped = False
        self.stop_report: Report | None = None
        self._collector = Collector()
        self._nothing_matched = False
        self.thread = RunnerThread(command, on_end=on_end, on_event=self._event)

    def _event(self, event: Mapping[str, Any]) -> None:
        kind = event.get("event", "")
        if kind == "playbook_on_no_hosts_matched":
            self._nothing_matched = True
        last = kind.removeprefix("runner_on_")
        if last not in EVENTS or last == kind:
            return
        data = event.get("event_data", {})
        result = data.get("res") or {}
        task = data.get("task") or data.get("task_action") or ""
        self._collector.add(
            TaskEnd(
                event=last,
                name=str(task),
                result=result,
                changed=bool(result.get("changed")),
                ignored=bool(data.get("ignore_errors")),
                facts=facts_of(result),
                says=data.get("task_action") in SAY_FACTS,
            )
        )

    def report(self) -> Report | None:
        """Return the report of the ended run; None where its stop is reported elsewhere."""
        if self.stopped:
            return self.stop_report
        if self._nothing_matched:
            return failed(self.job, f"Ansible does not know the host {self.job.host}")
        if self.thread.code != 0 and not self._collector.failure:
            return failed(self.job, self.thread.problem())
        fields = self._collector.end(
            ok=self.thread.code == 0,
            check=self.job.kind is JobKind.CHECK,
            finds=getattr(self.job.action, "finds", ()),
            recorded=self.job.cob_vars.get("recorded"),
        )
        return ended(self.job, fields)


def _play(job: Job) -> dict[str, Any]:
    subsets = _subsets(job.action)
    play: dict[str, Any] = {"name": "cobweb", "hosts": [job.host], "gather_facts": bool(subsets)}
    if subsets:
        play["gather_subset"] = subsets
    if isinstance(job.action, Role):
        name = job.action.name
        role = Path(name).name if name.startswith("/") else name  # its folder is searched first
        return {**play, "roles": [{"role": role, "vars": job.action.vars}]}
    if not isinstance(job.action, Tasks):
        return play
    return {**play, "tasks": [{"ansible.builtin.import_tasks": {"file": job.action.path}}]}


def _subsets(action: Action) -> list[str]:
    """Return the facts that an action asks for."""
    return subsets_of(action.facts) if isinstance(action, Tasks | Role) else []


def _text_only(value: object) -> object:
    """Mark all text but vault marks as what Ansible must not take for a template."""
    match value:
        case str():
            return {UNSAFE_MARK: value}
        case Mapping():
            if set(value) == {VAULT_MARK}:
                return dict(value)
            return {key: _text_only(item) for key, item in value.items()}
        case list() | tuple():
            return [_text_only(item) for item in value]
        case _:
            return value
