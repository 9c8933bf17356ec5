"""The executor `ansible`: one warm ansible-playbook that forks a lane per job in flight.

Theory of operation. ansible-runner starts one ansible-playbook with the strategy `cobweb_zygote`.
It connects back and forks lanes on demand, at most `parallel`; each lane connects as well, takes
one job at a time, and runs it without a further fork. A job goes to an idle lane, best the one that
served its host last. A job that takes too long ends with its lane and all that the lane started;
nothing else is touched. What it started on a remote host is then ended by a sweep, which goes to a
lane before all jobs; only after it, or its time limit, is the job reported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from cobweb.errors import ExecutorError
from cobweb.model import Job, Outcome, Report, Tasks
from cobweb_plugins.ansible._direct import DirectFiles, DirectTasks, has_templates
from cobweb_plugins.ansible._jobs import cancelled, ended, failed, timed_out
from cobweb_plugins.ansible._lane import Lane
from cobweb_plugins.ansible._playbooks import PlaybookExecutor
from cobweb_plugins.ansible._runner import installed_version
from cobweb_plugins.ansible._sweep import LIMIT_EACH_S, LIMIT_S, Sweep
from cobweb_plugins.ansible._workspace import Workspace
from cobweb_plugins.ansible._zygote import Zygote

TESTED = ((2, 19), (2, 20))
"""From this version of ansible-core, up to but not including that one."""
END_LIMIT_S = 5.0
"""Time for idle lanes, and for the warm process, to end by themselves."""
NO_ANSWER = "it did not answer in time"
REQUEUES = 3
"""How often a job goes back into the queue because its lane died before it began."""


class AnsibleExecutor(PlaybookExecutor):
    """Runs task files and roles through Ansible, without the start of a process per job.

    Jobs that go together have one, as with `ansible-plain`.

    Leans on private parts of ansible-core: `open` refuses a version that it was not tested with,
    for which `ansible-plain` stands.
    """

    name: ClassVar[str] = "ansible"

    def __init__(self) -> None:
        super().__init__()
        self._lanes: dict[int, Lane] = {}
        self._leaving: list[Lane] = []
        self._requeued: dict[int, int] = {}
        self._sweeps: deque[Sweep] = deque()
        self._met: dict[str, tuple[Mapping[str, Any], Mapping[str, Any] | None]] = {}
        self._varies: dict[str, bool] = {}

    def _check_installed(self) -> None:
        found = installed_version()
        low, high = TESTED
        if not low <= found[:2] < high:
            raise ExecutorError(
                f"the executor ansible is made for ansible-core {low[0]}.{low[1]},"
                f" and {'.'.join(map(str, found))} is installed",
                hint="use --executor ansible-plain, or install the tested version",
            )

    def _opened(self, workspace: Workspace) -> None:
        super()._opened(workspace)
        self._zygote = Zygote(workspace, self._hub)
        self._files = DirectFiles(*workspace.module_folders())
        self._facts_folder = str(workspace.data / "facts")

    def _running(self) -> bool:
        is_at_work = any(lane.job is not None for lane in self._lanes.values())
        return super()._running() or bool(self._sweeps) or is_at_work

    def _deadlines(self) -> Iterable[float]:
        yield from super()._deadlines()
        yield from (lane.deadline for lane in self._lanes.values() if lane.job is not None)
        yield from (sweep.deadline for sweep in self._sweeps)
        if self._zygote.start_deadline is not None:
            yield self._zygote.start_deadline

    def _dispatch(self) -> None:
        """Give queued jobs to idle lanes, and ask for more lanes where they do not suffice."""
        self._dispatch_plays()
        if self._zygote.broken:
            problem = f"Ansible did not start: {self._zygote.broken}"
            self._reports += [failed(job, problem, began=False) for job in self._queue]
            self._queue.clear()
            self._reports += [sweep.doubtful(problem) for sweep in self._sweeps]
            self._sweeps.clear()
        idle = [lane for lane in self._lanes.values() if lane.job is None]
        while (self._sweeps or self._queue) and idle:
            job = self._sweeps.popleft() if self._sweeps else self._queue.popleft()
            lane = max(idle, key=lambda lane: (lane.last_host == job.host, not lane.last_host))
            idle.remove(lane)
            self._give(lane, job)
        room = self._setting.parallel - len(self._lanes)
        self._zygote.want(min(len(self._queue) + len(self._sweeps), room))

    def _give(self, lane: Lane, job: Job | Sweep) -> None:
        basedir = str(self._setting.site_dir)
        if isinstance(job, Sweep):
            lane.give_sweep(job, basedir=basedir)
            return
        end = self._ends.get(job.number, "")
        direct, met = (None, None) if end else self._direct(job)
        lane.give(
            job,
            deadline=time.monotonic() + self._timeout(job),
            basedir=basedir,
            facts_folder=self._facts_folder,
            mark="" if end else self._mark(job.number),
            first=self._first(job),
            end=end,
            direct=direct,
            met=met,
        )

    def _direct(self, job: Job) -> tuple[DirectTasks | None, Mapping[str, Any] | None]:
        """Return the tasks of a direct job, and the way to its host if that is known."""
        host_vars, known = self._met.get(job.host, (None, None))
        is_met = host_vars == job.host_vars
        if not isinstance(job.action, Tasks) or _is_whole(job):
            return None, None
        if is_met and known is None:
            return None, None
        if job.host not in self._varies:
            self._varies[job.host] = has_templates(self._setting.hosts[job.host].variables)
        if self._varies[job.host] or has_templates(job.host_vars):
            return None, None
        return self._files.tasks(job.action.path), known if is_met else None

    def _hear(self) -> None:
        for connection, hello in self._hub.take_hellos():
            if hello["op"] == "zygote":
                self._zygote.connected(connection)
            elif hello["op"] == "guard" and hello["number"]:
                self._greet(connection, hello)
            elif hello["op"] == "guard":
                self._zygote.guarded(connection, hello["pid"])
            else:
                self._lanes[hello["lane"]] = Lane(connection, hello["pid"])
                self._zygote.requested.discard(hello["lane"])
        self._hear_runs()
        self._zygote.serve()
        for number, lane in tuple(self._lanes.items()):
            self._hear_lane(number, lane)
        for lane in tuple(self._leaving):
            if lane.connection.lost:
                self._leaving.remove(lane)
                self._hub.remove(lane.connection)

    def _hear_lane(self, number: int, lane: Lane) -> None:
        for message in lane.connection.take():
            if lane.job is None or message["number"] != lane.job.number:
                continue
            if lane.note(message):
                continue
            job = lane.take()
            assert job is not None
            if "met" in message and isinstance(job, Job):
                self._met[job.host] = (job.host_vars, message["met"])
            report = job.ended(message) if isinstance(job, Sweep) else ended(job, message)
            if report.in_doubt:
                self._sweep(lane, report)
            elif report.outcome is Outcome.UNREACHABLE and lane.place is not None:
                self._reports.append(replace(report, at_work=True))
            else:
                self._reports.append(report)
            if message["retire"]:
                self._leaving.append(self._lanes.pop(number))
        if lane.connection.lost and number in self._lanes:
            self._lost(number, lane)

    def _lost(self, number: int, lane: Lane) -> None:
        """Deal with a lane that died: what it started is ended, a job not begun is queued again."""
        self._drop(number)
        with contextlib.suppress(OSError):
            os.killpg(lane.pid, signal.SIGKILL)
        job = lane.take()
        if job is None:
            return
        message = "the process that ran it died"
        if isinstance(job, Sweep):
            self._reports.append(job.doubtful(message))
            return
        again = self._requeued.get(job.number, 0)
        if lane.began or again >= REQUEUES:
            self._sweep(lane, failed(job, message, began=lane.began))
        else:
            self._requeued[job.number] = again + 1
            self._queue.appendleft(job)

    def _drop(self, number: int) -> None:
        self._hub.remove(self._lanes.pop(number).connection)

    def _expire(self, now: float) -> None:
        super()._expire(now)
        for sweep in [sweep for sweep in self._sweeps if now >= sweep.deadline]:
            self._sweeps.remove(sweep)
            self._reports.append(sweep.doubtful(NO_ANSWER))
        for number, lane in tuple(self._lanes.items()):
            if lane.job is None or now < lane.deadline:
                continue
            if isinstance(lane.job, Sweep):
                self._doom(lane.pid, partial(self._report, lane.job.doubtful(NO_ANSWER)))
                self._drop(number)
            else:
                late = partial(timed_out, lane.job, self._timeout(lane.job))
                self._stop(number, lane, late)

    def _stop_all(self) -> None:
        super()._stop_all()
        for number, lane in tuple(self._lanes.items()):
            if isinstance(lane.job, Job):
                self._stop(number, lane, partial(_cancelled, lane, lane.job))

    def _stop(self, number: int, lane: Lane, report: Callable[[], Report]) -> None:
        """End a lane in the middle of its job, and then what that has left on a remote host."""
        self._doom(lane.pid, lambda: self._sweep(lane, report()))
        self._hub.read(lane.connection)
        for message in lane.connection.take():
            lane.note(message)
        self._drop(number)

    def _sweep(self, lane: Lane, report: Report) -> None:
        """Report a stopped job, after a sweep where its task was at work on a remote host."""
        if lane.place is None:
            self._reports.append(report)
        else:
            under_way = len(self._sweeps) + len(self._lanes)
            self._sweeps.append(
                Sweep(
                    report=report,
                    host=lane.last_host,
                    script=self._sweep_script((report.number,)),
                    place=lane.place,
                    host_vars=lane.host_vars,
                    deadline=time.monotonic() + LIMIT_S + LIMIT_EACH_S * under_way,
                )
            )

    def _end(self) -> None:
        """Let the lanes end: one whose connection is closed takes that for our death, and kills."""
        self._leaving += self._lanes.values()
        self._lanes.clear()
        for lane in self._leaving:
            lane.connection.send({"op": "quit"})
        end = time.monotonic() + END_LIMIT_S
        while self._leaving and time.monotonic() < end:
            self._hub.serve(END_LIMIT_S)
            self._hear()
        self._zygote.close(END_LIMIT_S)


def _is_whole(job: Job) -> bool:
    """Say whether a job of tasks needs all of Ansible."""
    assert isinstance(job.action, Tasks)
    return bool(job.action.facts or job.action.finds or job.fresh)


def _cancelled(lane: Lane, job: Job) -> Report:
    """Return the report of a stopped job, by what its lane said before it was frozen."""
    return cancelled(job, began=lane.began)
