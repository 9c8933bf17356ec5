"""Python types beyond their time limit, and while they wait: the type itself says what overlaps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from cobweb.kernel._result import Ending
from cobweb.model import Action, CobId, CobType, Graph, JobKind, PythonAction, Tasks
from cobweb.plugin import CobContext, Found
from tests.support.graphs import SIMPLE, graph_of

MakeRig = Callable[..., Any]
A = CobId("alpha/a")
CHECK = PythonAction(type_name="simple", method="check")
WORK = PythonAction(type_name="simple", method="work")


class Slow:
    """A Python type whose first `work` goes on until `over`; it notes what meets it at work."""

    name: ClassVar[str] = "simple"

    def __init__(self, *, problem: str = "") -> None:
        self.state = "down"
        self.problem = problem
        self.over = threading.Event()
        self.calls = 0
        self.at_work = False
        self.met: list[str] = []

    def cob_type(self) -> CobType:
        raise AssertionError

    def check(self, _context: CobContext) -> str | Found:
        self.meet("check")
        return self.state

    def work(self, context: CobContext) -> None:
        self.meet("work")
        self.calls += 1
        if self.calls == 1:
            self.at_work = True
            assert self.over.wait(60)
            self.at_work = False
            if self.problem:
                raise OSError(self.problem)
        self.state = context.cob["target"]

    def meet(self, what: str) -> None:
        if self.at_work:
            self.met.append(what)


def one(
    *, check: Action = CHECK, attempts: int = 1, step_s: float = 0.01, check_s: float = 60
) -> Graph:
    """Return the graph of one object whose steps and checks have so many seconds."""
    steps = tuple(
        replace(step, action=WORK, timeout_s=step_s, attempts=attempts)
        for step in SIMPLE.transitions
    )
    kind = replace(SIMPLE, check=check, transitions=steps, check_timeout_s=check_s)
    return graph_of({A: kind})


def run_of(rig: MakeRig, slow: Slow, graph: Graph, carried: Iterable[type[Action]] = ()) -> Any:
    """Return a run that lets the first call return when nothing else goes on beside it."""
    run = rig(graph, known={A: "down"}, python_types={"simple": slow})
    run.executor.actions = frozenset(carried)
    seen = [0.0, 0]

    def release_when_still() -> None:
        """Count the rounds in which the fake's clock stands, after the step was given up."""
        now_s = run.executor.now()
        given_up = run.events("transition.end") or now_s >= 1  # which is the delay of a retry
        seen[1] = seen[1] + 1 if given_up and now_s == seen[0] else 0
        seen[0] = now_s
        if seen[1] > 2:
            slow.over.set()

    run.setting |= {"beat": release_when_still, "beat_s": 0.01}
    return run


@pytest.mark.parametrize("carried", [(), (Tasks,)], ids=["a Python check", "a check by tasks"])
def test_a_check_waits_until_the_late_step_has_returned(
    rig: MakeRig, carried: tuple[type[Action], ...]
) -> None:
    slow = Slow()
    check = Tasks(path="check.yml") if carried else CHECK
    run = run_of(rig, slow, one(check=check), carried)
    submit = run.executor.submit

    def submit_and_meet(job: Any) -> None:
        slow.meet(job.kind)
        submit(job)

    run.executor.submit = submit_and_meet
    result = run.go()
    assert slow.met == []
    assert (slow.calls, slow.at_work) == (1, False)
    assert result.messages[A] == "the Python type did not return"
    assert result.exit_code == 1
    assert [job.kind for job in run.executor.jobs] == ([JobKind.CHECK] if carried else [])


@pytest.mark.parametrize("early", [False, True], ids=["behind it", "before it is due"])
def test_what_a_late_step_has_done_is_not_done_again(rig: MakeRig, *, early: bool) -> None:
    """Whether it returns while the next attempt waits for it, or for its delay."""
    slow = Slow()
    run = run_of(rig, slow, one(attempts=3, step_s=0.8))
    returned, wake = threading.Event(), run.executor.wake

    def told() -> None:
        returned.set()
        wake()

    def release_at_once() -> None:
        if run.executor.now() > 0:  # the fake's clock moves where nothing else is waited for
            slow.over.set()
            assert returned.wait(30)

    if early:
        run.executor.wake = told
        run.setting["beat"] = release_at_once
    result = run.go()
    assert (slow.met, slow.calls) == ([], 1)
    assert result.ending is Ending.OK
    (end,) = run.events("transition.end")
    assert (end["attempt"], end["result"]) == (2, "ok")


def test_a_late_step_that_failed_is_tried_again_after_it(rig: MakeRig) -> None:
    slow = Slow(problem="no room")
    result = run_of(rig, slow, one(attempts=2, step_s=0.8)).go()
    assert (slow.met, slow.calls) == ([], 2)
    assert result.ending is Ending.OK


def test_a_step_that_never_returns_keeps_its_object_and_no_run(rig: MakeRig) -> None:
    slow = Slow()
    run = run_of(rig, slow, one(check_s=0.05))
    del run.setting["beat"]
    result = run.go()
    slow.over.set()
    assert slow.met == []
    assert (result.exit_code, result.messages) == (1, {A: "the Python type did not return"})


def test_an_interrupt_does_not_wait_for_what_waits_for_a_late_step(rig: MakeRig) -> None:
    slow = Slow()
    run = run_of(rig, slow, one())

    def interrupt_once_late() -> None:
        if run.events("transition.end") and not run.interrupts.count:
            run.interrupts()

    run.setting["beat"] = interrupt_once_late
    result = run.go()
    assert not slow.over.is_set()
    slow.over.set()
    assert slow.met == []
    assert result.ending is Ending.INTERRUPTED


def test_calls_that_wait_take_no_room_of_what_goes_to_hosts(rig: MakeRig) -> None:
    """Twelve steps wait for each other, and for what runs on a host, with room for one job."""
    together, on_host = threading.Barrier(12), threading.Event()

    class Waiting(Slow):
        def work(self, _context: CobContext) -> None:
            together.wait(30)
            assert on_host.wait(30)

    steps = tuple(replace(step, action=WORK) for step in SIMPLE.transitions)
    hosted = tuple(replace(step, action=Tasks(path="do.yml")) for step in SIMPLE.transitions)
    python, tasks = replace(SIMPLE, transitions=steps), replace(SIMPLE, transitions=hosted)
    graph = graph_of({f"h{n:02}/a": python for n in range(12)} | {"zeta/a": tasks})
    known = dict.fromkeys(graph.cobs, "down")
    run = rig(graph, known=known, python_types={"simple": Waiting()}, parallel=1)
    run.executor.actions = frozenset({Tasks})
    run.executor.answer = lambda _job: on_host.set()
    assert run.go().ending is Ending.OK
