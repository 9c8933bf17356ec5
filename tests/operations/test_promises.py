"""Runs of random sites keep P1 to P6, and do what their plan has said."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.cli.graph import graph_data
from cobweb.engine import WaitKind
from cobweb.generation import content_of
from cobweb.kernel._result import StuckError, stuck_waits
from cobweb.model import UNKNOWN, Graph
from cobweb.operations import (
    Caller,
    Orders,
    Plan,
    Refresh,
    RunResult,
    apply_site,
    desired_of,
    plan_site,
    simulate_site,
)
from cobweb.operations.context._known_states import known_states
from cobweb.plugin import Plugins, load_plugins
from cobweb.site import Site
from cobweb.store import Entry, RunInfo, StateWritten, TransitionBegan, open_store
from cobweb.testing.promises import check_promises
from tests.support.random_sites import Case, cases

CAUSES = {
    WaitKind.FAILED,
    WaitKind.UNREACHABLE,
    WaitKind.NO_WAY,
    WaitKind.CHURN,
    WaitKind.EXCLUDED,
}

UNTOLD = " and waits for nothing"
"""What the checker says of an object that was not begun: no event tells of `--max-failures`."""

Event = Mapping[str, Any]


@cache
def plugins() -> Plugins:
    """Return the installed plugins; loading them takes a while."""
    return load_plugins()


def simulate(site: Site, case: Case) -> tuple[RunResult, list[Event]]:
    """Run a case as `cobweb simulate` does."""
    told: list[Event] = []
    bound = case.orders.get("max_failures")
    allowed: Callable[[int], int] | None = None if bound is None else lambda _total: bound
    given = {key: value for key, value in case.orders.items() if key != "limit"}
    orders = Orders(executor="simulate", options=case.options, **{**given, "max_failures": allowed})
    desired = desired_of(site, case.orders.get("limit"))
    result = simulate_site(desired, plugins(), orders, Caller(sinks=[told.append]))
    return result, [json.loads(json.dumps(event)) for event in told]


def watched(site: Site, graph: Graph, case: Case, events: list[Event]) -> dict[str, Any]:
    """Return the graph for the checker; what may not be moved is wanted as it ends."""
    data = graph_data(graph, {})
    limit = case.orders.get("limit")
    movable = set(site.select(limit)) if limit else {cob["host"] for cob in data["cobs"]}
    last = {event["cob"]: event["state"] for event in events if event["type"] == "cob.state"}
    for cob in data["cobs"]:
        if cob["host"] not in movable:
            cob["preferred"] = last.get(cob["id"], "unknown")
    return data


@given(cases())
def test_simulated_runs_keep_the_promises(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = case.load(Path(folder))
        result, events = simulate(site, case)
        graph = site.graph(case.orders["limit"])
        broken = check_promises(events, watched(site, graph, case, events))
        assert [line for line in broken if not (halted(result) and UNTOLD in line)] == []
        explained(result, may_halt=case.orders["max_failures"] is not None)
        settled(graph, result, events)
        assert simulate(site, case)[1] == events  # P6


def halted(result: RunResult) -> bool:
    return any(wait.chain[-1].kind is WaitKind.HALTED for wait in result.waits)


def explained(result: RunResult, *, may_halt: bool) -> None:
    """See that each object that waits has a chain that ends in a cause or a circle (P5)."""
    causes = CAUSES | {WaitKind.HALTED} if may_halt else CAUSES
    for wait in result.waits:
        assert wait.chain, wait.cob
        assert wait.is_circle or wait.chain[-1].kind in causes, wait
    kinds = {wait.chain[0].kind for wait in result.waits}
    assert (result.exit_code == 0) == (not result.waits)
    if kinds & {WaitKind.FAILED, WaitKind.UNREACHABLE}:
        assert result.exit_code == 1
    else:
        assert (result.exit_code == 4) == bool(stuck_waits(result.waits))


def settled(graph: Graph, result: RunResult, events: list[Event]) -> None:
    """See that the counts and the end of the run are those that the events show."""
    end = events[-1]
    assert end["type"] == "run.end"
    assert end["exit_code"] == result.exit_code
    assert end["counts"] == dict(result.counts)
    ends = [event for event in events if event["type"] == "transition.end"]
    assert result.counts["transitions"] == sum(event["result"] == "ok" for event in ends)
    starts = [event for event in events if event["type"] == "transition.start"]
    assert len(starts) == len(ends)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert result.counts["cobs"] == len(graph.cobs)
    assert result.counts["waiting"] == len(result.waits)


@pytest.mark.gate("P8 as a property over random sites")
@given(cases(trouble=False), st.data())
def test_an_apply_does_what_the_plan_has_said(case: Case, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = case.load(Path(folder))
        graph = site.graph(None)
        with open_store("sqlite:///state.db", Path(folder)) as store:
            written = data.draw(st.lists(believed(graph), max_size=len(graph.cobs)))
            store.begin_run(replace(info("before"), command="apply --executor simulate"))
            store.write(written)
            limit = data.draw(st.sampled_from([None, None, *sorted(graph.hosts())]))
            refresh = data.draw(st.sampled_from(Refresh))
            plan = plan_site(desired_of(site, limit), plugins(), store, refresh=refresh)
            found = known_states(site.graph(limit), store.states(), refresh=refresh).found
            told: list[Event] = []
            orders = Orders(
                executor="simulate",
                refresh=refresh,
                parallel=1000,
                options={"initial": dict(found)},
            )
            caller = Caller(sinks=[told.append])

            def apply() -> RunResult:
                desired = desired_of(site, limit)
                return apply_site(desired, plugins(), store, orders, caller, info=info("apply"))

            if not plan.converges:
                with pytest.raises(StuckError):
                    apply()
                assert told == []  # P9
                return
            result = apply()
            assert planned(plan) == done(told)
            assert plan.waits == result.waits
            if result.exit_code == 0:
                again = plan_site(desired_of(site, limit), plugins(), store)
                assert again.is_empty
                assert again.checks == ()


Steps = list[tuple[float, float, str, str, str]]


def planned(plan: Plan) -> Steps:
    """Return the steps of a plan by time and object."""
    return sorted((s.start_s, s.end_s, s.cob, s.source, s.dest) for s in plan.steps)


def done(events: list[Event]) -> Steps:
    """Return the same of a run that has ended."""
    found = []
    for event in events:
        if event["type"] == "transition.end":
            start = event["time"] - event["seconds"]
            found.append((start, event["time"], event["cob"], event["from"], event["to"]))
    return sorted(found)


def info(run: str) -> RunInfo:
    command = "apply --executor simulate"
    return RunInfo(id=run, command=command, started=0.0, user="ann", host="here", pid=1)


@st.composite
def believed(draw: st.DrawFn, graph: Graph) -> Entry:
    """Draw what the journal believes of an object: sure, of an older content, or in transition."""
    cob = draw(st.sampled_from(sorted(graph.cobs)))
    it = graph.cobs[cob]
    if draw(st.integers(0, 4)) == 0:
        step = draw(st.sampled_from(it.type.transitions))
        return TransitionBegan(cob=cob, source=step.source, dest=step.dest, time=0.0)
    return StateWritten(
        cob=cob,
        state=draw(st.sampled_from([*it.type.states, UNKNOWN])),
        reason="check",
        time=0.0,
        applied=draw(st.sampled_from([None, {}])),
        content=draw(st.sampled_from([content_of(it), content_of(it), "older"])),
    )
