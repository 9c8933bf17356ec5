"""The executor `simulate`: carries out nothing, remembers states, and lives in a virtual clock.

Theory of operation: a job is given its end when it is submitted. `wait` moves the clock to the next
end, or by its timeout, whichever comes first, and never sleeps. Jobs that end together are reported
in the order of their numbers, so that the same jobs and seed give the same run (promise P6).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from typing import ClassVar

from cobweb.model import (
    Action,
    CobId,
    Job,
    JobKind,
    Nothing,
    Outcome,
    PythonAction,
    Report,
    Role,
    State,
    Tasks,
)
from cobweb.plugin import ExecutorSetting
from cobweb_plugins.simulate._options import SimulateOptions


class SimulateExecutor:
    """An `Executor` without hosts; the clock starts at 0."""

    name: ClassVar[str] = "simulate"
    actions: ClassVar[frozenset[type[Action]]] = frozenset({Nothing, PythonAction, Role, Tasks})

    def __init__(self) -> None:
        self._options = SimulateOptions()
        self._seed = 0
        self._now_s = 0.0
        self._woken = False
        self._states: dict[CobId, State] = {}
        self._contents: dict[CobId, str] = {}
        self._counts: dict[CobId, int] = {}
        self._running: list[tuple[float, int, Job, bool]] = []

    def open(self, setting: ExecutorSetting) -> None:
        """Read the options; ExecutorError where one has the wrong form."""
        self._options = SimulateOptions.read(setting.options)
        self._seed = setting.seed

    def submit(self, job: Job) -> None:
        """Take a job; its end is known from now on. Only its own timeout bounds it."""
        seconds = self._seconds(job)
        overruns = job.timeout_s is not None and seconds > job.timeout_s
        if job.timeout_s is not None:
            seconds = min(seconds, job.timeout_s)
        heapq.heappush(self._running, (self._now_s + seconds, job.number, job, overruns))

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Move the clock to the next end, or by `timeout_s`, and return what has ended."""
        if self._woken:
            self._woken = False
        else:
            self._advance(timeout_s)
        reports = []
        while self._running and self._running[0][0] <= self._now_s:
            _, _, job, overruns = heapq.heappop(self._running)
            reports.append(self._end(job, overruns=overruns))
        return reports

    def wake(self) -> None:
        """Let the next `wait` return without moving the clock."""
        self._woken = True

    def now(self) -> float:
        """Return the seconds of simulated time since `open`."""
        return self._now_s

    def close(self, *, kill: bool = False) -> None:
        """Forget the jobs in flight; there is nothing to end, so `kill` makes no difference."""
        del kill
        self._running.clear()

    def state(self, cob: CobId) -> State:
        """Return the simulated state of a COB; "" if nothing says where it starts."""
        return self._states.get(cob) or self._options.first_state(cob)

    def _advance(self, timeout_s: float | None) -> None:
        ends = [self._running[0][0]] if self._running else []
        if timeout_s is not None:
            ends.append(self._now_s + timeout_s)
        self._now_s = max(self._now_s, min(ends, default=self._now_s))

    def _seconds(self, job: Job) -> float:
        if job.host in self._options.unreachable:
            return 0.0
        low, high = self._options.span(job)
        if low == high:
            return low
        count = self._counts[job.cob] = self._counts.get(job.cob, 0) + 1
        draw = random.Random(f"{self._seed}/{job.cob}/{count}")  # noqa: S311  # no secret
        return draw.uniform(low, high)

    def _end(self, job: Job, *, overruns: bool) -> Report:
        if job.host in self._options.unreachable:
            message = f"simulated: host {job.host} is unreachable"
            return Report(number=job.number, outcome=Outcome.UNREACHABLE, message=message)
        if overruns:
            message = f"simulated: takes longer than its timeout of {job.timeout_s:g} s"
            return Report(number=job.number, outcome=Outcome.TIMEOUT, message=message)
        if job.kind is JobKind.QUESTION:
            message = "simulated: nobody is there who answers"
            return Report(number=job.number, outcome=Outcome.FAILED, message=message)
        return self._check(job) if job.kind is JobKind.CHECK else self._transition(job)

    def _check(self, job: Job) -> Report:
        if state := self._found(job):
            return Report(number=job.number, outcome=Outcome.OK, state=state)
        message = "simulated: nothing says in which state it starts"
        return Report(number=job.number, outcome=Outcome.FAILED, message=message)

    def _found(self, job: Job) -> State:
        """Return the state that a check finds against the content of its job."""
        state, outdates = self.state(job.cob), self._options.outdates.get(job.cob)
        if outdates is None or outdates.content != job.content:
            return state
        is_applied = self._contents.get(job.cob) == job.content
        return state if is_applied else outdates.states.get(state, state)

    def _transition(self, job: Job) -> Report:
        if job.cob in self._options.fail:
            message = f"simulated: {job.source} -> {job.dest} fails"
            return Report(number=job.number, outcome=Outcome.FAILED, message=message)
        self._states[job.cob] = job.dest
        self._contents[job.cob] = job.content
        return Report(number=job.number, outcome=Outcome.OK)
