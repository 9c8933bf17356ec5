"""`check_promises` passes good runs and catches each way to break one."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cobweb.model import CobId
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import Faults, Simulation, graph_json
from tests.support.graphs import SIMPLE, graph_of
from tests.support.plain_promises import plain_check_promises

GRAPH = graph_of("x/a x/b x/d", "x/a down>up x/b up", "x/b up x/d up")
JSON = graph_json(GRAPH)


def event(text: str) -> dict[str, Any]:
    """Read an event: `grant b a up`, `start a down up`, `end a down up ok`, `state a up`."""
    kind, *words = text.split()
    ids = [f"x/{word}" for word in words[:2]]
    match kind:
        case "state":
            return {"type": "cob.state", "cob": ids[0], "state": words[1], "reason": "check"}
        case "start":
            return {"type": "transition.start", "cob": ids[0], "from": words[1], "to": words[2]}
        case "end":
            step = {"type": "transition.end", "cob": ids[0], "from": words[1], "to": words[2]}
            ok = words[3] == "ok"
            return {**step, "result": words[3], "state": words[2] if ok else "unknown"}
        case "run":
            return {"type": "run.end", "exit_code": int(words[0])}
        case _:
            return {"type": f"lock.{kind}", "cob": ids[0], "holder": ids[1], "state": words[2]}


def story(text: str) -> list[str]:
    """Check a record of events separated by `;`."""
    return check_promises([event(part) for part in text.split(";")], JSON)


START = "state a down; state b up; state d up; request d b up; grant d b up; grant b a up; "
GOOD = START + "start a down up; end a down up ok; release b a up; release d b up; run 0"


def test_a_good_run_has_no_violation() -> None:
    """Nothing is reported that was right."""
    assert story(GOOD) == []


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        (
            "state a down; state b up; state d up; start a down up; end a down up ok; run 0",
            "P1 event 4: x/a down -> up runs without x/b up",
        ),
        (
            START + "start a down up; release b a up; end a down up ok; run 0",
            "P1 event 8: x/a gives x/b up back while its transition runs",
        ),
        (
            START + "start a down up; start b up down; end b up down ok; end a down up ok; run 4",
            "P1 event 8: x/b moves while the transition of x/a needs it",
        ),
        (
            START + "start b up down; end b up down ok; run 4",
            "P2 event 7: x/b leaves up while x/a holds its lock on up",
        ),
        (
            "state a down; state b down; grant b a up; run 4",
            "P2 event 3: x/b lends up to x/a and is not in it",
        ),
        (
            "state a down; state b up; grant b a up; run 4",
            "P3 event 3: x/b lends up without x/d up",
        ),
        (START + "release d b up; run 4", "P3 event 7: x/b lends up and gives x/d up back"),
        (
            "state d down; start d down up; start d down up; end d down up ok; run 4",
            "P4 event 3: x/d starts a transition while another one runs",
        ),
        (
            "state d up; start d down up; end d down up ok; run 4",
            "P4 event 2: x/d starts from down and is up",
        ),
        (
            "state d up; start d up outdated; end d up outdated ok; run 4",
            "P4 event 2: x/d has no transition up -> outdated",
        ),
        (
            "state d up; end d up down ok; run 4",
            "P4 event 2: x/d ends up -> down, which did not run",
        ),
        ("state d odd; run 4", "P4 event 1: x/d has no state odd"),
        ("state q up; run 4", "P4 event 1: x/q is not in the graph"),
        ("state d up; request b q up; run 4", "P4 event 2: x/q is not in the graph"),
        ("state d up", "P5 event 1: the run has no end"),
        (
            "state d up; start d up down; run 130",
            "P5 event 3: the run ends while a transition of x/d runs",
        ),
        (
            "state a up; state b up; state d down; run 0",
            "P5 event 4: all is said to be done and x/d is down",
        ),
        (
            "state a up; state b up; state d up; run 1",
            "P5 event 4: a failure is said and none is told",
        ),
    ],
)
def test_a_broken_promise_is_told(text: str, violation: str) -> None:
    """Each promise has its violations, with the number of the event."""
    assert violation in story(text)


GROUPED = graph_json(
    graph_of(
        {
            "x/a": SIMPLE,
            "x/b": replace(SIMPLE, groups={"off": ("outdated", "down"), "low": ("down",)}),
            "x/d": SIMPLE,
        },
        *("x/a down>up x/b off", "x/b down x/d up"),
    )
)
HELD = "state a down; state b down; state d up; grant d b up; grant b a off; "
DONE = "end a down up ok; release b a off; release d b up; start b down up; end b down up ok; run 0"


@pytest.mark.parametrize(
    ("text", "violations"),
    [
        (HELD + "start a down up; " + DONE, []),
        (
            "state a down; state b outdated; grant b a off; start a down up; run 130",
            ["P5 event 5: the run ends while a transition of x/a runs"],
        ),
        (HELD.replace("a off", "a low") + "start a down up; " + DONE.replace("a off", "a low"), []),
        (
            HELD + "state b outdated; start a down up; release d b up; " + DONE,
            ["P4 event 12: x/b starts from down and is outdated"],
        ),
        (
            "state a down; state b up; state d up; grant b a off; run 4",
            ["P2 event 4: x/b lends off to x/a and is not in it"],
        ),
        (
            "state a down; state b down; state d up; grant b a off; run 4",
            ["P3 event 4: x/b lends off without x/d up"],
        ),
        (HELD + "release d b up; run 4", ["P3 event 6: x/b lends down and gives x/d up back"]),
        (
            HELD + "state b unknown; release d b up; run 4",
            ["P3 event 7: x/b lends down and gives x/d up back"],
        ),
        (HELD + "state b up; release d b up; run 4", []),
        (
            HELD + "state b up; start a down up; run 130",
            [
                "P1 event 7: x/a down -> up runs without x/b off",
                "P5 event 8: the run ends while a transition of x/a runs",
            ],
        ),
        (
            HELD + "start a down up; release b a off; end a down up ok; run 4",
            ["P1 event 7: x/a gives x/b off back while its transition runs"],
        ),
        (
            HELD + "start b down up; run 130",
            [
                "P2 event 6: x/b leaves down while x/a holds its lock on off",
                "P5 event 7: the run ends while a transition of x/b runs",
            ],
        ),
    ],
)
def test_a_lock_on_a_group_is_one_on_the_state_that_the_object_is_in(
    text: str, violations: list[str]
) -> None:
    """A lock on one of its states does as well; what is lent leans on that state's lock needs."""
    record = [event(part) for part in text.split(";")]
    assert check_promises(record, GROUPED) == violations
    assert plain_check_promises(record, GROUPED) == violations


def test_an_object_that_waits_for_nothing_beside_a_failure_is_told() -> None:
    """P5: what does not depend on the failure goes on."""
    graph = graph_json(graph_of("x/a y/b"))
    record: list[dict[str, Any]] = [
        {"type": "cob.state", "cob": "y/b", "state": "unknown"},
        {"type": "cob.state", "cob": "x/a", "state": "down"},
        {"type": "run.end", "exit_code": 1},
    ]
    assert check_promises(record, graph) == ["P5 event 3: x/a is down and waits for nothing"]


def test_an_object_that_was_stopped_for_restlessness_is_no_violation() -> None:
    """It went to and fro and the limit stopped it."""
    graph = graph_json(graph_of("x/a y/b"))
    step = {"cob": "x/a", "from": "down", "to": "up"}
    back = {"cob": "x/a", "from": "up", "to": "down"}
    record: list[dict[str, Any]] = [{"type": "cob.state", "cob": "x/a", "state": "down"}]
    for _ in range(3):
        for way in (step, back):
            record.append({"type": "transition.start", **way})
            record.append({"type": "transition.end", **way, "state": way["to"], "result": "ok"})
    assert check_promises([*record, {"type": "run.end", "exit_code": 1}], graph) == []


def test_a_lock_of_an_earlier_run_may_be_told_before_its_object_is_known() -> None:
    """A resumed run begins with the locks that are still out."""
    record = "grant b a up; state a down; state b up; state d up; release b a up; run 4"
    assert story(record) == []


def test_a_failed_transition_explains_what_is_left() -> None:
    """Exit code 1 with a failure is an answer."""
    record = START + "start a down up; end a down up failed; state a unknown; run 1"
    assert story(record) == []


@pytest.mark.parametrize("seed", range(20))
def test_simulated_runs_keep_the_promises_and_damaged_records_do_not(seed: int) -> None:
    """The checker sees a start that was moved before its grant."""
    states = dict.fromkeys(GRAPH.cobs, "down")
    simulation = Simulation(graph=GRAPH, random=Random(seed), truth=states)
    simulation.run()
    events = json.loads(json.dumps(simulation.events()))
    assert check_promises(events, JSON) == []
    grant = next(e for e in events if e["type"] == "lock.grant" and e["holder"] == "x/a")
    assert check_promises([e for e in events if e is not grant], JSON) != []


def test_the_same_seed_gives_the_same_run() -> None:
    """P6: everything that is random comes from the generator."""

    def record() -> list[dict[str, Any]]:
        simulation = Simulation(
            graph=GRAPH,
            random=Random(7),
            truth=dict.fromkeys(GRAPH.cobs, "down"),
            owners=[frozenset({CobId("x/a")}), frozenset({CobId("x/b"), CobId("x/d")})],
            faults=Faults(lose=0.2, double=0.2, fail=0.1, vanish=0.1, come_back=0.2),
        )
        simulation.run()
        return simulation.events()

    assert record() == record()
