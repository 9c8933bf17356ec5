"""The conformance kit for executors: each broken promise is caught by the check named for it."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from cobweb.model import (
    CobId,
    Host,
    Job,
    JobKind,
    Nothing,
    Outcome,
    Report,
)
from cobweb.testing import (
    ExecutorCase,
    FakeExecutor,
    NamedCheck,
    check_executor,
    executor_checks,
)

Failing = Callable[[Iterable[NamedCheck]], set[str]]


class Good(FakeExecutor):
    """A fake with jobs that fail, cannot be reached, or last until they are killed or time out."""

    name: ClassVar[str] = "good"

    def __init__(self) -> None:
        super().__init__(answer=self._answer)
        self._slow: dict[int, Job] = {}

    def submit(self, job: Job) -> None:
        if job.cob.endswith("/slow"):
            self.hold(job.cob)
        super().submit(job)
        if job.timeout_s is not None:
            self.finish(job.cob, Outcome.TIMEOUT)

    def _answer(self, job: Job) -> Report | None:
        if job.host == "gone":
            return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="gone")
        if job.cob.endswith("/bad"):
            return Report(number=job.number, outcome=Outcome.FAILED, message="bad")
        if job.cob.endswith("/told"):
            return self._told(job, str(job.host_vars.get("cobweb_told", "nothing")))
        return None

    def _told(self, job: Job, told: str) -> Report:
        results = {"told": told}
        return Report(number=job.number, outcome=Outcome.OK, state=told, results=results)


def _job(number: int, host: str, name: str = "quick") -> Job:
    return Job(
        number=number,
        kind=JobKind.TRANSITION,
        cob=CobId(f"{host}/{name}"),
        host=host,
        type_name="t",
        action=Nothing(),
        cob_vars={},
        source="down",
        dest="up",
    )


def _check_job(number: int, host: str) -> Job:
    return replace(_job(number, host), kind=JobKind.CHECK, source="", dest="")


def _executor_case(make: type[FakeExecutor], bound_s: float = 30.0) -> ExecutorCase:
    return ExecutorCase(
        make=make,
        hosts={name: Host(name=name) for name in ("a", "b", "gone")},
        transition=_job,
        check=_check_job,
        failing=lambda number, host: _job(number, host, "bad"),
        broken=lambda number, host: _job(number, host, "bad"),
        slow=lambda number, host: _job(number, host, "slow"),
        told=lambda number, host: replace(_job(number, host, "told"), kind=JobKind.CHECK),
        unreachable="gone",
        bound_s=bound_s,
    )


class ReportsTwice(Good):
    def _report(self, job: Job) -> Report:
        report = super()._report(job)
        self._reports.append(report)
        return report


class LosesJobs(Good):
    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        return [report for report in super().wait(timeout_s) if report.number != 2]


class LosesWaitZero(Good):
    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        reports = super().wait(timeout_s)
        return () if timeout_s == 0 else reports


class BlocksIdle(Good):
    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        if timeout_s is None and not self._reports and not self._held:
            threading.Event().wait(2.0)
        return super().wait(timeout_s)


class Raises(Good):
    def submit(self, job: Job) -> None:
        if job.cob.endswith("/bad"):
            raise FileNotFoundError(job.cob)
        super().submit(job)


class FailsSilently(Good):
    def _answer(self, job: Job) -> Report | None:
        report = super()._answer(job)
        return replace(report, message="") if report else None


class IgnoresVariables(Good):
    def _told(self, job: Job, _told: str) -> Report:
        return super()._told(job, "nothing")


class KeepsVariables(Good):
    last = "nothing"

    def _told(self, job: Job, told: str) -> Report:
        self.last = self.last if told == "nothing" else told
        return super()._told(job, self.last)


class Templates(Good):
    def _told(self, job: Job, told: str) -> Report:
        return super()._told(job, told.replace("{{ 1 + 1 }}", "2"))


class DropsResults(Good):
    def _told(self, job: Job, told: str) -> Report:
        return replace(super()._told(job, told), results={})


class SpreadsResults(Good):
    def _answer(self, job: Job) -> Report | None:
        report = super()._answer(job)
        good = Report(number=job.number, outcome=Outcome.OK, state="up", results={"told": "one"})
        return report or good


class MixesUp(Good):
    def _answer(self, job: Job) -> Report | None:
        report = super()._answer(job)
        return replace(report, outcome=Outcome.FAILED) if report else None


class Deaf(Good):
    def wake(self) -> None:
        """Hear nothing."""


class Timeless(Good):
    def submit(self, job: Job) -> None:
        super().submit(replace(job, timeout_s=None))


class ClockRunsBack(Good):
    def now(self) -> float:
        return -float(len(self.jobs))


class FindsNothing(Good):
    def _report(self, job: Job) -> Report:
        return replace(super()._report(job), state="")


class Moody(Good):
    def _report(self, job: Job) -> Report:
        report = super()._report(job)
        return replace(report, state=f"state{len(self.jobs)}") if report.state else report


class ClosesOnce(Good):
    def close(self, *, kill: bool = False) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        super().close(kill=kill)


class OneAtATime(Good):
    def submit(self, job: Job) -> None:
        super().submit(job)
        if any(held.cob.endswith("/slow") for held in self._held.values()):
            self._reports.clear()


class NoActions(Good):
    actions = frozenset({"tasks"})  # type: ignore[arg-type]


class LeavesAProcess(Good):
    left: ClassVar[list[subprocess.Popen[bytes]]] = []

    def submit(self, job: Job) -> None:
        super().submit(job)
        code = "import sys; sys.stdin.read()"
        if job.cob.endswith("/slow"):
            process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
            self.left.append(process)


def test_a_good_executor_passes_all_checks(failing: Failing) -> None:
    checks = executor_checks(_executor_case(Good))
    assert len(checks) == 18
    assert all(check.claim.endswith(".") for check in checks)
    assert not failing(checks)
    check_executor(_executor_case(Good))


@pytest.mark.parametrize(
    ("make", "caught"),
    [
        (ReportsTwice, "each_job_has_exactly_one_report"),
        (LosesJobs, "two_jobs_of_one_host_may_be_in_flight"),
        (LosesWaitZero, "wait_zero_returns_at_once"),
        (BlocksIdle, "wait_returns_when_nothing_is_in_flight"),
        (Raises, "what_cannot_start_is_a_report"),
        (FailsSilently, "failure_is_a_report_with_one_line"),
        (MixesUp, "unreachable_is_told_apart"),
        (Deaf, "wake_ends_a_wait"),
        (Timeless, "timeout_ends_one_job_only"),
        (ClockRunsBack, "clock_does_not_go_back"),
        (FindsNothing, "check_finds_a_state"),
        (Moody, "check_finds_a_state"),
        (ClosesOnce, "close_without_jobs_ends_and_may_come_twice"),
        (OneAtATime, "hosts_do_not_wait_for_each_other"),
        (NoActions, "satisfies_the_protocol"),
        (IgnoresVariables, "variables_of_a_job_count_for_it_alone"),
        (KeepsVariables, "variables_of_a_job_count_for_it_alone"),
        (Templates, "variables_of_a_job_count_for_it_alone"),
        (DropsResults, "results_are_handed_back"),
        (SpreadsResults, "results_are_handed_back"),
    ],
)
def test_an_executor_that_breaks_a_promise_is_caught(make: type[FakeExecutor], caught: str) -> None:
    (check,) = [c for c in executor_checks(_executor_case(make, 0.5)) if c.name == caught]
    with pytest.raises(AssertionError) as error:
        check()
    assert str(error.value)
    with pytest.raises(AssertionError, match=f"{caught}: "):
        check_executor(_executor_case(make, 0.5))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_that_is_left_behind_is_caught() -> None:
    case = _executor_case(LeavesAProcess)
    (check,) = [c for c in executor_checks(case) if c.name == "kill_leaves_nothing"]
    try:
        with pytest.raises(AssertionError, match=r"outlived close\(kill=True\)"):
            check()
    finally:
        for process in LeavesAProcess.left:
            process.kill()
            process.communicate()


def test_checks_without_material_are_left_out() -> None:
    case = ExecutorCase(make=Good, hosts={"a": Host(name="a")}, transition=_job)
    assert len(executor_checks(case)) == 8


def test_an_exception_that_escapes_is_said_to_be_one() -> None:
    (check,) = [
        c
        for c in executor_checks(_executor_case(Raises))
        if c.name == "failure_is_a_report_with_one_line"
    ]
    with pytest.raises(AssertionError, match="let an exception escape: FileNotFoundError"):
        check()
