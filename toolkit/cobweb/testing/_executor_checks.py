"""Conformance checks for executors: the promises of `cobweb.plugin.Executor`, one by one."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any

from cobweb.model import Host, Job, Outcome, Report
from cobweb.plugin import Executor, ExecutorSetting, Kind
from cobweb.testing._checks import BOUND_S, Kit, bounded, expect, satisfies

MakeJob = Callable[[int, str], Job]
"""Makes a job from its number and the name of its host."""

ROUNDS = 1_000
MARK = "COBWEB_CONFORMANCE"
TOLD, NOT_TOLD = "cobweb_told", "nothing"
"""The host's variable that a job of `told` tells of, and what it tells where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCase:
    """What the kit needs to try an executor; checks whose material is None are left out.

    `make` returns a new executor. `hosts` are at least two that can be reached. `transition` makes
    a job that succeeds; `check` one that finds a state; `failing` one that fails; `slow` one that
    runs much longer than the others (seconds of the executor's own clock) and can be killed;
    `broken` one that can't even start (a missing task file, ...). `unreachable` is one more host, a
    name of `hosts`, that cannot be reached. `told` makes a check whose state is what the variable
    `cobweb_told` of its host says, `nothing` without one, and which hands that back as the result
    `told`.
    """

    make: Callable[[], Executor]
    hosts: Mapping[str, Host]
    transition: MakeJob
    check: MakeJob | None = None
    failing: MakeJob | None = None
    slow: MakeJob | None = None
    broken: MakeJob | None = None
    told: MakeJob | None = None
    unreachable: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    roles_path: tuple[Path, ...] = ()
    parallel: int = 8
    timeout_s: float = 60.0
    bound_s: float = BOUND_S

    def reachable(self) -> tuple[str, ...]:
        """Return the names of the hosts that can be reached, sorted."""
        return tuple(sorted(name for name in self.hosts if name != self.unreachable))


def _in_session(body: Callable[..., None]) -> Callable[..., None]:
    """Make a check of what `body` does with an open executor, which is closed after.

    All is done in one thread, bounded in time. `body` gets the case, the executor, and what a kit
    gives its checks besides.
    """

    @wraps(body)
    def check(case: ExecutorCase, *given: Any) -> None:
        def run() -> None:
            with tempfile.TemporaryDirectory() as folder:
                executor = case.make()
                executor.open(_setting(case, Path(folder)))
                try:
                    body(case, executor, *given)
                finally:
                    executor.close(kill=True)

        bounded("the executor", run, case.bound_s)

    return check


@_in_session
def each_job_has_exactly_one_report(case: ExecutorCase, executor: Executor) -> None:
    """Every job is reported once, under its number, and succeeds."""
    hosts = case.reachable()
    jobs = [case.transition(n + 1, hosts[n % len(hosts)]) for n in range(case.parallel)]
    for report in _carry_out(executor, jobs):
        expect(report.outcome is Outcome.OK, f"job {report.number} ended as {report}")


@_in_session
def fresh_job_is_carried_out_beside_others(case: ExecutorCase, executor: Executor) -> None:
    """A job that asks for a connection of its own ends as the others do that share theirs."""
    host = case.reachable()[0]
    jobs = [replace(case.transition(n + 1, host), fresh=n % 2 == 1) for n in range(4)]
    for report in [*_carry_out(executor, jobs[:1]), *_carry_out(executor, jobs[1:])]:
        expect(report.outcome is Outcome.OK, f"job {report.number} ended as {report}")


@_in_session
def wait_zero_returns_at_once(case: ExecutorCase, executor: Executor) -> None:
    """wait(0) comes back, with and without jobs in flight, and loses no report."""
    expect(not executor.wait(0), "wait(0) reported a job although none was submitted")
    executor.submit(case.transition(1, case.reachable()[0]))
    early = list(executor.wait(0))
    reports = early or _collect(executor, 1)
    expect([r.number for r in reports] == [1], f"job 1 was reported as {reports}")


@_in_session
def wait_returns_when_nothing_is_in_flight(case: ExecutorCase, executor: Executor) -> None:
    """wait(None) does not block when no job is in flight."""
    expect(not executor.wait(None), "wait(None) reported a job although none was submitted")
    _carry_out(executor, [case.transition(1, case.reachable()[0])])
    expect(not executor.wait(None), "wait(None) reported a job twice")


@_in_session
def two_jobs_of_one_host_may_be_in_flight(case: ExecutorCase, executor: Executor) -> None:
    """Two jobs of one host, submitted together, both end well."""
    host = case.reachable()[0]
    reports = _carry_out(executor, [case.transition(1, host), case.transition(2, host)])
    for report in reports:
        expect(report.outcome is Outcome.OK, f"job {report.number} ended as {report}")


@_in_session
def clock_does_not_go_back(case: ExecutorCase, executor: Executor) -> None:
    """now() is a number of seconds that never falls."""
    before = executor.now()
    _carry_out(executor, [case.transition(1, case.reachable()[0])])
    after = executor.now()
    expect(isinstance(before, float), f"now() returned {before!r}, not a float")
    expect(after >= before, f"now() went from {before} back to {after}")


@_in_session
def close_without_jobs_ends_and_may_come_twice(_case: ExecutorCase, executor: Executor) -> None:
    """close() ends when nothing was submitted, and a second close() changes nothing."""
    executor.close()
    executor.close(kill=True)


@_in_session
def check_finds_a_state(case: ExecutorCase, executor: Executor, check: MakeJob) -> None:
    """A check reports a state, and again the same one: it has changed nothing."""
    host = case.reachable()[0]
    states = [_carry_out(executor, [check(n, host)])[0] for n in (1, 2)]
    for report in states:
        expect(report.outcome is Outcome.OK, f"the check ended as {report}")
        expect(report.state, "the check reported no state")
    expect(states[0].state == states[1].state, f"two checks found {states}")


@_in_session
def failure_is_a_report_with_one_line(case: ExecutorCase, executor: Executor, bad: MakeJob) -> None:
    """A job that fails is reported as failed, with one line why; others go on."""
    _one_bad_one_good(case, executor, bad(1, case.reachable()[0]), Outcome.FAILED)


@_in_session
def what_cannot_start_is_a_report(case: ExecutorCase, executor: Executor, broken: MakeJob) -> None:
    """A job that cannot even start is reported as failed; nothing is raised, others go on."""
    _one_bad_one_good(case, executor, broken(1, case.reachable()[0]), Outcome.FAILED)


@_in_session
def variables_of_a_job_count_for_it_alone(
    case: ExecutorCase, executor: Executor, told: MakeJob
) -> None:
    """Each job has the host's variables that it came with, as they are, and no other job's."""
    host = case.reachable()[0]
    for number, value in enumerate(("one", "two", "{{ 1 + 1 }}", None), start=1):
        mine = {} if value is None else {TOLD: value}
        (report,) = _carry_out(executor, [replace(told(number, host), host_vars=mine)])
        wanted = NOT_TOLD if value is None else value
        expect(report.state == wanted, f"with {TOLD} = {value!r} the job ended as {report}")


@_in_session
def results_are_handed_back(case: ExecutorCase, executor: Executor, told: MakeJob) -> None:
    """What a job hands back is in its report, and in no other."""
    host = case.reachable()[0]
    mine = replace(told(1, host), host_vars={TOLD: "one"})
    (first,) = _carry_out(executor, [mine])
    expect(first.results == {"told": "one"}, f"expected the result `told`, not {first}")
    (second,) = _carry_out(executor, [case.transition(2, host)])
    expect(not second.results, f"a job that hands nothing back ended as {second}")


@_in_session
def unreachable_is_told_apart(case: ExecutorCase, executor: Executor, unreachable: str) -> None:
    """A host that cannot be reached is reported as unreachable, not as failed; others go on."""
    _one_bad_one_good(case, executor, case.transition(1, unreachable), Outcome.UNREACHABLE)


@_in_session
def hosts_do_not_wait_for_each_other(case: ExecutorCase, executor: Executor, slow: MakeJob) -> None:
    """Jobs of one host end while a slow job of another is still in flight."""
    slow_host, *others = case.reachable()
    executor.submit(slow(1, slow_host))
    numbers = range(2, 2 + len(others))
    for number, host in zip(numbers, others, strict=True):
        executor.submit(case.transition(number, host))
    reports = _collect(executor, len(others))
    ended = sorted(report.number for report in reports)
    expect(ended == list(numbers), f"with job 1 slow, {list(numbers)} should end, not {ended}")


@_in_session
def wake_ends_a_wait(case: ExecutorCase, executor: Executor, slow: MakeJob) -> None:
    """wake(), from another thread or before the call, ends a wait(None) on a slow job."""
    executor.submit(slow(1, case.reachable()[0]))
    executor.wake()
    executor.wait(None)
    threading.Thread(target=executor.wake, daemon=True).start()
    executor.wait(None)


@_in_session
def timeout_ends_one_job_only(case: ExecutorCase, executor: Executor, slow: MakeJob) -> None:
    """A job that outlives its own timeout is reported as such; another on its host ends well."""
    host = case.reachable()[0]
    _one_bad_one_good(case, executor, replace(slow(1, host), timeout_s=2.0), Outcome.TIMEOUT)


@_in_session
def kill_leaves_nothing(case: ExecutorCase, executor: Executor, slow: MakeJob) -> None:
    """close(kill=True) ends running jobs and leaves no process behind (looked for on Linux)."""
    with _marked_environment() as mark:
        for number, host in enumerate(case.reachable(), start=1):
            executor.submit(slow(number, host))
        executor.wait(0)
        executor.close(kill=True)
        left = list(_processes_with(mark))
    expect(not left, f"processes outlived close(kill=True): {left}")


_KIT = Kit(
    always=[
        satisfies(Kind.EXECUTORS),
        each_job_has_exactly_one_report,
        fresh_job_is_carried_out_beside_others,
        wait_zero_returns_at_once,
        wait_returns_when_nothing_is_in_flight,
        two_jobs_of_one_host_may_be_in_flight,
        clock_does_not_go_back,
        close_without_jobs_ends_and_may_come_twice,
    ],
    given={
        "check": [check_finds_a_state],
        "failing": [failure_is_a_report_with_one_line],
        "broken": [what_cannot_start_is_a_report],
        "told": [variables_of_a_job_count_for_it_alone, results_are_handed_back],
        "unreachable": [unreachable_is_told_apart],
        "slow": [
            hosts_do_not_wait_for_each_other,
            wake_ends_a_wait,
            timeout_ends_one_job_only,
            kill_leaves_nothing,
        ],
    },
)
executor_checks, check_executor = _KIT.checks, _KIT.check


def _one_bad_one_good(case: ExecutorCase, executor: Executor, bad: Job, outcome: Outcome) -> None:
    good = case.transition(2, case.reachable()[-1])
    first, second = _carry_out(executor, [bad, good])
    expect(first.outcome is outcome, f"expected {outcome}, the job ended as {first}")
    lines = first.message.splitlines()
    expect(len(lines) == 1, f"expected one line on what went wrong, got {first.message!r}")
    expect(second.outcome is Outcome.OK, f"the good job beside it ended as {second}")


def _setting(case: ExecutorCase, folder: Path) -> ExecutorSetting:
    site, work = folder / "site", folder / "work"
    site.mkdir()
    work.mkdir()
    return ExecutorSetting(
        hosts=case.hosts,
        site_dir=site,
        work_dir=work,
        parallel=case.parallel,
        timeout_s=case.timeout_s,
        roles_path=case.roles_path,
        options=case.options,
    )


def _carry_out(executor: Executor, jobs: Sequence[Job]) -> list[Report]:
    """Submit the jobs and return their reports, sorted by number; exactly one for each."""
    for job in jobs:
        executor.submit(job)
    reports = _collect(executor, len(jobs))
    reports += executor.wait(0)
    numbers = sorted(report.number for report in reports)
    wanted = sorted(job.number for job in jobs)
    expect(numbers == wanted, f"jobs {wanted} were submitted, {numbers} were reported")
    return sorted(reports, key=lambda report: report.number)


def _collect(executor: Executor, count: int) -> list[Report]:
    reports: list[Report] = []
    for _ in range(ROUNDS):
        reports += executor.wait(None)
        if len(reports) >= count:
            return reports
    raise AssertionError(f"wait(None) came back {ROUNDS} times with {len(reports)} of {count} jobs")


@contextmanager
def _marked_environment() -> Iterator[str]:
    """Mark all processes that are started within, so that orphans are found as well."""
    mark = uuid.uuid4().hex
    os.environ[MARK] = mark
    try:
        yield mark
    finally:
        del os.environ[MARK]


def _processes_with(mark: str) -> Iterator[str]:
    if sys.platform != "linux":
        return
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes()
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if marked:
            yield f"{folder.name} {b' '.join(words).decode(errors='replace').strip()}"
