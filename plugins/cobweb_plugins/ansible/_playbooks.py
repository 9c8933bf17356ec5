"""Plays that have an ansible-playbook of their own: of one job, or of jobs that go together.

Both executors have them. Each command runs under a guard that ends it when the coordinator is gone;
what the tasks did comes from ansible-runner's events. These do not say that a task was delegated:
where the other host cannot be reached, the job counts as unreachable itself.

Jobs that go together are one play, as Ansible has it: `run_once`, `throttle`, `ansible_play_hosts`
mean what they mean there. A last task of ours says which hosts came to its end: where one host
stops the play, the others have not failed, and have not done what they were to do either.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cobweb.model import Action, Job, JobKind, Outcome, Report, Role, Tasks, name_of
from cobweb_plugins.ansible._base import BaseExecutor
from cobweb_plugins.ansible._facts import subsets_of
from cobweb_plugins.ansible._hub import Connection
from cobweb_plugins.ansible._jobs import cancelled, ended, failed, timed_out
from cobweb_plugins.ansible._processes import end_ssh_masters
from cobweb_plugins.ansible._results import (
    END_TASK,
    EVENTS,
    MARK_TASK,
    SAY_FACTS,
    Collector,
    TaskEnd,
    bounded,
    facts_of,
)
from cobweb_plugins.ansible._runner import Command, RunnerThread
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
PLAY_VARIABLE = "cobweb_play"
"""What each host of a play is given, by its name."""
OWN = "{{ " + PLAY_VARIABLE + "[inventory_hostname].%s }}"
FIRST = {
    "name": MARK_TASK,
    "ansible.builtin.raw": OWN % "first",
    "args": {"executable": "/bin/sh"},
    "when": f"{PLAY_VARIABLE}[inventory_hostname].first | length > 0",
    "changed_when": False,
}
"""The task before all others: a script that is no template."""
LAST = {"name": END_TASK, "ansible.builtin.debug": {"msg": ""}}


class PlaybookExecutor(BaseExecutor):
    """Runs plays in processes of their own: what both executors have for jobs that go together."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[int, _Run] = {}
        self._guards: dict[int, Connection] = {}
        self._gathered: dict[tuple[Any, ...], list[Job]] = {}
        self._plays: deque[Sequence[Job]] = deque()

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Serve all connections, as `BaseExecutor` does; what goes together is whole by now."""
        if self._gathered:
            self._plays.extend(self._gathered.values())
            self._gathered.clear()
            self._dispatch()
        return super().wait(timeout_s)

    def close(self, *, kill: bool = False) -> None:
        """End all, as `BaseExecutor` does; plays that wait are never begun."""
        for jobs in (*self._plays, *self._gathered.values()):
            self._queue.extend(jobs)
        self._plays.clear()
        self._gathered.clear()
        super().close(kill=kill)

    def _take(self, job: Job) -> None:
        if self._closed or job.fresh or not getattr(job.action, "together", False):
            super()._take(job)
        else:
            key = (job.type_name, name_of(job.cob), job.kind, job.source, job.dest)
            self._gathered.setdefault(key, []).append(job)

    def _opened(self, workspace: Workspace) -> None:
        self._space = workspace
        self._hub.listen(workspace.socket)

    def _dispatch_plays(self) -> None:
        """Start the plays of jobs that go together, as far as there is room."""
        while self._plays and len(self._runs) < self._setting.parallel:
            self._start_run(*self._in_order(self._plays.popleft()))

    def _in_order(self, jobs: Iterable[Job]) -> list[Job]:
        """Return jobs in the order that their hosts have in the smallest group of all of them.

        So the first one is who it is for Ansible in a play of this group: who does what is done
        once.
        """
        by_host = {job.host: job for job in jobs}
        groups = (it for it in self._setting.groups.values() if by_host.keys() <= {*it})
        order = min(groups, key=len, default=[*by_host])
        return [by_host[host] for host in order if host in by_host]

    def _start_run(self, *jobs: Job) -> None:
        """Start the play of some jobs, which is known by the number of the first."""
        lead = jobs[0].number
        limit_s = max(map(self._timeout, jobs)) * math.ceil(len(jobs) / self._setting.parallel)
        self._leads |= dict.fromkeys((job.number for job in jobs), lead)
        command = self._command(jobs)
        self._runs[lead] = _Run(jobs, command, limit_s=limit_s, on_end=self._hub.ping)

    def _running(self) -> bool:
        return bool(self._runs or self._plays)

    def _deadlines(self) -> Iterable[float]:
        return (run.deadline for run in self._runs.values() if not run.stopped)

    def _command(self, jobs: Sequence[Job]) -> Command:
        lead, space = jobs[0], self._space
        name = f"job-{lead.number}"
        firsts = {job.host: self._first(job) for job in jobs}
        own = {
            job.host: {"cob": _text_only(job.cob_vars), "first": _text_only(firsts[job.host])}
            for job in jobs
        }
        known: dict[str, Any] = {PLAY_VARIABLE: own, "cob": OWN % "cob"}
        play = _play(jobs, self._fresh(lead))
        if any(firsts.values()):
            play["pre_tasks"] = [FIRST]
        mark = self._mark(lead.number)
        if end := self._ends.get(lead.number, ""):
            known[END_VARIABLE] = _text_only(end)
            play["tasks"] = end_tasks()
            mark = ""
        variables = space.playbook(f"{name}.json", known)
        playbook = space.playbook(f"{name}.yml", [play])
        mode = ["--check"] if getattr(lead.action, "finds", ()) else []
        mode += ["-f", str(min(len(jobs), self._setting.parallel))] if len(jobs) > 1 else []
        arguments = (*mode, *self._more_inventory(jobs), "-e", f"@{variables}", str(playbook))
        memory = 0 if any(map(self._is_here, jobs)) else MEMORY_BYTES
        command = space.command(lead.number, *arguments, ident=name, memory=memory, mark=mark)
        more = {**self._with_facts(jobs), **self._with_role(lead.action, command.environment)}
        return replace(command, environment={**command.environment, **more})

    def _with_facts(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Return the settings by which plays that ask for the same facts share them."""
        subsets = _subsets(jobs[0].action)
        if not subsets:
            return {}
        asked = json.dumps([subsets, *(it.host_vars for it in jobs)], sort_keys=True, default=dict)
        folder = self._space.data / f"facts-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"
        return {"ANSIBLE_GATHERING": "smart", **self._space.fact_cache(folder)}

    @staticmethod
    def _with_role(action: Action, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the setting by which a role that is given by its path is found by its name."""
        if not isinstance(action, Role) or not action.name.startswith("/"):
            return {}
        folders = (str(Path(action.name).parent), environment["ANSIBLE_ROLES_PATH"])
        return {"ANSIBLE_ROLES_PATH": os.pathsep.join(folders)}

    def _is_here(self, job: Job) -> bool:
        return self._setting.hosts[job.host].variables.get("ansible_connection") == "local"

    def _more_inventory(self, jobs: Sequence[Job]) -> tuple[str, ...]:
        """Return the arguments by which hosts have the variables that were handed back."""
        hosts = {job.host: _text_only(job.host_vars) for job in jobs if job.host_vars}
        if not hosts:
            return ()
        path = self._space.playbook(f"job-{jobs[0].number}-hosts.yml", {"all": {"hosts": hosts}})
        return ("-i", str(path))

    def _fresh(self, job: Job) -> dict[str, str]:
        """Return the variables by which a job shares no connection, if it is not to."""
        if not job.fresh:
            return {}
        variables = {**self._setting.hosts[job.host].variables, **job.host_vars}
        arguments = variables.get(SSH_ARGS_VARIABLE, self._space.ssh_arguments())
        return {SSH_ARGS_VARIABLE: fresh_arguments(arguments)}

    def _greet(self, connection: Connection, hello: Mapping[str, Any]) -> None:
        """Take the connection of the guard above the process of a play."""
        run = self._runs.get(hello["number"])
        self._guards[hello["number"]] = connection
        if run is not None:
            run.guard = hello["pid"]
            if run.stop_reports:
                self._doom(run.guard, partial(self._report_all, run.stop_reports))
                run.stop_reports = ()

    def _hear_runs(self) -> None:
        """Report the jobs of plays that have ended."""
        for number, guard in tuple(self._guards.items()):
            if guard.lost:
                self._hub.remove(self._guards.pop(number))
        for number, run in tuple(self._runs.items()):
            if run.thread.ended:
                del self._runs[number]
                for job, report in run.reports():
                    is_lost = report.outcome is Outcome.UNREACHABLE and not self._is_here(job)
                    self._report(replace(report, at_work=is_lost))
                self._report_all(run.stop_reports)

    def _expire(self, now: float) -> None:
        for run in self._runs.values():
            if now >= run.deadline and not run.stopped:
                self._stop_run(run, partial(timed_out, seconds=run.limit_s))

    def _stop_all(self) -> None:
        for run in self._runs.values():
            if not run.stopped:
                self._stop_run(run, partial(cancelled, began=True))

    def _stop_run(self, run: _Run, said: Callable[[Job], Report]) -> None:
        """End a play, now or as soon as its guard has said who it is; nobody looks on its hosts."""
        run.stopped = True
        reports = [replace(said(job), at_work=not self._is_here(job)) for job in run.jobs]
        if run.guard:
            self._doom(run.guard, partial(self._report_all, reports))
        else:
            run.stop_reports = reports

    def _report_all(self, reports: Iterable[Report]) -> None:
        self._reports += reports

    def _end(self) -> None:
        self._hub.deafen()
        end_ssh_masters(self._space.sockets / "cp")


class _Run:
    """The play of some jobs in its process; `guard` is the pid of the process above it, 0 at first.

    `stop_reports` wait for the guard's pid.
    """

    def __init__(
        self, jobs: Sequence[Job], command: Command, *, limit_s: float, on_end: OnEnd
    ) -> None:
        self.jobs = jobs
        self.limit_s = limit_s
        self.deadline = time.monotonic() + limit_s
        self.guard = 0
        self.stopped = False
        self.stop_reports: Sequence[Report] = ()
        self._collectors = {job.host: Collector() for job in jobs}
        self._ended: set[str] = set()
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
        task = str(data.get("task") or data.get("task_action") or "")
        collector = self._collectors.get(data.get("host", ""))
        if task == END_TASK:
            self._ended.add(data.get("host", ""))
        elif collector is not None and (task, last) != (MARK_TASK, "skipped"):
            collector.add(_task_end(last, task, data))

    def reports(self) -> Iterator[tuple[Job, Report]]:
        """Yield the jobs of the ended play with their reports; none where it was stopped."""
        if self.stopped:
            return
        failures = (it.failure for it in self._collectors.values() if it.failure)
        failure = next(failures, "")
        for job in self.jobs:
            yield job, self._report(job, failure)

    def _report(self, job: Job, failure: str) -> Report:
        """Return the report of a job; `failure` is the first one of the play."""
        collector = self._collectors[job.host]
        if self._nothing_matched:
            return failed(job, f"Ansible does not know the host {job.host}")
        # Where somebody came to the end nothing has stopped the play: others have left it.
        has_left = bool(self._ended) and not collector.failure
        is_whole = has_left or job.host in self._ended or self.thread.code == 0
        if not is_whole and not collector.failure:
            if not failure:
                return failed(job, self.thread.problem())
            collector.failure = bounded(f"the play was stopped before its end: {failure}")
        fields = collector.end(
            ok=is_whole,
            check=job.kind is JobKind.CHECK,
            asks=job.kind is JobKind.QUESTION,
            finds=getattr(job.action, "finds", ()),
            recorded=job.cob_vars.get("recorded"),
        )
        return ended(job, fields)


def _task_end(event: str, task: str, data: Mapping[str, Any]) -> TaskEnd:
    result = data.get("res") or {}
    return TaskEnd(
        event=event,
        name=task,
        result=result,
        changed=bool(result.get("changed")),
        ignored=bool(data.get("ignore_errors")),
        facts=facts_of(result),
        says=data.get("task_action") in SAY_FACTS,
    )


def _play(jobs: Sequence[Job], variables: Mapping[str, Any]) -> dict[str, Any]:
    action, subsets = jobs[0].action, _subsets(jobs[0].action)
    play: dict[str, Any] = {
        "name": "cobweb",
        "hosts": [job.host for job in jobs],
        "gather_facts": bool(subsets),
        "vars": variables,
    }
    if subsets:
        play["gather_subset"] = subsets
    if len(jobs) > 1:
        play["post_tasks"] = [LAST]
    if isinstance(action, Role):
        # The folder of a role that is given by its path is searched first.
        role = Path(action.name).name if action.name.startswith("/") else action.name
        play["roles"] = [{"role": role, "vars": action.vars}]
    elif isinstance(action, Tasks):
        play["tasks"] = [{"ansible.builtin.import_tasks": {"file": action.path}}]
    return play


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
