"""A run waits for the pause of a limit, has its canary checked once more, and tells of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cobweb.engine import Blocked, Lending, WaitKind
from cobweb.kernel._result import Ending, Wait, stuck_waits
from cobweb.kernel._sentences import chain_lines
from cobweb.model import Budget, Cob, CobId, Graph, Job, JobKind, Outcome, Report, Unit
from cobweb.operations.planning._prediction import predict
from cobweb.store import CanaryWritten
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import graph_json
from tests.operations.test_predict import record
from tests.support.contexts import context_over

MakeRig = Callable[..., Any]
MakeType = Callable[..., Any]

IDS = tuple(CobId(f"{host}/app") for host in ("alpha", "beta", "gamma"))
A, B, C = IDS


def rolling(kind: Any) -> Graph:
    """Return three applications of which one goes first, and the others half a minute later."""
    units = tuple(Unit(name=cob.partition("/")[0], members=frozenset({cob})) for cob in IDS)
    budget = Budget(name="rolling", units=units, count=3, first=1, pause_s=30.0)
    return Graph(cobs={cob: Cob(id=cob, type=kind) for cob in IDS}, budgets=(budget,))


def renewed(graph: Graph) -> dict[str, Any]:
    """Return what a context has of objects that have served and get another content."""
    context = context_over(graph, found=dict.fromkeys(IDS, "outdated"))
    return {
        "records": {cob: record(graph, cob) for cob in IDS},
        "before": replace(context.before, changed=frozenset(IDS)),
        "lending": Lending(served=frozenset(IDS)),
    }


def outdated(rig: MakeRig, graph: Graph, **options: Any) -> Any:
    """Return a run that begins with three applications of another content, which serve."""
    return rig(graph, states=dict.fromkeys(IDS, "outdated"), context=renewed(graph), **options)


def test_the_others_follow_after_the_pause_and_a_check(rig: MakeRig, simple_type: MakeType) -> None:
    run = outdated(rig, rolling(simple_type()))
    result = run.go()
    assert result.ending is Ending.OK
    moved = [job.cob for job in run.executor.jobs if job.kind is JobKind.TRANSITION]
    assert moved == [A, B, C]
    (pause,), (resume,) = run.events("limit.pause"), run.events("limit.resume")
    assert (pause["limit"], pause["units"], pause["seconds"]) == ("rolling", ["alpha"], 30.0)
    assert resume["limit"] == "rolling"
    assert resume["time"] - pause["time"] == 30.0
    later = [job for job in run.executor.jobs if job.cob == A and job.kind is JobKind.CHECK]
    assert len(later) == 3  # at the beginning, when it is home, after the pause
    events = [event for what, event in run.tape.happened if what == "event"]
    assert check_promises(events, graph_json(run.graph)) == []
    written = [entry.through for entry in run.entries(CanaryWritten)]
    assert written == [False, True]


def failing(job: Job) -> Report | None:
    is_it = job.cob == A and job.kind is JobKind.TRANSITION
    return Report(number=job.number, outcome=Outcome.FAILED, message="bad") if is_it else None


def test_a_canary_that_fails_stops_the_others(rig: MakeRig, simple_type: MakeType) -> None:
    run = outdated(rig, rolling(simple_type()), answer=failing)
    result = run.go()
    assert result.ending is Ending.FAILED
    assert {job.cob for job in run.executor.jobs if job.kind is JobKind.TRANSITION} == {A}
    assert not run.events("limit.pause")
    events = [event for what, event in run.tape.happened if what == "event"]
    assert check_promises(events, graph_json(run.graph)) == []
    assert chain_lines(result.waits[-1], result.messages) == [
        "gamma/app waits for room in a limit (rolling, canary), taken by alpha/app",
        "alpha/app failed in this run: bad",
    ]


def test_a_canary_whose_check_after_the_pause_fails_stops_the_others(
    rig: MakeRig, simple_type: MakeType
) -> None:
    run = outdated(rig, rolling(simple_type()))

    def answer(job: Job) -> Report | None:
        is_late = job.kind is JobKind.CHECK and bool(run.events("limit.resume"))
        return Report(number=job.number, outcome=Outcome.FAILED, message="?") if is_late else None

    run.answer = answer
    run.__post_init__()
    result = run.go()
    assert result.ending is Ending.FAILED
    assert {job.cob for job in run.executor.jobs if job.kind is JobKind.TRANSITION} == {A}
    assert [entry.through for entry in run.entries(CanaryWritten)] == [False]


def test_a_canary_that_is_found_down_after_the_pause_has_failed_and_is_not_repaired(
    rig: MakeRig, simple_type: MakeType
) -> None:
    run = outdated(rig, rolling(simple_type()))

    def answer(job: Job) -> Report | None:
        is_late = job.kind is JobKind.CHECK and bool(run.events("limit.resume"))
        return Report(number=job.number, outcome=Outcome.OK, state="down") if is_late else None

    run.answer = answer
    run.__post_init__()
    result = run.go()
    assert (result.ending, result.exit_code) == (Ending.FAILED, 1)
    assert [job.cob for job in run.executor.jobs if job.kind is JobKind.TRANSITION] == [A]
    assert result.messages[A] == "it is down: this run had it up, which did not last"
    assert [entry.through for entry in run.entries(CanaryWritten)] == [False]
    events = [event for what, event in run.tape.happened if what == "event"]
    assert check_promises(events, graph_json(run.graph)) == []


def test_what_is_found_down_after_its_step_stops_the_others(
    rig: MakeRig, simple_type: MakeType
) -> None:
    graph = rolling(simple_type())
    one = replace(graph.budgets[0], count=1, first=0)
    run = outdated(rig, replace(graph, budgets=(one,)))

    def answer(job: Job) -> Report | None:
        is_late = job.kind is JobKind.CHECK and bool(run.events("transition.end"))
        return Report(number=job.number, outcome=Outcome.OK, state="down") if is_late else None

    run.answer = answer
    run.__post_init__()
    result = run.go()
    assert result.ending is Ending.FAILED
    assert [job.cob for job in run.executor.jobs if job.kind is JobKind.TRANSITION] == [A]
    assert {wait.cob for wait in result.waits} == {A, B, C}


def test_an_interrupt_ends_the_pause(rig: MakeRig, simple_type: MakeType) -> None:
    """Nothing new is started; what waits is told so."""
    run = outdated(rig, rolling(simple_type()))

    def beat() -> None:
        if run.events("limit.pause"):
            run.interrupts.count = 1

    run.setting = {"beat": beat, "beat_s": 10.0}
    result = run.go()
    assert result.ending is Ending.INTERRUPTED
    assert {job.cob for job in run.executor.jobs if job.kind is JobKind.TRANSITION} == {A}
    assert not run.events("limit.resume")
    assert chain_lines(result.waits[-1])[0] == (
        "gamma/app waits for the pause of a limit (rolling, canary)"
    )


def test_a_prediction_goes_through_the_pause(simple_type: MakeType) -> None:
    graph = rolling(simple_type())
    context = context_over(graph, **renewed(graph))
    predicted = predict(context)
    assert not predicted.waits
    assert [(step.cob, step.start_s) for step in predicted.steps] == [
        (A, 0.0),
        (B, 31.0),
        (C, 31.0),
    ]
    assert all(step.waits_for == (A,) for step in predicted.steps[1:])


def test_who_waits_for_a_canary_that_waits_for_itself_is_stuck() -> None:
    """Who waits for the verdict alone is not: there may be one."""
    cob, other = CobId("a/app"), CobId("a/log")
    verdict = Blocked(cob=other, kind=WaitKind.LIMIT, on=cob, detail="rolling, canary")
    back = Blocked(cob=cob, kind=WaitKind.UNSWITCHED, on=other)
    waits = Wait(cob=other, state="up", chain=(verdict,))
    circle = Wait(cob=other, state="up", chain=(verdict, back))
    assert stuck_waits((waits, circle)) == (circle,)
