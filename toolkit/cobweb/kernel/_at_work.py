"""Work that a lost job may have left on its host: ended there before its object is touched again.

A job is lost where nobody has seen its end: the coordinator was killed, the host went away in the
middle, what it had started did not end when it was stopped. The journal keeps whose jobs these are
(`CobRecord.at_work`, promise P11). The next job of such an object, a check as a rule, begins only
after one that ends such work on the host has ended well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from cobweb.model import CobId, Job, JobKind, Nothing, Outcome, Report

LIMIT_S = 60.0
"""Time for ending what is at work on a host, with the start of what does it."""


class WorkEnder:
    """Knows the objects of `cobs` whose jobs may be at work, and those that get lost in this run.

    `next_number` gives numbers for jobs.
    """

    def __init__(self, cobs: Iterable[CobId], *, next_number: Callable[[], int]) -> None:
        self._left: dict[CobId, tuple[int, ...]] = dict.fromkeys(cobs, ())
        self._next_number = next_number
        self._behind: dict[int, Job] = {}
        self._over: list[CobId] = []

    def is_at_work(self, cob: CobId) -> bool:
        """Say whether a job of an object may still be at work, though its end was reported."""
        return cob in self._left

    def lost(self, cob: CobId, number: int) -> None:
        """Take note that the job `number` of an object may be at work, though it was reported."""
        self._left[cob] = (*self._left.get(cob, ()), number)

    def believe(self, cob: CobId) -> None:
        """Take an object for one of which nothing is at work, where nobody can end it."""
        if self._left.pop(cob, None) is not None:
            self._over.append(cob)

    def before(self, job: Job) -> tuple[Job, tuple[int, ...]] | None:
        """Return the job that ends what has to end before `job`, and the numbers of this run's.

        None where nothing has.
        """
        if job.cob not in self._left:
            return None
        step = replace(
            job,
            number=self._next_number(),
            kind=JobKind.TRANSITION,
            action=Nothing(),
            source="",
            dest="",
            attempt=1,
            timeout_s=LIMIT_S,
            fresh=False,
            confirm=None,
        )
        self._behind[step.number] = job
        return step, self._left[job.cob]

    def take(self, report: Report) -> tuple[Job | None, Report]:
        """Take a report; return the job that can begin now, or None and what is to be reported."""
        job = self._behind.pop(report.number, None)
        if job is None:
            return None, report
        if report.outcome is Outcome.OK:
            self._left.pop(job.cob, None)
            if job.kind is JobKind.CHECK:  # a transition is at work itself from now on
                self._over.append(job.cob)
            return job, report
        message = f"what an earlier job has left at work on {job.host} was not ended"
        if report.message:
            message = f"{message}: {report.message}"
        is_lost = report.outcome is Outcome.UNREACHABLE
        return None, replace(
            report,
            number=job.number,
            message=report.message if is_lost else message,
            began=False,
            at_work=False,
        )

    def take_ended(self) -> tuple[CobId, ...]:
        """Return, once, the objects of which nothing is at work any more."""
        over, self._over = tuple(self._over), []
        return over
