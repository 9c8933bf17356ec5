"""What another owner has told is taken down as if it had happened here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cobweb.kernel._mirror import mirror
from cobweb.model import CobId, Graph, Job, JobKind, Outcome, Report
from cobweb.operations.context._known_states import known_states
from cobweb.store import StateWritten, TransitionFinished
from cobweb.store._fold import fold

MakeRig = Callable[..., Any]
COLUMNS = ("state", "known", "source", "dest", "failed", "content", "applied", "generation")


def _fails(job: Job) -> Report | None:
    if job.kind is JobKind.TRANSITION and job.cob == "beta/app":
        return Report(number=job.number, outcome=Outcome.FAILED, message="no such unit")
    return None


@pytest.mark.parametrize("answer", [None, _fails], ids=["all well", "one fails"])
def test_it_leaves_the_journal_that_the_run_itself_has_left(
    rig: MakeRig, figure: Callable[..., Graph], answer: Any
) -> None:
    there, here = rig(figure(), answer), rig(figure())
    result = there.go()
    told = [
        (
            event["type"],
            {key: it for key, it in event.items() if key not in ("seq", "time", "type")},
        )
        for kind, event in there.tape.happened
        if kind == "event" and event["type"] not in ("version", "run.start", "run.end")
    ]
    run = here.run()
    mirror(told, run.kernel.run_state, run.kernel.record)
    run.kernel.record.flush()

    def left(it: Any) -> dict[CobId, dict[str, Any]]:
        entries = [each for kind, batch in it.tape.happened if kind == "journal" for each in batch]
        cobs = fold(entries, generation=1).cobs
        return {cob: {name: columns.get(name) for name in COLUMNS} for cob, columns in cobs.items()}

    assert left(here) == left(there)
    state = run.kernel.run_state
    counts = {"checks": state.checks, "transitions": state.transitions, "failed": len(state.failed)}
    assert counts.items() <= result.counts.items()
    assert set(result.messages.items()) <= set(state.messages.items())
    events = [event for kind, event in here.tape.happened if kind == "event"]
    assert [event["type"] for event in events] == [kind for kind, _ in told]
    assert [event["seq"] for event in events] == list(range(1, len(told) + 1))


def test_what_is_not_looked_at_yet_takes_nothing_away(
    rig: MakeRig, figure: Callable[..., Graph]
) -> None:
    it = rig(figure())
    run = it.run()
    cob = min(run.kernel.run_state.context.graph.cobs)
    told = [("cob.state", {"cob": cob, "state": "unknown", "reason": "content"})]
    mirror(told, run.kernel.run_state, run.kernel.record)
    run.kernel.record.flush()
    assert not it.entries(StateWritten)
    assert not it.entries(TransitionFinished)
    assert len(it.events("cob.state")) == 1


def test_what_is_known_already_is_as_old_as_it_was(
    rig: MakeRig, figure: Callable[..., Graph]
) -> None:
    """An agent that goes on from its journal tells so at each apply."""
    known = dict.fromkeys(figure().cobs, "up")
    for states, written in ((known, 0), ({}, 1)):
        before = replace(known_states(figure(), {}), recorded=states)
        it = rig(figure(), context={"before": before})
        run = it.run()
        told = [("cob.state", {"cob": min(known), "state": "up", "reason": "journal"})]
        mirror(told, run.kernel.run_state, run.kernel.record)
        run.kernel.record.flush()
        assert len(it.entries(StateWritten)) == written
