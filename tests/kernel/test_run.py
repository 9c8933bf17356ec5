"""A run writes ahead, tells what it does, retries, survives failures, and stops when asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from cobweb.cli.graph import graph_data
from cobweb.engine import WaitKind
from cobweb.errors import LockedError, PluginError, ProviderError
from cobweb.kernel._result import Ending, RunResult
from cobweb.kernel._sentences import chain_lines
from cobweb.model import (
    Action,
    CobId,
    CobType,
    Graph,
    Job,
    JobKind,
    Missing,
    Nothing,
    Outcome,
    PythonAction,
    Report,
    Tasks,
)
from cobweb.plugin import CobContext, Found, SiteMark
from cobweb.store import (
    EventWritten,
    GrantGone,
    GrantWritten,
    HostFound,
    HostLost,
    ResultsWritten,
    StateWritten,
    TransitionBegan,
    TransitionFinished,
)
from cobweb.testing.promises import check_promises

A, B, CFG = CobId("alpha/a"), CobId("beta/b"), CobId("alpha/cfg")
STOPPED = "no luck (the run was stopped before the next attempt)"
UP = {A: "up", B: "up", CFG: "outdated"}

MakeRig = Callable[..., Any]
MakeGraph = Callable[..., Graph]
MakeType = Callable[..., CobType]


def failing(cob: CobId, outcome: Outcome, *, times: int = 10**6) -> Callable[[Job], Report | None]:
    """Return an answer that lets the first transitions of `cob` end in `outcome`."""
    left = [times]

    def answer(job: Job) -> Report | None:
        if job.cob != cob or job.kind is JobKind.CHECK or not left[0]:
            return None
        left[0] -= 1
        return Report(number=job.number, outcome=outcome, message="no luck")

    return answer


def causes(result: RunResult) -> dict[CobId, WaitKind]:
    """Return the objects that wait for nothing but themselves, and why."""
    return {wait.cob: wait.chain[0].kind for wait in result.waits if len(wait.chain) == 1}


def test_figure_one_runs_in_the_order_of_the_paper(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), states=dict(UP))
    result = run.go()
    assert result.ending is Ending.OK
    assert run.executor.transitions() == (
        (B, "up", "down"),
        (A, "up", "down"),
        (CFG, "outdated", "up"),
        (A, "down", "up"),
        (B, "down", "up"),
    )
    assert result.counts["transitions"] == 5
    assert run.executor.closed


def test_a_start_and_its_locks_are_in_the_journal_before_the_job(
    rig: MakeRig, figure: MakeGraph
) -> None:
    run = rig(figure(), states=dict(UP))
    run.go()
    began: set[CobId] = set()
    granted: set[tuple[CobId, CobId]] = set()
    submitted = 0
    for kind, what in run.tape.happened:
        if kind == "journal":
            began.update(e.cob for e in what if isinstance(e, TransitionBegan))
            granted.update((e.cob, e.holder) for e in what if isinstance(e, GrantWritten))
        elif kind == "submit" and what.kind is JobKind.TRANSITION:
            submitted += 1
            assert what.cob in began
            if what.cob == A and what.dest == "down":
                assert (B, A) in granted
            began.discard(what.cob)
    assert submitted == 5


def test_events_are_told_after_the_journal_has_them_and_are_kept_there(
    rig: MakeRig, figure: MakeGraph
) -> None:
    run = rig(figure(), states=dict(UP))
    run.go()
    stored: list[int] = []
    for kind, what in run.tape.happened:
        if kind == "journal":
            stored += [entry.seq for entry in what if isinstance(entry, EventWritten)]
        elif kind == "event":
            assert what["seq"] in stored
    assert stored == list(range(1, len(stored) + 1))


def test_first_event_is_the_version_and_last_the_end(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), states=dict(UP))
    run.go()
    events = [what for kind, what in run.tape.happened if kind == "event"]
    assert events[0]["type"] == "version"
    assert events[0]["seq"] == 1
    assert events[0]["events"] == 1
    assert events[-1]["type"] == "run.end"
    assert events[-1]["exit_code"] == 0


def test_all_locks_are_given_back_in_the_journal(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), states=dict(UP))
    run.go()
    out: set[tuple[CobId, CobId]] = set()
    for entry in [*run.entries(GrantWritten), *run.entries(GrantGone)]:
        (out.add if isinstance(entry, GrantWritten) else out.discard)((entry.cob, entry.holder))
    assert run.entries(GrantWritten)
    assert out == set()


def test_known_states_are_not_checked(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), states={A: "up", B: "up", CFG: "up"}, known={A: "up", B: "up", CFG: "up"})
    result = run.go()
    assert run.executor.jobs == []
    assert result.ending is Ending.OK
    assert result.counts["checks"] == 0


def test_failed_attempts_are_repeated_as_the_type_says(
    rig: MakeRig, figure: MakeGraph, simple_type: MakeType
) -> None:
    run = rig(figure(simple_type(attempts=3)), answer=failing(A, Outcome.FAILED, times=2))
    result = run.go()
    assert result.ending is Ending.OK
    attempts = [job.attempt for job in run.executor.jobs if job.cob == A and job.source]
    assert attempts == [1, 2, 3]
    ends = [event for event in run.events("transition.end") if event["cob"] == A]
    assert [(end["result"], end["attempt"]) for end in ends] == [("ok", 3)]
    assert len([event for event in run.events("transition.start") if event["cob"] == A]) == 1


def test_waits_between_attempts_grow_and_are_the_same_for_a_seed() -> None:
    from cobweb.kernel._dispatch import retry_delay_s

    delays = [retry_delay_s(seed=7, cob=A, attempt=attempt) for attempt in range(1, 12)]
    assert delays == [retry_delay_s(seed=7, cob=A, attempt=attempt) for attempt in range(1, 12)]
    assert all(late > early for early, late in pairwise(delays[:6]))
    assert max(delays) <= 61
    assert delays != [retry_delay_s(seed=8, cob=A, attempt=attempt) for attempt in range(1, 12)]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMEOUT])
def test_a_failed_transition_is_checked_once_and_blocks_what_needs_it(
    rig: MakeRig, figure: MakeGraph, outcome: Outcome
) -> None:
    run = rig(figure(), answer=failing(A, outcome))
    result = run.go()
    assert result.ending is Ending.FAILED
    assert result.exit_code == 1
    assert {wait.cob for wait in result.waits} == {A, B}
    assert causes(result) == {A: WaitKind.FAILED}
    assert result.messages[A] == "no luck"
    checks = [job for job in run.executor.jobs if job.cob == A and job.kind is JobKind.CHECK]
    assert len(checks) == 2
    assert run.executor.states[CFG] == "up"
    finished = [entry for entry in run.entries(TransitionFinished) if entry.cob == A]
    assert [entry.state for entry in finished] == ["unknown"]


def test_an_unreachable_host_blocks_its_own_and_what_needs_them(
    rig: MakeRig, figure: MakeGraph
) -> None:
    def answer(job: Job) -> Report | None:
        if job.host != "beta":
            return None
        return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")

    run = rig(figure(), answer=answer)
    result = run.go()
    assert result.ending is Ending.FAILED
    assert causes(result) == {B: WaitKind.UNREACHABLE}
    assert run.executor.states[A] == "up"
    assert [entry.host for entry in run.entries(HostLost)] == ["beta"]


def test_a_check_that_fails_or_answers_nonsense_fails_its_object(
    rig: MakeRig, figure: MakeGraph
) -> None:
    def answer(job: Job) -> Report | None:
        if job.kind is JobKind.CHECK and job.cob == A:
            return Report(number=job.number, outcome=Outcome.OK, state="sideways")
        return None

    run = rig(figure(), answer=answer)
    result = run.go()
    assert result.ending is Ending.FAILED
    assert "'sideways', which is no state of it (outdated, down, up)" in result.messages[A]
    written = [entry for entry in run.entries(StateWritten) if entry.cob == A and entry.failed]
    assert len(written) == 1


def test_tasks_see_what_the_contract_says(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), context={"generation": 7, "applied": {A: {"port": 9}}})
    run.go()
    job = next(job for job in run.executor.jobs if job.cob == A and job.kind is JobKind.TRANSITION)
    assert dict(job.cob_vars) == {
        "id": A,
        "name": "a",
        "host": "alpha",
        "type": "simple",
        "spec": {"port": 1},
        "applied": None,
        "state": "down",
        "target": "up",
        "generation": 7,
        "results": {},
        "recorded": "down",
        "reached": "",
        "renew": False,
    }


def test_no_more_jobs_than_parallel_are_in_flight(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), parallel=1)
    high = [0]
    submit = run.executor.submit

    def counting(job: Job) -> None:
        submit(job)
        high[0] = max(high[0], len(run.executor._reports))

    run.executor.submit = counting
    assert run.go().ending is Ending.OK
    assert high[0] == 1


def test_first_interrupt_lets_running_end_and_starts_nothing_new(
    rig: MakeRig, figure: MakeGraph
) -> None:
    run = rig(figure(), states=dict(UP))
    run.executor.hold(B)

    def interrupt() -> None:
        run.executor.await_held(B)
        run.executor.finish(B)  # the check
        run.executor.hold(B)
        run.executor.await_held(B)
        run.interrupts()
        run.executor.finish(B)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = run.go()
    thread.join()
    assert result.ending is Ending.INTERRUPTED
    assert result.exit_code == 130
    assert run.executor.transitions() == ((B, "up", "down"),)
    assert run.executor.states[B] == "down"
    assert not run.executor.killed
    assert any(text.startswith("nothing new is started") for text in run.said)


def test_second_interrupt_stops_what_runs_and_says_so(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), states=dict(UP))

    def answer(job: Job) -> Report | None:
        if job.kind is JobKind.TRANSITION and job.cob == B:
            run.executor.hold(A)
            run.interrupts()
            run.interrupts()
        return None

    run.executor.answer = answer
    run.executor.hold(A)

    def let_go() -> None:
        run.executor.await_held(A)
        run.executor.finish(A)

    thread = threading.Thread(target=let_go)
    thread.start()
    result = run.go()
    thread.join()
    assert result.ending is Ending.INTERRUPTED
    assert run.executor.killed


def test_too_many_failures_stop_new_work(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), answer=failing(CFG, Outcome.FAILED), setting={"max_failures": 0})
    result = run.go()
    assert result.ending is Ending.FAILED
    assert {job.cob for job in run.executor.jobs if job.kind is JobKind.TRANSITION} == {CFG}


def test_a_full_disk_stops_the_run_before_anything_unwritten_happens(
    rig: MakeRig, figure: MakeGraph
) -> None:
    run = rig(figure(), states=dict(UP))
    run.tape.fail_at = 1
    with pytest.raises(OSError, match="No space left"):
        run.go()
    assert run.executor.killed
    assert not [job for job in run.executor.jobs if job.kind is JobKind.TRANSITION]


class Marker:
    """A Python type that remembers where it is."""

    name: ClassVar[str] = "simple"

    def __init__(self, problem: Exception | None = None) -> None:
        self.state = "down"
        self.problem = problem

    def cob_type(self) -> CobType:
        raise AssertionError

    def check(self, context: CobContext) -> str:
        assert context.host.name == context.cob["host"]
        return self.state

    def work(self, context: CobContext) -> None:
        if self.problem:
            raise self.problem
        self.state = context.cob["target"]


def only(graph: Graph, cob: CobId, check: Action, work: Action) -> Graph:
    """Return the graph of one object whose transitions are `work`."""
    it = graph.cobs[cob]
    steps = tuple(replace(step, action=work) for step in it.type.transitions)
    kind = replace(it.type, check=check, transitions=steps)
    return Graph(cobs={cob: replace(it, type=kind)})


def python_run(rig: MakeRig, figure: MakeGraph, marker: Marker, **more: Any) -> Any:
    graph = only(
        figure(),
        B,
        PythonAction(type_name="simple", method="check"),
        PythonAction(type_name="simple", method="work"),
    )
    run = rig(graph, python_types={"simple": marker}, **more)
    run.executor.actions = frozenset()
    return run


def test_each_attempt_of_a_python_type_has_a_key_of_its_own(
    rig: MakeRig, figure: MakeGraph
) -> None:
    """What it orders elsewhere is known by it, also after other runs of the site."""
    keys: list[str] = []

    class Ordering(Marker):
        def work(self, context: CobContext) -> None:
            keys.append(context.key)
            super().work(context)

    mark = SiteMark(site="5e7a", name="s", run="r", who="me@here", time=1.0, epoch=7)
    assert python_run(rig, figure, Ordering(), mark=mark).go().ending is Ending.OK
    assert python_run(rig, figure, Ordering(OSError("no")), mark=mark).go().ending is Ending.FAILED
    assert python_run(rig, figure, Ordering()).go().ending is Ending.OK
    *marked, without = keys
    assert all(re.fullmatch(r"5e7a/7/\d+", key) for key in marked)
    assert without == ""


def test_python_types_are_carried_out_by_the_runtime(rig: MakeRig, figure: MakeGraph) -> None:
    marker = Marker()
    run = python_run(rig, figure, marker)
    assert run.go().ending is Ending.OK
    assert marker.state == "up"
    assert [job for job in run.executor.jobs if job] == []


def test_a_python_type_is_given_the_providers_of_nodes(rig: MakeRig, figure: MakeGraph) -> None:
    class Node(Marker):
        def work(self, context: CobContext) -> None:
            self.state = context.providers["pool"]  # type: ignore[assignment]  # stands for one

    marker = Node()
    run = python_run(rig, figure, marker)
    run.providers["pool"] = "up"
    assert run.go().ending is Ending.OK
    assert marker.state == "up"


def test_a_python_type_hands_results_back_and_is_given_them(
    rig: MakeRig, figure: MakeGraph
) -> None:
    """By the mapping that a transition returns, and by what a check found; the host has them."""

    class Node(Marker):
        def check(self, context: CobContext) -> Any:
            return Found(state=super().check(context), results={"seen": True})

        def work(self, context: CobContext) -> Any:
            assert context.cob["results"] == {"seen": True, "ansible_port": 22}
            assert context.host.variables == {"ansible_port": 22}
            super().work(context)
            return {"ansible_port": 2222, "seen": None}

    run = python_run(rig, figure, Node())
    run.setting["results"] = {"beta": {"ansible_port": 22}}
    assert run.go().ending is Ending.OK
    written = [entry.results for entry in run.entries(ResultsWritten)]
    assert written == [{"seen": True}, {"ansible_port": 2222, "seen": None}]


def test_results_and_the_end_of_their_job_are_one_batch(rig: MakeRig, figure: MakeGraph) -> None:
    """Nobody is told of an end whose results a crash could take back."""
    run = rig(figure(), answer=handing(B))
    assert run.go().ending is Ending.OK
    (batch,) = [
        batch
        for what, batch in run.tape.happened
        if what == "journal" and any(isinstance(entry, ResultsWritten) for entry in batch)
    ]
    assert any(isinstance(it, TransitionFinished) and it.cob == B for it in batch)


def handing(cob: CobId) -> Callable[[Job], Report | None]:
    def answer(job: Job) -> Report | None:
        if (job.cob, job.kind) != (cob, JobKind.TRANSITION):
            return None
        return Report(number=job.number, outcome=Outcome.OK, results={"id": 7})

    return answer


def test_a_python_type_that_raises_fails_and_is_named(rig: MakeRig, figure: MakeGraph) -> None:
    run = python_run(rig, figure, Marker(ValueError("broken")))
    result = run.go()
    assert result.ending is Ending.FAILED
    assert result.messages[B] == "plugin simple: work: ValueError('broken')"


def test_what_a_python_type_says_on_purpose_is_the_message(rig: MakeRig, figure: MakeGraph) -> None:
    run = python_run(rig, figure, Marker(ProviderError("no room", hint="add a host")))
    assert run.go().messages[B] == "no room (add a host)"


def test_transitions_without_work_end_at_once(rig: MakeRig, figure: MakeGraph) -> None:
    graph = only(figure(), B, figure().cobs[B].type.check, Nothing())
    run = rig(graph)
    run.executor.actions = frozenset({type(graph.cobs[B].type.check)})
    assert run.go().ending is Ending.OK
    assert all(job.kind is JobKind.CHECK for job in run.executor.jobs)


def test_a_sink_that_breaks_is_left_out_and_the_run_goes_on() -> None:
    from cobweb.kernel._events import EventPublisher

    seen: list[int] = []

    def broken(_event: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    publisher = EventPublisher([broken, lambda event: seen.append(event["seq"])], lambda: 0.0)
    for _ in range(3):
        publisher.tell(publisher.number([("x", {})]))
    assert seen == [1, 2, 3]
    assert publisher.notices == ["events are no longer written: Broken pipe"]


class Stubborn(Marker):
    """A Python type whose work takes until the test is over."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.over = threading.Event()

    def work(self, _context: CobContext) -> None:
        self.begun.set()
        self.over.wait(30)


def interrupting(run: Any, cob: CobId, *, times: int) -> Callable[[Job], Report | None]:
    """Return an answer that interrupts when the first transition of `cob` is submitted."""

    def answer(job: Job) -> Report | None:
        if job.kind is JobKind.TRANSITION and job.cob == cob:
            for _ in range(times):
                run.interrupts()
        return None

    return answer


def checked(run: Any) -> list[str]:
    """Return what the events of a run break of the promises."""
    events = [event for kind, event in run.tape.happened if kind == "event"]
    return check_promises(events, graph_data(run.graph, {}))


def test_what_a_second_interrupt_stops_is_told_and_unknown(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), states=dict(UP), known=dict(UP))
    run.executor.hold(B)
    submit = run.executor.submit

    def submit_and_interrupt(job: Job) -> None:
        submit(job)
        run.interrupts()
        run.interrupts()

    run.executor.submit = submit_and_interrupt
    result = run.go()
    assert result.ending is Ending.INTERRUPTED
    assert result.in_flight == ("beta/b: up -> down",)
    assert run.executor.killed
    (end,) = run.events("transition.end")
    assert (end["cob"], end["state"], end["result"]) == (B, "unknown", "failed")
    assert end["message"] == "stopped by an interrupt"
    (ended,) = run.entries(TransitionFinished)
    assert (ended.state, ended.stopped) == ("unknown", True)
    (told,) = [chain_lines(wait, result.messages) for wait in result.waits if wait.cob == B]
    assert told == ["beta/b was stopped in up -> down; the next apply checks it"]
    assert result.counts["failed"] == 0
    assert checked(run) == []


def test_what_ended_while_it_was_stopped_has_ended(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), states=dict(UP), known=dict(UP))
    run.executor.answer = interrupting(run, B, times=2)
    result = run.go()
    assert result.in_flight == ()
    assert [entry.state for entry in run.entries(TransitionFinished)] == ["down"]
    assert checked(run) == []


def test_a_python_type_that_does_not_return_is_left_behind(rig: MakeRig, figure: MakeGraph) -> None:
    marker = Stubborn()
    run = python_run(rig, figure, marker)

    def interrupt() -> None:
        marker.begun.wait(30)
        run.interrupts()
        run.interrupts()

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = run.go()
    thread.join()
    marker.over.set()
    assert result.in_flight == ("beta/b: down -> up",)
    assert result.ending is Ending.INTERRUPTED


def test_an_interrupt_before_the_first_job_starts_nothing(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure())
    run.interrupts()
    result = run.go()
    assert run.executor.jobs == []
    assert result.exit_code == 130
    assert {wait.chain[-1].kind for wait in result.waits} == {WaitKind.HALTED}
    assert run.said == ["nothing new is started"]
    assert checked(run) == []


def test_a_terminal_that_is_gone_does_not_stop_what_runs(rig: MakeRig, figure: MakeGraph) -> None:
    def broken(_text: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    run = rig(figure(), states=dict(UP), known=dict(UP), setting={"say": broken})
    run.executor.answer = interrupting(run, B, times=1)
    assert run.go().ending is Ending.INTERRUPTED
    assert run.executor.states[B] == "down"
    assert not run.executor.killed


def test_checks_that_were_not_begun_are_no_work_in_hand(rig: MakeRig, figure: MakeGraph) -> None:
    def answer(_job: Job) -> Report | None:
        run.interrupts()
        return None

    run = rig(figure(), parallel=1, answer=answer)
    result = run.go()
    assert len(run.executor.jobs) == 1
    assert {wait.chain[-1].kind for wait in result.waits} == {WaitKind.HALTED}


def test_an_object_that_fails_twice_is_one_failure(rig: MakeRig, figure: MakeGraph) -> None:
    def answer(job: Job) -> Report | None:
        if job.cob != A or (job.kind is JobKind.CHECK and not run.entries(TransitionFinished)):
            return None
        return Report(number=job.number, outcome=Outcome.FAILED, message="broken")

    run = rig(figure(), answer=answer, setting={"max_failures": 1})
    run.known = {A: "down", CFG: "up"}
    result = run.go()
    assert result.counts["failed"] == 1
    assert run.said == []
    assert [event["reason"] for event in run.events("cob.state") if event["cob"] == A][-1:] == [
        "check"
    ]
    assert checked(run) == []


def test_too_many_failures_are_told_and_an_interrupt_after_them_too(
    rig: MakeRig, figure: MakeGraph
) -> None:
    run = rig(figure(), answer=failing(CFG, Outcome.FAILED), setting={"max_failures": 0})
    run.go()
    assert run.said == ["1 failed, more than may: nothing new is started"]


def test_no_attempt_is_made_again_once_the_run_is_to_stop(
    rig: MakeRig, figure: MakeGraph, simple_type: MakeType
) -> None:
    run = rig(figure(simple_type(attempts=5)), known={A: "down", B: "down", CFG: "up"})
    seen: list[Job] = []

    def answer(job: Job) -> Report | None:
        seen.append(job)
        run.interrupts()
        return Report(number=job.number, outcome=Outcome.FAILED, message="no luck")

    run.executor.answer = answer
    result = run.go()
    assert [job.attempt for job in seen] == [1]
    assert result.messages == {A: STOPPED}
    assert checked(run) == []


def test_a_retry_that_waits_is_given_up_when_the_run_is_to_stop(
    rig: MakeRig, figure: MakeGraph, simple_type: MakeType
) -> None:
    run = rig(figure(simple_type(attempts=5)), known={A: "down", B: "down", CFG: "up"})
    run.answer = failing(A, Outcome.FAILED)
    run.executor.answer = run.answer
    run.setting["beat"] = lambda: run.interrupts() if run.executor.jobs else None
    result = run.go()
    assert [job.attempt for job in run.executor.jobs] == [1]
    assert result.messages[A] == STOPPED
    assert checked(run) == []


def test_a_job_that_its_executor_gives_up_by_itself_has_failed(
    rig: MakeRig, figure: MakeGraph
) -> None:
    def answer(job: Job) -> Report | None:
        if job.cob != A:
            return None
        return Report(number=job.number, outcome=Outcome.CANCELLED, began=False)

    for known in ({}, {A: "down"}):
        run = rig(figure(), answer=answer, known=known)
        assert run.go().exit_code == 1
        assert len([job for job in run.executor.jobs if job.cob == A]) <= 2


def test_a_host_that_answers_late_is_not_taken_for_found(rig: MakeRig, figure: MakeGraph) -> None:
    def answer(job: Job) -> Report | None:
        if job.cob != A:
            return None
        return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")

    run = rig(figure(), answer=answer, setting={"missed": frozenset({"alpha"})})
    result = run.go()
    assert set(causes(result).values()) == {WaitKind.UNREACHABLE}
    assert [type(entry) for entry in host_entries(run)] == [HostLost]


def host_entries(run: Any) -> list[Any]:
    return [*run.entries(HostLost), *run.entries(HostFound)]


def test_a_host_that_answers_again_is_found(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), setting={"missed": frozenset({"alpha"})})
    assert run.go().ending is Ending.OK
    assert [entry.host for entry in run.entries(HostFound)] == ["alpha"]


def test_a_transition_on_a_lost_host_is_not_tried_again(
    rig: MakeRig, figure: MakeGraph, simple_type: MakeType
) -> None:
    graph = figure(simple_type(attempts=3))
    run = rig(graph, known={B: "down", CFG: "outdated", A: "outdated"})

    def answer(job: Job) -> Report | None:
        bad = Outcome.UNREACHABLE if job.cob == A else Outcome.FAILED
        return Report(number=job.number, outcome=bad, message="no")

    run.executor.answer = answer
    result = run.go()
    assert result.exit_code == 1
    assert max(job.attempt for job in run.executor.jobs) <= 2
    assert checked(run) == []


def test_errors_name_what_was_stopped(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure(), states=dict(UP), known=dict(UP))
    run.executor.hold(B)

    def broken() -> None:
        raise LockedError("somebody else")

    run.setting["beat"] = broken
    run.setting["beat_s"] = 0.01
    with pytest.raises(LockedError) as caught:
        run.go()
    assert caught.value.__notes__ == ["stopped in the middle: beta/b: up -> down"]
    assert run.executor.killed
    assert run.entries(TransitionFinished) == []


def test_an_action_that_nobody_carries_out_fails(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(only(figure(), B, Nothing(), Tasks(path="/tasks/work.yml")), known={B: "down"})
    run.executor.actions = frozenset()
    result = run.go()
    assert result.exit_code == 1
    first, second = result.messages[B].split("; then the check: ")
    assert first.startswith("executor fake does not carry out Tasks(")
    assert second == "the check says '', which is no state of it (outdated, down, up)"


def test_what_transition_and_check_say_alike_is_told_once(rig: MakeRig, figure: MakeGraph) -> None:
    gone = Missing(message="it is gone")
    result = rig(only(figure(), B, gone, gone), known={B: "down"}).go()
    assert (result.exit_code, result.messages) == (1, {B: "it is gone"})
    assert result.counts["checks"] == 1


def test_an_executor_that_cannot_be_asked_once_it_is_closed_is_no_trouble(
    rig: MakeRig, figure: MakeGraph
) -> None:
    run = rig(figure(), states=dict(UP), known=dict(UP))
    run.executor.hold(B)
    submit, wait = run.executor.submit, run.executor.wait

    def submit_and_interrupt(job: Job) -> None:
        submit(job)
        run.interrupts()
        run.interrupts()

    def wait_while_open(timeout_s: float | None) -> Any:
        if run.executor.closed:
            raise PluginError("fake", "it is closed")
        return wait(timeout_s)

    run.executor.submit, run.executor.wait = submit_and_interrupt, wait_while_open
    assert run.go().in_flight == ("beta/b: up -> down",)


def test_checks_in_flight_are_stopped_without_a_failure(rig: MakeRig, figure: MakeGraph) -> None:
    run = rig(figure())
    for cob in (A, B, CFG):
        run.executor.hold(cob)
    submit = run.executor.submit

    def submit_and_interrupt(job: Job) -> None:
        submit(job)
        run.interrupts.count = 2

    run.executor.submit = submit_and_interrupt
    result = run.go()
    assert result.counts["failed"] == 0
    assert {wait.chain[-1].kind for wait in result.waits} == {WaitKind.HALTED}
    assert checked(run) == []
