"""A transition of which nobody knows how it ended is settled by a check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cobweb.model import CobId, Graph, Job, JobKind, Outcome, Report
from cobweb.operations import Ending
from cobweb.store import TransitionFinished
from tests.kernel.test_run import UP

A = CobId("alpha/a")
MakeRig = Callable[..., Any]
MakeGraph = Callable[..., Graph]


class Doubt:
    """Lets the first `times` jobs of A of a kind end in doubt; `done` says that all was done.

    Then A is in `leaves`, or in the target, and `after` is how its later jobs end, if given.
    """

    def __init__(
        self,
        kind: JobKind,
        *,
        done: bool,
        times: int = 1,
        leaves: str = "",
        after: tuple[Outcome, str] | None = None,
    ) -> None:
        self.run: Any = None
        self._kind, self._done, self._left = kind, done, times
        self._leaves, self._after = leaves, after

    def __call__(self, job: Job) -> Report | None:
        if job.cob == A and not self._left and self._after is not None:
            return Report(number=job.number, outcome=self._after[0], message=self._after[1])
        if job.cob != A or job.kind is not self._kind or not self._left:
            return None
        self._left -= 1
        if self._done:
            self.run.executor.states[A] = self._leaves or job.dest
        return Report(
            number=job.number, outcome=Outcome.FAILED, message="the broker is gone", in_doubt=True
        )


def jobs_of(run: Any) -> list[str]:
    """Return what was done with A: c for a check, t for a transition."""
    return ["t" if job.source else "c" for job in run.executor.jobs if job.cob == A]


@pytest.mark.parametrize(("done", "jobs"), [(True, "ctc"), (False, "ctct")])
def test_a_check_says_how_it_ended(
    rig: MakeRig, figure: MakeGraph, jobs: str, *, done: bool
) -> None:
    """In its target it has ended well; where it began it is tried again, once."""
    doubt = Doubt(JobKind.TRANSITION, done=done)
    run = doubt.run = rig(figure(), answer=doubt)
    result = run.go()
    assert result.ending is Ending.OK
    assert result.messages == {}
    assert run.executor.states == UP | {CobId("alpha/cfg"): "up"}
    assert "".join(jobs_of(run)) == jobs
    states = [entry.state for entry in run.entries(TransitionFinished) if entry.cob == A]
    assert states == ["up"]
    assert len([event for event in run.events("transition.start") if event["cob"] == A]) == 1


def test_it_is_not_tried_for_ever(rig: MakeRig, figure: MakeGraph) -> None:
    doubt = Doubt(JobKind.TRANSITION, done=False, times=9)
    run = doubt.run = rig(figure(), answer=doubt)
    result = run.go()
    assert result.ending is Ending.FAILED
    assert result.messages[A] == "the broker is gone"
    assert "".join(jobs_of(run)) == "ctctcc"


@pytest.mark.parametrize("after", [None, (Outcome.FAILED, "no check")])
def test_elsewhere_it_has_failed(
    rig: MakeRig, figure: MakeGraph, after: tuple[Outcome, str] | None
) -> None:
    """As it has where the check does not end well either."""
    doubt = Doubt(JobKind.TRANSITION, done=True, leaves="outdated", after=after)
    run = doubt.run = rig(figure(), answer=doubt)
    result = run.go()
    assert result.ending is Ending.FAILED
    assert result.messages[A].startswith("the broker is gone")
    assert [entry.state for entry in run.entries(TransitionFinished) if entry.cob == A] == [
        "unknown"
    ]


def test_a_host_that_is_gone_then_is_unreachable(rig: MakeRig, figure: MakeGraph) -> None:
    doubt = Doubt(JobKind.TRANSITION, done=True, after=(Outcome.UNREACHABLE, "no route"))
    run = doubt.run = rig(figure(), answer=doubt)
    result = run.go()
    assert result.ending is Ending.FAILED
    assert result.messages[A] == "no route"


def test_a_check_in_doubt_is_made_again(rig: MakeRig, figure: MakeGraph) -> None:
    doubt = Doubt(JobKind.CHECK, done=False, times=2)
    run = doubt.run = rig(figure(), answer=doubt)
    assert run.go().ending is Ending.OK
    assert "".join(jobs_of(run)) == "ccct"
