"""The executor `ansible`: one warm ansible-playbook that forks a lane per job in flight.

Theory of operation. ansible-runner starts one ansible-playbook with the strategy `cobweb_zygote`.
It connects back and forks lanes on demand, at most `parallel`; each lane connects as well, takes
one job at a time, and runs it without a further fork. A job goes to an idle lane, best the one that
served its host last. A job that takes too long ends with its lane and all that the lane started;
nothing else is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from typing import ClassVar

from cobweb.errors import ExecutorError
from cobweb_plugins.ansible._base import BaseExecutor
from cobweb_plugins.ansible._jobs import cancelled, ended, failed, timed_out
from cobweb_plugins.ansible._lane import Lane
from cobweb_plugins.ansible._runner import installed_version
from cobweb_plugins.ansible._workspace import Workspace
from cobweb_plugins.ansible._zygote import Zygote

__all__ = ["TESTED", "AnsibleExecutor"]

TESTED = ((2, 19), (2, 20))
"""From this version of ansible-core, up to but not including that one."""
END_LIMIT_S = 5.0
"""Time for idle lanes, and for the warm process, to end by themselves."""
REQUEUES = 3
"""How often a job goes back into the queue because its lane died before it began."""


class AnsibleExecutor(BaseExecutor):
    """Runs task files and roles through Ansible, without the start of a process per job.

    Leans on private parts of ansible-core: `open` refuses a version that it was not tested with,
    for which `ansible-plain` stands.
    """

    name: ClassVar[str] = "ansible"

    def __init__(self) -> None:
        super().__init__()
        self._lanes: dict[int, Lane] = {}
        self._leaving: list[Lane] = []
        self._requeued: dict[int, int] = {}

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
        self._zygote = Zygote(workspace, self._hub)

    def _running(self) -> bool:
        return any(lane.job is not None for lane in self._lanes.values())

    def _deadlines(self) -> Iterable[float]:
        yield from (lane.deadline for lane in self._lanes.values() if lane.job is not None)
        if self._zygote.start_deadline is not None:
            yield self._zygote.start_deadline

    def _dispatch(self) -> None:
        """Give queued jobs to idle lanes, and ask for more lanes where they do not suffice."""
        if self._zygote.broken:
            problem = f"Ansible did not start: {self._zygote.broken}"
            self._reports += [failed(job, problem, began=False) for job in self._queue]
            self._queue.clear()
        idle = [lane for lane in self._lanes.values() if lane.job is None]
        while self._queue and idle:
            job = self._queue.popleft()
            lane = max(idle, key=lambda lane: (lane.last_host == job.host, not lane.last_host))
            idle.remove(lane)
            deadline = time.monotonic() + self._timeout(job)
            lane.give(job, deadline=deadline, basedir=str(self._setting.site_dir))
        room = self._setting.parallel - len(self._lanes)
        self._zygote.want(min(len(self._queue), room))

    def _hear(self) -> None:
        for connection, hello in self._hub.take_hellos():
            if hello["op"] == "zygote":
                self._zygote.connected(connection)
            elif hello["op"] == "guard":
                self._zygote.guarded(connection, hello["pid"])
            else:
                self._lanes[hello["lane"]] = Lane(connection, hello["pid"])
                self._zygote.requested.discard(hello["lane"])
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
            if message["op"] == "begin":
                lane.began = True
                continue
            self._reports.append(ended(lane.job, message))
            lane.take()
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
        again = self._requeued.get(job.number, 0)
        if lane.began or again >= REQUEUES:
            message = "the process that ran it died"
            self._reports.append(failed(job, message, began=lane.began))
        else:
            self._requeued[job.number] = again + 1
            self._queue.appendleft(job)

    def _drop(self, number: int) -> None:
        self._hub.remove(self._lanes.pop(number).connection)

    def _expire(self, now: float) -> None:
        for number, lane in tuple(self._lanes.items()):
            if lane.job is not None and now >= lane.deadline:
                self._doom(lane.pid, timed_out(lane.job, self._timeout(lane.job)))
                self._drop(number)

    def _stop_all(self) -> None:
        for number, lane in tuple(self._lanes.items()):
            if lane.job is not None:
                self._doom(lane.pid, cancelled(lane.job, began=lane.began))
                self._drop(number)

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
