"""What the two executors share: queue, reports, waiting, and the end of jobs that are stopped.

All sockets and deadlines are served by `wait`, in the caller's thread.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from cobweb.model import Action, CobId, Job, JobKind, Nothing, Outcome, Report, Role, Tasks
from cobweb.plugin import ExecutorSetting
from cobweb_plugins.ansible._host_marks import HostMarks, is_windows
from cobweb_plugins.ansible._hub import Hub
from cobweb_plugins.ansible._jobs import cancelled, failed, refusal, unknown_host
from cobweb_plugins.ansible._processes import Tree
from cobweb_plugins.ansible._sweep import sweep_script
from cobweb_plugins.ansible._workspace import Workspace

GRACE_S = 2.0
"""Time between asking the processes of a job to end, and killing them."""

UNGUARDED_VARIABLE = "cobweb_unguarded"
"""The host variable that says: what a job has left there ends by itself, as nothing can end it."""

DEVICES = ("network_cli", "netconf", "httpapi")
"""Connections of Ansible to devices whose command line is no shell."""

RELEASE_LIMIT_S = 30.0
"""Time for taking a mark off a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doomed:
    """The processes of a job that is being stopped; `then` is called when they are gone."""

    tree: Tree
    kill_at: float
    then: Callable[[], None]


class BaseExecutor(ABC):
    """The executor protocol but for how jobs run."""

    name: ClassVar[str]
    actions: ClassVar[frozenset[type[Action]]] = frozenset[type[Action]]((Tasks, Role))

    def __init__(self) -> None:
        self._hub = Hub()
        self._queue: deque[Job] = deque()
        self._reports: list[Report] = []
        self._doomed: list[_Doomed] = []
        self._closed = False
        self._workspace: Workspace | None = None

    def open(self, setting: ExecutorSetting) -> None:
        """Check what is installed and make the files; processes start with the first job."""
        self._check_installed()
        self._setting = setting
        self._marks = HostMarks(setting)
        self._releases: dict[int, str] = {}
        self._ends: dict[int, str] = {}
        self._leads: dict[int, int] = {}
        self._site = uuid.uuid4().hex if setting.mark is None else setting.mark.site
        self._epoch = 0 if setting.mark is None else setting.mark.epoch
        self._workspace = Workspace.create(setting)
        self._opened(self._workspace)

    def submit(self, job: Job) -> None:
        """Take a job; its report comes by `wait`."""
        if refused := refusal(job, self._setting) or self._marks.refusal(job):
            self._reports.append(refused)
        else:
            self._take(job)

    def end_work(self, job: Job, jobs: Sequence[int]) -> None:
        """Take a job that ends these jobs, and all of earlier runs, on its host."""
        host = self._setting.hosts.get(job.host)
        variables = {} if host is None else {**host.variables, **job.host_vars}
        if host is None:
            self._reports.append(unknown_host(job))
        elif variables.get("ansible_connection") in DEVICES:
            # Modules for devices are at work on this machine, in lanes that end with their Cobweb.
            self._reports.append(Report(number=job.number, outcome=Outcome.OK))
        elif not is_windows(variables):
            self._ends[job.number] = self._sweep_script([self._leads.get(it, it) for it in jobs])
            self._take(job)
        elif variables.get(UNGUARDED_VARIABLE) is True:
            self._reports.append(Report(number=job.number, outcome=Outcome.OK))
        else:
            message = (
                "it has no POSIX shell, so Cobweb can end nothing there. See that nothing of it is"
                f" at work, and set `{UNGUARDED_VARIABLE}: true` for this host"
            )
            self._reports.append(failed(job, message, began=False))

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Serve all connections until a report, a wake or the time; reports in order of arrival."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._closed and not self._reports and not self._hub.take_wake():
            left = None if end is None else max(0.0, end - time.monotonic())
            if left is None and not self._busy():
                break
            self._step(left)
            if left == 0.0:
                break
        reports, self._reports = self._reports, []
        return [self._marks.heard(report) for report in reports]

    def unmark(self, hosts: Iterable[str]) -> Mapping[str, str]:
        """Take this site's mark off hosts; return what hindered that, by host."""
        self._releases = {
            -number: host
            for number, host in enumerate(sorted(hosts), 1)
            if self._marks.release(host)
        }
        self._queue += [_release(number, host) for number, host in self._releases.items()]
        self._dispatch()
        problems: dict[str, str] = {}
        while self._releases:
            for report in self.wait(None):
                host = self._releases.pop(report.number)
                if report.outcome is not Outcome.OK:
                    problems[host] = report.message
        return problems

    def wake(self) -> None:
        """End a `wait`; safe in a signal handler."""
        self._hub.wake()

    def now(self) -> float:
        """Return the time of the system's clock."""
        return time.time()

    def close(self, *, kill: bool = False) -> None:
        """End all processes and shared ssh connections, and remove the files.

        Without `kill` what runs may end first, within its time. Reports can be waited for after.
        """
        if self._closed or self._workspace is None:
            return
        self._reports += [cancelled(job, began=False) for job in self._queue]
        self._queue.clear()
        if kill:
            self._stop_all()
        while self._busy():
            self._step(None)
        self._end()
        self._workspace.remove()
        self._hub.close()
        self._closed = True

    # --- what the executors differ in

    @abstractmethod
    def _check_installed(self) -> None:
        """Raise ExecutorError where this executor cannot work at all."""

    @abstractmethod
    def _opened(self, workspace: Workspace) -> None:
        """Get ready with the files in `workspace`."""

    @abstractmethod
    def _dispatch(self) -> None:
        """Start queued jobs as far as there is room."""

    @abstractmethod
    def _hear(self) -> None:
        """Act on what came in this round."""

    @abstractmethod
    def _deadlines(self) -> Iterable[float]:
        """Return the times (monotonic) by which something is to be done; one per running job."""

    @abstractmethod
    def _expire(self, now: float) -> None:
        """Stop what has taken too long."""

    @abstractmethod
    def _running(self) -> bool:
        """Say whether a job runs."""

    @abstractmethod
    def _stop_all(self) -> None:
        """Stop all running jobs; their reports come when their processes have ended."""

    @abstractmethod
    def _end(self) -> None:
        """End the processes that wait for jobs; none runs any more."""

    # --- shared

    def _busy(self) -> bool:
        return bool(self._queue or self._doomed or self._running())

    def _step(self, timeout_s: float | None) -> None:
        """Wait for one thing to happen, at most `timeout_s`, and act on all that has."""
        self._hub.serve(self._until_next(timeout_s))
        self._hear()
        now = time.monotonic()
        self._expire(now)
        for doomed in tuple(self._doomed):
            self._bury(doomed, now)
        self._dispatch()

    def _until_next(self, timeout_s: float | None) -> float | None:
        deadlines = (*self._deadlines(), *(doomed.kill_at for doomed in self._doomed))
        if not deadlines:
            return timeout_s
        left = max(0.0, min(deadlines) - time.monotonic())
        return left if timeout_s is None else min(left, timeout_s)

    def _first(self, job: Job) -> str:
        """Return the script that comes before the tasks of a job that is about to begin, or ""."""
        if job.number in self._ends:
            return ""
        host = self._releases.get(job.number)
        return self._marks.claim(job) if host is None else self._marks.release(host)

    def _take(self, job: Job) -> None:
        if self._closed:
            self._reports.append(cancelled(job, began=False))
        else:
            self._queue.append(job)
            self._dispatch()

    def _mark(self, number: int) -> str:
        """Return the mark of a job."""
        return f"{self._site}/{self._epoch}/{number}"

    def _sweep_script(self, jobs: Sequence[int]) -> str:
        return sweep_script(self._site, self._epoch, jobs)

    def _timeout(self, job: Job) -> float:
        return self._setting.timeout_s if job.timeout_s is None else job.timeout_s

    def _report(self, report: Report) -> None:
        self._reports.append(report)

    def _doom(self, pid: int, then: Callable[[], None]) -> None:
        """End a process with all that it started; `then` is called when that is done."""
        tree = Tree(pid)
        tree.terminate()
        for fd in tree.fds:
            self._hub.watch(fd)
        kill_at = time.monotonic() + GRACE_S
        self._doomed.append(_Doomed(tree=tree, kill_at=kill_at, then=then))

    def _bury(self, doomed: _Doomed, now: float) -> None:
        """Go on with a stopped job once all its processes have ended, killed if need be."""
        if not doomed.tree.gone():
            if now < doomed.kill_at:
                return
            doomed.tree.kill()
        for fd in doomed.tree.fds:
            self._hub.unwatch(fd)
        doomed.tree.close()
        self._doomed.remove(doomed)
        doomed.then()


def _release(number: int, host: str) -> Job:
    """Return the job that takes a mark off a host; it has no tasks of its own."""
    return Job(
        number=number,
        kind=JobKind.TRANSITION,
        cob=CobId(f"{host}/"),
        host=host,
        type_name="",
        action=Nothing(),
        cob_vars={},
        timeout_s=RELEASE_LIMIT_S,
    )
