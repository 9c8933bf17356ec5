"""The fake executor: answers at once, as the test says, or when the test says so."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cobweb.model import CobId, Job, JobKind, Nothing, Outcome, Report, host_of
from cobweb.plugin import Executor, ExecutorSetting
from cobweb.testing import FakeExecutor

A = CobId("a/x")
B = CobId("b/x")


def _move(number: int, cob: CobId) -> Job:
    return Job(
        number=number,
        kind=JobKind.TRANSITION,
        cob=cob,
        host=host_of(cob),
        type_name="t",
        action=Nothing(),
        cob_vars={},
        source="down",
        dest="up",
    )


def _check(number: int, cob: CobId) -> Job:
    return Job(
        number=number,
        kind=JobKind.CHECK,
        cob=cob,
        host=host_of(cob),
        type_name="t",
        action=Nothing(),
        cob_vars={},
    )


def test_it_remembers_the_setting_the_jobs_and_how_it_was_closed() -> None:
    fake = FakeExecutor()
    setting = ExecutorSetting(hosts={}, site_dir=Path(), work_dir=Path(), parallel=1, timeout_s=1)
    fake.open(setting)
    fake.submit(_check(1, A))
    fake.submit(_move(2, A))
    fake.close(kill=True)
    assert isinstance(fake, Executor)
    assert fake.setting is setting
    assert [job.number for job in fake.jobs] == [1, 2]
    assert fake.transitions() == ((A, "down", "up"),)
    assert (fake.closed, fake.killed) == (True, True)


def test_checks_find_states_and_transitions_move_them() -> None:
    fake = FakeExecutor(states={A: "outdated"}, default="down")
    for number, job in enumerate([_check(0, A), _check(1, B), _move(2, B), _check(3, B)]):
        assert job.number == number
        fake.submit(job)
    assert [report.state for report in fake.wait(None)] == ["outdated", "down", "", "up"]


def test_a_test_may_answer_itself() -> None:
    def answer(job: Job) -> Report | None:
        if job.cob == A:
            return Report(number=job.number, outcome=Outcome.FAILED, message="no")
        return None

    fake = FakeExecutor(answer=answer)
    fake.submit(_move(1, A))
    fake.submit(_move(2, B))
    assert [report.outcome for report in fake.wait(0)] == [Outcome.FAILED, Outcome.OK]
    assert fake.states == {B: "up"}


def test_a_held_job_ends_when_the_test_says_so() -> None:
    fake = FakeExecutor()
    fake.hold(A)
    fake.submit(_move(1, A))
    fake.submit(_move(2, B))
    assert [report.number for report in fake.wait(None)] == [2]
    thread = threading.Thread(target=fake.finish, args=(A, Outcome.TIMEOUT))
    thread.start()
    (report,) = fake.wait(None)
    thread.join()
    assert (report.number, report.outcome) == (1, Outcome.TIMEOUT)
    fake.submit(_move(3, A))
    assert [report.number for report in fake.wait(0)] == [3]


def test_a_test_can_wait_until_a_job_is_held() -> None:
    fake = FakeExecutor()
    fake.hold(A)
    thread = threading.Thread(target=fake.submit, args=(_move(1, A),))
    thread.start()
    assert fake.await_held(A).number == 1
    thread.join()
    with pytest.raises(AssertionError, match="no job of b/x was submitted within 0 s"):
        fake.await_held(B, timeout_s=0)


def test_wake_ends_a_wait_on_a_held_job() -> None:
    fake = FakeExecutor()
    fake.hold(A)
    fake.submit(_move(1, A))
    fake.wake()
    assert list(fake.wait(None)) == []


def test_the_clock_moves_by_timeouts_without_sleeping() -> None:
    fake = FakeExecutor()
    assert list(fake.wait(3600)) == []
    assert fake.now() == 3600.0
    assert list(fake.wait(None)) == []
    assert fake.now() == 3600.0


def test_killing_cancels_held_jobs_and_closing_forgets_them() -> None:
    fake = FakeExecutor()
    fake.hold(A)
    fake.submit(_move(1, A))
    fake.close(kill=True)
    assert [report.outcome for report in fake.wait(0)] == [Outcome.CANCELLED]
    assert list(fake.wait(None)) == []
