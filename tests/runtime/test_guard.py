"""The stop-all guard: transitions wait until enough hosts have answered, or none of them begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import CobId, Host, Job, JobKind, Nothing, Tasks
from cobweb.plugin import ExecutorSetting
from cobweb.runtime._dispatch import Dispatcher
from cobweb.runtime._guard import Guard
from cobweb.testing import FakeExecutor

HOSTS = tuple("abcdef")


class Worker(FakeExecutor):
    """A fake executor that leaves actions without work to the runtime."""

    actions = frozenset({Tasks})


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    """Return a dispatcher of one job at a time, in which `a/heavy` is the heaviest object."""
    setting = ExecutorSetting(
        hosts={"a": Host(name="a")}, site_dir=Path(), work_dir=Path(), parallel=1, timeout_s=30
    )
    executor = Worker()
    executor.open(setting)
    yield Dispatcher(executor, setting, weights={CobId("a/heavy"): 9.0})
    executor.close(kill=True)


def job(number: int, cob: str, kind: JobKind = JobKind.CHECK) -> Job:
    return Job(
        number=number,
        kind=kind,
        cob=CobId(cob),
        host=cob.partition("/")[0],
        type_name="simple",
        action=Tasks(path="/work.yml"),
        cob_vars={},
    )


def order(dispatcher: Dispatcher) -> list[int]:
    """Carry out all that is queued, and return the numbers of the jobs as they went."""
    numbers = []
    while taken := dispatcher.take():
        dispatcher.submit(taken)
        numbers += [ended.number for ended, _ in dispatcher.wait()]
    return numbers


@given(
    st.sets(st.sampled_from(HOSTS)),
    st.sets(st.sampled_from(HOSTS)),
    st.sets(st.sampled_from(HOSTS)),
    st.integers(0, 6),
)
def test_the_guard_lets_go_exactly_if_too_many_can_no_longer_be_lost(
    asked: set[str], answered: set[str], lost: set[str], most: int
) -> None:
    guard = Guard(hosts=len(HOSTS), most=most)
    for host in sorted(asked):
        assert guard.ask(host)
        assert not guard.ask(host)
    for host in sorted(answered):
        guard.heard(host)
    silent = sorted(asked - answered - lost)
    ends = chain.from_iterable(combinations(silent, n) for n in range(len(silent) + 1))
    assert guard.lets_go(lost) == all(not guard.refusal({*lost, *more}) for more in ends)
    assert bool(guard.refusal(lost)) == (len(lost) > most)


def test_the_refusal_names_hosts_the_share_and_the_option() -> None:
    guard = Guard(hosts=20, most=2)
    assert guard.refusal({"c", "a", "b"}) == (
        "3 of 20 hosts cannot be reached (a, b, c), and --max-unreachable allows 2"
    )
    assert "(h0, h1, h2, h3, h4 and 4 more)" in guard.refusal({f"h{n}" for n in range(9)})


def test_without_a_bound_nothing_is_asked_and_nothing_refused() -> None:
    guard = Guard(hosts=6, most=None)
    assert not guard.ask("a")
    assert guard.lets_go(HOSTS)
    assert guard.refusal(HOSTS) == ""


def test_what_comes_first_goes_before_the_heaviest(dispatcher: Dispatcher) -> None:
    dispatcher.add(job(1, "a/light"))
    dispatcher.add(job(2, "a/heavy"))
    dispatcher.add(job(3, "a/light"), first=True)
    assert order(dispatcher) == [3, 2, 1]


def test_held_transitions_wait_until_they_are_let_go(dispatcher: Dispatcher) -> None:
    dispatcher.hold_transitions()
    dispatcher.add(job(1, "a/light", JobKind.TRANSITION))
    dispatcher.add(job(2, "b/light", JobKind.TRANSITION))
    dispatcher.add(job(3, "a/light"))
    assert order(dispatcher) == [3]
    assert not dispatcher.idle()
    assert [dropped.number for dropped in dispatcher.drop_waiting("b")] == [2]
    dispatcher.let_transitions_go()
    assert order(dispatcher) == [1]
    assert dispatcher.idle()
    dispatcher.add(job(4, "a/light", JobKind.TRANSITION))
    assert order(dispatcher) == [4]


def test_a_job_without_work_does_not_go_to_its_host(dispatcher: Dispatcher) -> None:
    assert dispatcher.reaches(job(1, "a/light"))
    assert not dispatcher.reaches(replace(job(1, "a/light"), action=Nothing()))
