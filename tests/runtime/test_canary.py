"""A run waits for the pause of a limit, has its canary checked once more, and tells of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cobweb.engine import Engine
from cobweb.model import (
    UNKNOWN,
    Cob,
    CobId,
    Graph,
    Job,
    JobKind,
    Limit,
    LimitGroup,
    LimitScope,
    Outcome,
    Report,
)
from cobweb.runtime._acts import Act, SoFar
from cobweb.runtime._predict import predict
from cobweb.runtime._prose import chain_lines
from cobweb.runtime._result import Ending
from cobweb.store import StateWritten
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import graph_json

MakeRig = Callable[..., Any]
MakeType = Callable[..., Any]

IDS = tuple(CobId(f"{host}/app") for host in ("alpha", "beta", "gamma"))
A, B, C = IDS


def rolling(kind: Any) -> Graph:
    """Return three applications of which one goes first, and the others half a minute later."""
    group = LimitGroup(name="", members=frozenset(IDS), bound=3)
    limit = Limit(
        name="rolling", scope=LimitScope.IN_FLIGHT, groups=(group,), first=1, pause_s=30.0
    )
    return Graph(cobs={cob: Cob(id=cob, type=kind) for cob in IDS}, limits=(limit,))


def outdated(rig: MakeRig, graph: Graph, **options: Any) -> Any:
    """Return a run that begins with three outdated applications."""
    known = dict.fromkeys(IDS, "outdated")
    return rig(graph, states=dict(known), known=known, **options)


def test_the_others_follow_after_the_pause_and_a_check(rig: MakeRig, simple_type: MakeType) -> None:
    run = outdated(rig, rolling(simple_type()))
    result = run.go()
    assert result.ending is Ending.OK
    assert [job.cob for job in run.executor.jobs] == [A, A, B, C]
    assert [job.kind for job in run.executor.jobs][1] is JobKind.CHECK
    (pause,), (resume,) = run.events("limit.pause"), run.events("limit.resume")
    assert (pause["limit"], pause["cobs"], pause["seconds"]) == ("rolling", [A], 30.0)
    assert resume["limit"] == "rolling"
    assert resume["time"] - pause["time"] == 30.0
    events = [event for what, event in run.tape.happened if what == "event"]
    assert check_promises(events, graph_json(run.graph)) == []


def test_a_canary_that_fails_stops_the_others(rig: MakeRig, simple_type: MakeType) -> None:
    def answer(job: Job) -> Report | None:
        is_it = job.cob == A and job.kind is JobKind.TRANSITION
        return Report(number=job.number, outcome=Outcome.FAILED, message="bad") if is_it else None

    run = outdated(rig, rolling(simple_type()), answer=answer)
    result = run.go()
    assert result.ending is Ending.FAILED
    assert {job.cob for job in run.executor.jobs} == {A}
    assert not run.events("limit.pause")
    events = [event for what, event in run.tape.happened if what == "event"]
    assert check_promises(events, graph_json(run.graph)) == []
    assert chain_lines(result.waits[-1], result.messages) == [
        "gamma/app waits for room in a limit (rolling, canary), taken by alpha/app",
        "alpha/app failed in this run: bad",
    ]


def test_a_canary_whose_check_fails_is_written_down_once(
    rig: MakeRig, simple_type: MakeType
) -> None:
    """As failed, and what the check said is told."""

    def answer(job: Job) -> Report | None:
        is_check = job.kind is JobKind.CHECK
        return Report(number=job.number, outcome=Outcome.FAILED, message="?") if is_check else None

    run = outdated(rig, rolling(simple_type()), answer=answer)
    result = run.go()
    assert result.ending is Ending.FAILED
    assert {job.cob for job in run.executor.jobs} == {A}
    (written,) = [e for e in run.entries(StateWritten) if e.state == UNKNOWN]
    assert written.failed
    (told,) = [event for event in run.events("cob.state") if event["state"] == UNKNOWN]
    assert told["message"] == "?"


def test_an_interrupt_ends_the_pause(rig: MakeRig, simple_type: MakeType) -> None:
    """Nothing new is started; what waits is told so."""
    run = outdated(rig, rolling(simple_type()))

    def beat() -> None:
        if run.events("limit.pause"):
            run.interrupts.count = 1

    run.setting = {"beat": beat, "beat_s": 10.0}
    result = run.go()
    assert result.ending is Ending.INTERRUPTED
    assert {job.cob for job in run.executor.jobs} == {A}
    assert not run.events("limit.resume")
    assert chain_lines(result.waits[-1]) == [
        "gamma/app waits for the pause of a limit (rolling, canary)"
    ]


def test_a_prediction_goes_through_the_pause(simple_type: MakeType) -> None:
    graph = rolling(simple_type())

    def act(_so_far: SoFar) -> Act:
        known = dict.fromkeys(IDS, "outdated")
        return Act(graph=graph, engine=Engine(graph), known=known)

    predicted = predict([act])
    assert not predicted.waits
    assert [(step.cob, step.start_s, step.waits_for) for step in predicted.steps] == [
        (A, 0.0, ()),
        (B, 31.0, (A,)),
        (C, 31.0, (A,)),
    ]


def test_the_next_act_of_a_run_has_the_same_canary(simple_type: MakeType) -> None:
    """It was through before: the others go at once."""
    graph = rolling(simple_type())

    def act(so_far: SoFar) -> Act:
        known = dict.fromkeys(IDS, "outdated")
        return Act(graph=graph, engine=Engine(graph, canaries=so_far.canaries), known=known)

    predicted = predict([act, act])
    assert [step.start_s for step in predicted.steps[3:]] == [32.0, 32.0, 32.0]
