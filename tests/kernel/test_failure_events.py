"""The events of failures carry what was said, within bounds; those of successes do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cobweb.kernel._record import LONGEST_MESSAGE, MOST_TASKS
from cobweb.kernel._signals import Interrupts
from cobweb.model import CobId, Job, JobKind, Outcome, Report, TaskOutput

MakeRig = Callable[..., Any]
MakeGraph = Callable[..., Any]
A = CobId("alpha/a")


def _failing(kind: JobKind, **report: Any) -> Callable[[Job], Report | None]:
    """Let the jobs of A of this kind end badly."""

    def answer(job: Job) -> Report | None:
        if job.cob != A or job.kind is not kind:
            return None
        return Report(number=job.number, outcome=Outcome.FAILED, **report)

    return answer


def test_a_failed_transition_tells_its_message_and_tasks(rig: MakeRig, figure: MakeGraph) -> None:
    tasks = (
        TaskOutput(name="write", status="changed", message="token=hunter2"),
        TaskOutput(name="start", status="failed", message="no such unit"),
    )
    it = rig(figure(), _failing(JobKind.TRANSITION, message="start: no such unit", tasks=tasks))
    it.go()
    (end,) = [event for event in it.events("transition.end") if event["result"] == "failed"]
    assert end["message"] == "start: no such unit"
    assert end["tasks"] == [
        {"name": "write", "status": "changed", "message": ""},
        {"name": "start", "status": "failed", "message": "no such unit"},
    ]
    assert not any("message" in event for event in it.events("transition.end") if event != end)


def test_a_failed_check_tells_its_message(rig: MakeRig, figure: MakeGraph) -> None:
    it = rig(figure(), _failing(JobKind.CHECK, message="no rights"))
    it.go()
    told = [event for event in it.events("cob.state") if "message" in event]
    assert [(event["cob"], event["message"]) for event in told] == [(A, "no rights")]


def test_each_check_tells_in_which_state_it_ended_or_why_it_failed(
    rig: MakeRig, figure: MakeGraph
) -> None:
    it = rig(figure(), _failing(JobKind.CHECK, message="no rights"))
    it.go()
    ends = {event["cob"]: event for event in it.events("check.end")}
    assert ends.keys() == figure().cobs.keys()
    failed = ends.pop(A)
    assert (failed["state"], failed["result"], failed["message"]) == (
        "unknown",
        "failed",
        "no rights",
    )
    for event in ends.values():
        assert event["result"] == "ok"
        assert event["state"] in it.graph.cobs[event["cob"]].type.states
        assert "message" not in event


def test_a_check_whose_host_cannot_be_reached_ends_as_well(rig: MakeRig, figure: MakeGraph) -> None:
    def answer(job: Job) -> Report | None:
        is_lost = job.host == "alpha" and job.kind is JobKind.CHECK
        lost = Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")
        return lost if is_lost else None

    it = rig(figure(), answer)
    it.go()
    ends = [event for event in it.events("check.end") if event["result"] == "failed"]
    assert ends
    for event in ends:
        assert event["cob"].startswith("alpha/")
        assert (event["state"], event["message"]) == ("unknown", "no route")
        assert event["unreachable"] is True


def test_what_is_told_has_bounds(rig: MakeRig, figure: MakeGraph) -> None:
    tasks = tuple(TaskOutput(name=str(n), status="failed", message="x" * 9999) for n in range(99))
    it = rig(figure(), _failing(JobKind.TRANSITION, message="y" * 9999, tasks=tasks))
    it.go()
    (end,) = [event for event in it.events("transition.end") if event["result"] == "failed"]
    assert len(end["message"]) == LONGEST_MESSAGE
    assert [task["name"] for task in end["tasks"]] == [str(n) for n in range(99 - MOST_TASKS, 99)]
    assert {len(task["message"]) for task in end["tasks"]} == {LONGEST_MESSAGE}


def test_of_a_long_message_the_end_is_kept(rig: MakeRig, figure: MakeGraph) -> None:
    cause = "--election-timeout is too short"
    tasks = (TaskOutput(name="start", status="failed", message="y" * 9999 + cause),)
    it = rig(
        figure(), _failing(JobKind.TRANSITION, message=f"start: {'y' * 9999}{cause}", tasks=tasks)
    )
    it.go()
    (end,) = [event for event in it.events("transition.end") if event["result"] == "failed"]
    assert end["message"].startswith("start: ")
    assert end["message"].endswith(cause)
    assert end["tasks"][0]["message"].endswith(cause)


@pytest.mark.parametrize("kind", [JobKind.CHECK, JobKind.TRANSITION])
def test_the_end_names_hosts_that_could_not_be_reached(
    rig: MakeRig, figure: MakeGraph, kind: JobKind
) -> None:
    def answer(job: Job) -> Report | None:
        if job.host != "alpha" or job.kind is not kind:
            return None
        return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")

    it = rig(figure(), answer)
    it.go()
    assert it.events("run.end")[0]["unreachable"] == {"alpha": "no route"}
    ends = [event for event in it.events("transition.end") if event["result"] == "failed"]
    assert all(event["unreachable"] is True for event in ends)


def test_a_run_without_failures_tells_what_it_always_told(rig: MakeRig, figure: MakeGraph) -> None:
    it = rig(figure())
    it.go()
    assert "unreachable" not in it.events("run.end")[0]
    assert not any("message" in event for event in it.events("cob.state"))


def test_a_run_that_is_stepped_and_ended_at_rest_says_what_waits_for_what_failed(
    rig: MakeRig, figure: MakeGraph
) -> None:
    it = rig(figure(), _failing(JobKind.TRANSITION, message="no such unit"))
    run = it.run()
    run.kernel.start()
    run.kernel.flush()
    for _ in range(200):  # the fake executor ends what it has at each of them
        run.kernel.poll()
    result = run.end(Interrupts())
    whole = rig(figure(), _failing(JobKind.TRANSITION, message="no such unit")).go()
    assert result.waits == whole.waits
    assert result.messages == whole.messages
    assert whole.waits
