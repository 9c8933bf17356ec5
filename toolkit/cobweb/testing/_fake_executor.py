"""An executor for tests of the runtime: it answers at once, or when the test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
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

Answer = Callable[[Job], Report | None]
"""How a test answers a job; None leaves it to the fake."""


class FakeExecutor:
    """An `Executor` that remembers every job, and simulated states by object.

    A check finds the state in `states`, else `default`; a transition moves it. `answer` may give
    another report. A job of an object that is on `hold` is answered by `finish`, from any thread.
    `now` moves only by timeouts of `wait`; `wait` blocks for real only while jobs are held.
    """

    name: ClassVar[str] = "fake"
    actions: ClassVar[frozenset[type[Action]]] = frozenset({Nothing, PythonAction, Role, Tasks})

    def __init__(
        self,
        *,
        states: Mapping[CobId, State] | None = None,
        default: State = "down",
        answer: Answer | None = None,
    ) -> None:
        self.states = dict(states or {})
        self.default = default
        self.answer = answer
        self.jobs: list[Job] = []
        self.setting: ExecutorSetting | None = None
        self.closed = False
        self.killed = False
        self._now_s = 0.0
        self._woken = False
        self._held: dict[int, Job] = {}
        self._on_hold: set[CobId] = set()
        self._reports: list[Report] = []
        self._change = threading.Condition(threading.RLock())

    def open(self, setting: ExecutorSetting) -> None:
        """Remember the setting."""
        self.setting = setting

    def submit(self, job: Job) -> None:
        """Remember the job, and answer it unless its object is on hold."""
        with self._change:
            self.jobs.append(job)
            if job.cob in self._on_hold:
                self._held[job.number] = job
                self._change.notify_all()
            else:
                self._reports.append(self._report(job))

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Return what was answered; while jobs are held block until one ends, `wake` or timeout."""
        with self._change:
            if self._held and not self._reports:
                self._change.wait_for(lambda: self._reports or self._woken, timeout_s)
            elif not self._reports and not self._woken:
                self._now_s += timeout_s or 0.0
            self._woken = False
            reports, self._reports = self._reports, []
            return reports

    def wake(self) -> None:
        """End a `wait` early."""
        with self._change:
            self._woken = True
            self._change.notify_all()

    def now(self) -> float:
        """Return the virtual clock, seconds from 0."""
        return self._now_s

    def close(self, *, kill: bool = False) -> None:
        """Remember how it was closed; held jobs are cancelled if `kill`."""
        with self._change:
            self.closed = True
            self.killed = self.killed or kill
            for number in sorted(self._held) if kill else ():
                self._reports.append(Report(number=number, outcome=Outcome.CANCELLED))
            self._held.clear()
            self._change.notify_all()

    def hold(self, cob: CobId) -> None:
        """Keep jobs of `cob` in flight until `finish`."""
        with self._change:
            self._on_hold.add(cob)

    def await_held(self, cob: CobId, timeout_s: float = 30.0) -> Job:
        """Block until a job of `cob` is held, and return it; AssertionError after the timeout."""
        with self._change:
            held = self._change.wait_for(lambda: self._held_of(cob), timeout_s)
            assert held, f"no job of {cob} was submitted within {timeout_s:g} s"
            return held[0]

    def finish(self, cob: CobId, outcome: Outcome = Outcome.OK) -> None:
        """End the held jobs of `cob`, and hold no further ones."""
        with self._change:
            self._on_hold.discard(cob)
            for job in self._held_of(cob):
                del self._held[job.number]
                ok = outcome is Outcome.OK
                report = Report(number=job.number, outcome=outcome, message=f"finished: {outcome}")
                self._reports.append(self._report(job) if ok else report)
            self._change.notify_all()

    def transitions(self) -> tuple[tuple[CobId, State, State], ...]:
        """Return (cob, source, dest) of all transitions, in the order of their submission."""
        jobs = (job for job in self.jobs if job.kind is JobKind.TRANSITION)
        return tuple((job.cob, job.source, job.dest) for job in jobs)

    def _held_of(self, cob: CobId) -> list[Job]:
        return [job for job in self._held.values() if job.cob == cob]

    def _report(self, job: Job) -> Report:
        report = self.answer(job) if self.answer else None
        if report is None:
            state = self.states.get(job.cob, self.default) if job.kind is JobKind.CHECK else ""
            report = Report(number=job.number, outcome=Outcome.OK, state=state)
        if job.kind is JobKind.TRANSITION and report.outcome is Outcome.OK:
            self.states[job.cob] = job.dest
        return report
