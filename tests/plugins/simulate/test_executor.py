"""The simulator: states, failures, and a clock that moves without sleeping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import ExecutorError
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
    Tasks,
    host_of,
)
from cobweb.plugin import ExecutorSetting
from cobweb_plugins.simulate import SimulateExecutor

TASKS = Tasks(path="/x.yml")


def _open(*, seed: int = 0, **options: Any) -> SimulateExecutor:
    executor = SimulateExecutor()
    here = Path()
    executor.open(
        ExecutorSetting(
            hosts={},
            site_dir=here,
            work_dir=here,
            parallel=99,
            timeout_s=60,
            seed=seed,
            options=options,
        )
    )
    return executor


def _check(number: int, cob: str) -> Job:
    return Job(
        number=number,
        kind=JobKind.CHECK,
        cob=CobId(cob),
        host=host_of(CobId(cob)),
        type_name="service",
        action=TASKS,
        cob_vars={},
    )


def _move(
    number: int,
    cob: str,
    dest: str = "up",
    *,
    timeout_s: float | None = None,
    action: Action = TASKS,
) -> Job:
    return Job(
        number=number,
        kind=JobKind.TRANSITION,
        cob=CobId(cob),
        host=host_of(CobId(cob)),
        type_name="service",
        action=action,
        cob_vars={},
        source="down",
        dest=dest,
        timeout_s=timeout_s,
    )


def _run(executor: SimulateExecutor, *jobs: Job) -> list[Report]:
    for job in jobs:
        executor.submit(job)
    reports: list[Report] = []
    while len(reports) < len(jobs):
        reports += executor.wait(None)
    return reports


def _state(executor: SimulateExecutor, cob: str) -> str:
    (report,) = _run(executor, _check(99, cob))
    assert report.outcome is Outcome.OK
    return report.state


def test_a_check_finds_the_one_initial_state_of_all() -> None:
    executor = _open(initial="outdated", defaults={"a/x": "down"})
    assert _state(executor, "a/x") == "outdated"


def test_a_check_finds_the_initial_state_by_id_and_else_the_default() -> None:
    executor = _open(initial={"a/x": "up"}, defaults={"a/x": "down", "b/x": "down"})
    assert (_state(executor, "a/x"), _state(executor, "b/x")) == ("up", "down")


def test_a_check_fails_where_nothing_says_the_state() -> None:
    (report,) = _run(_open(), _check(1, "a/x"))
    assert report.outcome is Outcome.FAILED
    assert report.message


def test_a_transition_moves_the_state_in_one_second() -> None:
    executor = _open(initial="down")
    assert executor.now() == 0.0
    (report,) = _run(executor, _move(1, "a/x"))
    assert report == Report(number=1, outcome=Outcome.OK)
    assert executor.now() == 1.0
    assert _state(executor, "a/x") == "up"
    assert executor.now() == 1.0


def test_a_failing_object_stays_in_its_state_and_checks_still_work() -> None:
    executor = _open(initial="down", fail=["a/x"])
    (report,) = _run(executor, _move(1, "a/x"))
    assert (report.outcome, report.message) == (Outcome.FAILED, "simulated: down -> up fails")
    assert _state(executor, "a/x") == "down"


@pytest.mark.parametrize("job", [_check(1, "gone/x"), _move(1, "gone/x")], ids=["check", "move"])
def test_an_unreachable_host_is_said_to_be_so_at_once(job: Job) -> None:
    executor = _open(initial="down", unreachable=["gone"])
    (report,) = _run(executor, job)
    assert report.outcome is Outcome.UNREACHABLE
    assert "gone" in report.message
    assert executor.now() == 0.0


@pytest.mark.parametrize(
    ("durations", "seconds"),
    [
        ({"a/x": 5, "x": 7, "service": 9}, 5.0),
        ({"x": 7, "service": 9}, 7.0),
        ({"service": 9}, 9.0),
        ({"other": 9}, 1.0),
        ({"x": 0}, 0.0),
        ({"x": 0.25}, 0.25),
    ],
)
def test_duration_goes_by_id_then_name_then_type(
    durations: dict[str, float], seconds: float
) -> None:
    executor = _open(initial="down", durations=durations)
    _run(executor, _move(1, "a/x"))
    assert executor.now() == seconds


def test_a_range_is_drawn_from_the_seed() -> None:
    def ends(seed: int) -> list[float]:
        executor = _open(seed=seed, initial="down", durations={"service": [2, 4]})
        times = []
        for number in range(1, 5):
            _run(executor, _move(number, "a/x"))
            times.append(executor.now())
        return times

    assert ends(1) == ends(1) != ends(2)
    spans = [b - a for a, b in zip([0.0, *ends(1)], ends(1), strict=False)]
    assert all(2 <= span <= 4 for span in spans)
    assert len(set(spans)) == 4


def test_an_action_without_work_takes_as_long_as_any_other() -> None:
    executor = _open(initial="down")
    _run(executor, _move(1, "a/x", action=Nothing()))
    assert executor.now() == 1.0
    told = _open(initial="down", durations={"x": 3})
    _run(told, _move(1, "a/x", action=Nothing()))
    assert told.now() == 3.0


def test_the_own_timeout_of_a_job_ends_it_where_it_is() -> None:
    executor = _open(initial="down", durations={"x": 100})
    (report,) = _run(executor, _move(1, "a/x", timeout_s=30))
    assert report.outcome is Outcome.TIMEOUT
    assert executor.now() == 30.0
    assert _state(executor, "a/x") == "down"


def test_the_default_timeout_does_not_bound_simulated_time() -> None:
    executor = _open(initial="down", durations={"x": 10_000})
    (report,) = _run(executor, _move(1, "a/x"))
    assert report.outcome is Outcome.OK


def test_wait_moves_the_clock_by_its_timeout_at_most() -> None:
    executor = _open(initial="down", durations={"x": 10})
    executor.submit(_move(1, "a/x"))
    assert list(executor.wait(4)) == []
    assert executor.now() == 4.0
    assert [report.number for report in executor.wait(60)] == [1]
    assert executor.now() == 10.0
    assert list(executor.wait(5)) == []
    assert executor.now() == 15.0
    assert list(executor.wait(None)) == []
    assert executor.now() == 15.0


def test_wake_keeps_the_clock_where_it_is_for_one_wait() -> None:
    executor = _open(initial="down")
    executor.submit(_move(1, "a/x"))
    executor.wake()
    assert list(executor.wait(None)) == []
    assert executor.now() == 0.0
    assert [report.number for report in executor.wait(None)] == [1]


def test_jobs_that_end_together_come_in_the_order_of_their_numbers() -> None:
    executor = _open(initial="down")
    jobs = [_move(number, f"h{number}/x") for number in (3, 1, 2)]
    for job in jobs:
        executor.submit(job)
    assert [report.number for report in executor.wait(None)] == [1, 2, 3]


def test_closing_forgets_what_is_in_flight() -> None:
    executor = _open(initial="down")
    executor.submit(_move(1, "a/x"))
    executor.close(kill=True)
    assert list(executor.wait(None)) == []


def test_it_takes_every_kind_of_action() -> None:
    assert SimulateExecutor.actions == {Nothing, PythonAction, Role, Tasks}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial": 3}, "initial is 3"),
        ({"initial": {"a/x": 1}}, "initial[a/x] is 1"),
        ({"defaults": "up"}, "defaults is 'up'"),
        ({"fail": "a/x"}, "fail is 'a/x'"),
        ({"fail": [1]}, "fail is [1]"),
        ({"fail": 1}, "fail is 1"),
        ({"unreachable": "gone"}, "unreachable is 'gone'"),
        ({"durations": [1]}, "durations is [1]"),
        ({"durations": {"x": "1"}}, "durations[x] is '1'"),
        ({"durations": {"x": -1}}, "durations[x] is -1"),
        ({"durations": {"x": True}}, "durations[x] is True"),
        ({"durations": {"x": [3, 2]}}, "durations[x] is [3, 2]"),
        ({"durations": {"x": [1, 2, 3]}}, "durations[x] is [1, 2, 3]"),
        ({"durations": {"x": float("inf")}}, "durations[x] is inf"),
        ({"durations": {"x": float("nan")}}, "durations[x] is nan"),
    ],
)
def test_a_wrong_option_is_refused_with_a_hint(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ExecutorError) as caught:
        _open(**options)
    assert caught.value.message == f"simulate: {message}"
    assert caught.value.hint


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=20),
    st.lists(st.floats(0, 5), max_size=30),
)
def test_never_a_lost_or_double_report_and_never_a_clock_that_goes_back(
    jobs: list[tuple[int, int]], timeouts: list[float]
) -> None:
    durations = {f"h{host}/c{seconds}": seconds for host, seconds in jobs}
    executor = _open(initial="down", durations=durations)
    for number, (host, seconds) in enumerate(jobs):
        executor.submit(_move(number, f"h{host}/c{seconds}"))
    reported: list[int] = []
    before = executor.now()
    for timeout_s in [*timeouts, *[None] * len(jobs)]:
        reported += [report.number for report in executor.wait(timeout_s)]
        assert executor.now() >= before
        before = executor.now()
    ends = [float(jobs[number][1]) for number in reported]
    assert ends == sorted(ends)
    assert sorted(reported) == list(range(len(jobs)))
