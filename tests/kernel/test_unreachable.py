"""The stop-all threshold: transitions wait until enough hosts have answered, or none begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.kernel._dispatch import Dispatcher
from cobweb.kernel._result import Ending, RunResult
from cobweb.kernel._unreachable_threshold import UnreachableThreshold
from cobweb.model import (
    Cob,
    CobId,
    CobType,
    Graph,
    Host,
    Job,
    JobKind,
    Nothing,
    Outcome,
    Report,
    Tasks,
    TransitionNeed,
)
from cobweb.plugin import ExecutorSetting
from cobweb.testing import FakeExecutor
from tests.support.graphs import graph_of, graphs

MakeRig = Callable[..., Any]
MakeType = Callable[..., CobType]

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
    threshold = UnreachableThreshold(hosts=len(HOSTS), most=most)
    for host in sorted(asked):
        assert threshold.ask(host)
        assert not threshold.ask(host)
    for host in sorted(answered | lost):
        threshold.heard(host)
    silent = sorted(asked - answered - lost)
    ends = chain.from_iterable(combinations(silent, n) for n in range(len(silent) + 1))
    assert threshold.lets_go(lost) == all(not threshold.refusal({*lost, *more}) for more in ends)
    assert bool(threshold.refusal(lost)) == (len(lost) > most)


def test_the_refusal_names_hosts_the_share_and_the_option() -> None:
    threshold = UnreachableThreshold(hosts=20, most=2)
    assert threshold.refusal({"c", "a", "b"}) == (
        "3 of 20 hosts cannot be reached (a, b, c), --max-unreachable allows 2"
    )
    assert "(h0, h1, h2, h3, h4 and 4 more)" in threshold.refusal({f"h{n}" for n in range(9)})


def test_without_a_bound_nothing_is_asked_and_nothing_refused() -> None:
    threshold = UnreachableThreshold(hosts=6, most=None)
    assert not threshold.ask("a")
    assert threshold.lets_go(HOSTS)
    assert threshold.refusal(HOSTS) == ""


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
    assert dispatcher.reaches(Tasks(path="/work.yml"))
    assert not dispatcher.reaches(Nothing())


# --- in a run


def silent(hosts: AbstractSet[str], *, in_checks: bool = True) -> Callable[[Job], Report | None]:
    """Return an answer for hosts that cannot be reached, if not at once then by transitions."""

    def answer(job: Job) -> Report | None:
        if job.host not in hosts or (job.kind is JobKind.CHECK and not in_checks):
            return None
        return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")

    return answer


def six(simple_type: CobType) -> Graph:
    """Return two objects on each of six hosts, the second of which needs the first."""
    ids = [CobId(f"{host}/{name}") for host in HOSTS for name in ("one", "two")]
    needs = [
        TransitionNeed(cob=CobId(f"{host}/two"), source="*", dest="up", on=on, state="up")
        for host in HOSTS
        for on in ids
        if on == f"{host}/one"
    ]
    return Graph(cobs={cob: Cob(id=cob, type=simple_type) for cob in ids}, needs=tuple(needs))


def guarded(most: int | None, hosts: int = len(HOSTS)) -> dict[str, Any]:
    return {"hosts": hosts, "max_unreachable": most}


def kinds(run: Any) -> list[tuple[JobKind, str]]:
    """Return what was submitted, in its order, and to which host."""
    return [(job.kind, job.host) for what, job in run.tape.happened if what == "submit"]


def test_too_many_silent_hosts_leave_everything_as_it_is(
    rig: MakeRig, simple_type: MakeType
) -> None:
    run = rig(six(simple_type()), answer=silent({"b", "d", "f"}), setting=guarded(2))
    result: RunResult = run.go()
    assert run.executor.transitions() == ()
    assert (result.ending, result.exit_code) == (Ending.FAILED, 1)
    assert result.stopped == (
        "3 of 6 hosts cannot be reached (b, d, f), --max-unreachable allows 2; nothing was changed"
    )
    assert run.said == ["too many hosts cannot be reached: nothing new is started"]


def test_as_many_silent_hosts_as_may_be_stand_in_nobodys_way(
    rig: MakeRig, simple_type: MakeType
) -> None:
    run = rig(six(simple_type()), answer=silent({"b", "d"}), setting=guarded(2))
    result: RunResult = run.go()
    assert {cob.partition("/")[0] for cob, _, _ in run.executor.transitions()} == set("acef")
    assert result.counts["transitions"] == 8
    assert (result.exit_code, result.stopped) == (1, "")


@pytest.mark.parametrize("most", range(len(HOSTS)))
def test_transitions_wait_for_as_many_answers_as_it_takes(
    rig: MakeRig, simple_type: MakeType, most: int
) -> None:
    """One job at a time: the first check of each host goes first, and nothing waits for all."""
    run = rig(six(simple_type()), setting=guarded(most), parallel=1)
    assert run.go().ending is Ending.OK
    order = kinds(run)
    begun = order.index(next(each for each in order if each[0] is JobKind.TRANSITION))
    assert sorted(host for _, host in order[:6]) == list(HOSTS)
    assert begun >= len(HOSTS) - most


def test_hosts_that_are_lost_later_let_nothing_new_begin(
    rig: MakeRig, simple_type: MakeType
) -> None:
    answer = silent({"a", "b", "c"}, in_checks=False)
    run = rig(six(simple_type()), answer=answer, setting=guarded(2), parallel=1)
    result: RunResult = run.go()
    assert "(a, b, c)" in result.stopped
    assert not result.stopped.endswith("nothing was changed")
    lost = [host for kind, host in kinds(run) if kind is JobKind.TRANSITION]
    assert lost[-1] == "c"
    assert result.exit_code == 1


def test_hosts_without_a_first_check_are_not_asked(rig: MakeRig, simple_type: MakeType) -> None:
    graph = six(simple_type())
    known = {cob: "up" for cob in graph.cobs if not cob.startswith("a/")}
    run = rig(graph, known=known, answer=silent({*"abc"}), setting=guarded(0, 6))
    assert run.go().stopped.startswith("1 of 6 hosts cannot be reached (a), ")
    assert {host for _, host in kinds(run)} == {"a"}


@given(st.data(), graphs())
def test_guarded_runs_end_and_change_all_that_they_may_or_nothing(
    rig: MakeRig, data: st.DataObject, graph: Graph
) -> None:
    hosts = sorted(graph.hosts())
    lost = data.draw(st.sets(st.sampled_from(hosts)), label="lost")
    most = data.draw(st.integers(0, len(hosts)), label="most")
    known = {
        cob: data.draw(st.sampled_from(it.type.states), label=cob)
        for cob, it in graph.cobs.items()
        if data.draw(st.booleans())
    }
    options = {"known": known, "states": dict(known), "answer": silent(lost), "parallel": 2}
    run = rig(graph, setting=guarded(most, len(hosts)), **options)
    plain = rig(graph, **options)
    result, free = run.go(), plain.go()
    asked = {cob.partition("/")[0] for cob in graph.cobs if cob not in known}
    if len(asked & lost) > most:
        assert run.executor.transitions() == ()
        assert result.stopped.endswith("nothing was changed")
        assert result.exit_code == 1
    elif not result.stopped:
        assert {wait.cob for wait in result.waits} == {wait.cob for wait in free.waits}


# --- a host behind another one


FW, APP, SLOW = CobId("r/fw"), CobId("s/app"), CobId("s/slow")


class Router:
    """A run whose first check of `s/slow` is cut off while `r/fw` makes its router reboot.

    `first` says what ends first: that check, or the reboot. The host answers `questions` later.
    """

    def __init__(self, rig: MakeRig, *, first: CobId, questions: int = 0, needs: str = "") -> None:
        self.first, self.questions = first, questions
        self.asked: list[CobId] = []
        self.silence = Outcome.UNREACHABLE
        self.rebooted = False
        needs = needs or "s/app down>up r/fw up; s/slow down>up r/fw up"
        graph = graph_of("r/fw s/app s/slow", *needs.split("; "))
        work = Tasks(path="/work.yml")
        kinds = {cob: replace(it.type, check=work) for cob, it in graph.cobs.items()}
        steps = {
            cob: tuple(replace(step, action=work) for step in kind.transitions)
            for cob, kind in kinds.items()
        }
        cobs = {
            cob: replace(it, type=replace(kinds[cob], transitions=steps[cob]))
            for cob, it in graph.cobs.items()
        }
        self.run = rig(replace(graph, cobs=cobs), answer=self.answer)
        self.run.executor.hold(SLOW)
        submit = self.run.executor.submit

        def submit_and_reboot(job: Job) -> None:
            if (job.kind, job.cob) == (JobKind.TRANSITION, FW):
                self.run.executor.hold(FW)
                submit(job)
                for cob in (FW, SLOW) if first == FW else (SLOW, FW):
                    outcome = Outcome.OK if cob == FW else Outcome.UNREACHABLE
                    self.run.executor.finish(cob, outcome)
                self.rebooted = True
            else:
                submit(job)

        self.run.executor.submit = submit_and_reboot

    def answer(self, job: Job) -> Report | None:
        if not self.rebooted or job.host != "s":
            return None
        self.asked.append(job.cob)
        if len(self.asked) <= self.questions:
            return Report(number=job.number, outcome=self.silence, message="no route")
        return None


@pytest.mark.parametrize("first", [FW, SLOW])
def test_a_host_that_a_reboot_of_its_router_cut_off_is_asked_again(
    rig: MakeRig, first: CobId
) -> None:
    """Also where its connection notices only after the router is back."""
    router = Router(rig, first=first)
    result = router.run.go()
    assert result.ending is Ending.OK
    hosts = [router.run.events(f"host.{word}") for word in ("unreachable", "returned")]
    assert [[it["host"] for it in events] for events in hosts] == [["s"], ["s"]]
    assert "unreachable" not in router.run.events("run.end")[0]
    assert router.run.executor.states == {FW: "up", APP: "up", SLOW: "up"}


@pytest.mark.parametrize("silence", [Outcome.UNREACHABLE, Outcome.TIMEOUT])
def test_a_host_that_stays_silent_is_asked_once_more_and_given_up(
    rig: MakeRig, silence: Outcome
) -> None:
    router = Router(rig, first=SLOW, questions=99)
    router.silence = silence
    result = router.run.go()
    assert result.exit_code == 1
    assert len(router.asked) == 1
    assert router.run.events("run.end")[0]["unreachable"] == {"s": "finished: unreachable"}
    assert not router.run.events("host.returned")


def test_a_host_is_not_asked_again_for_what_its_objects_do_not_need(rig: MakeRig) -> None:
    router = Router(rig, first=SLOW, needs="s/app down>up s/slow up")
    assert router.run.go().exit_code == 1
    assert router.asked == []
