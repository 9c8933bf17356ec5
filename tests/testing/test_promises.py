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
from tests.support.graphs import SIMPLE, budget_of, graph_of
from tests.support.plain_promises import plain_check_promises

GRAPH = graph_of("x/a x/b x/d", "x/a down>up x/b up", "x/b up x/d up")
JSON = graph_json(GRAPH)


def event(text: str) -> dict[str, Any]:  # noqa: PLR0911 - one line for each kind of event
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
        case "gave_up":
            return {"type": "cob.gave_up", "cob": ids[0]}
        case "slot_take" | "slot_return":
            return {"type": kind.replace("_", "."), "limit": words[0], "unit": words[1]}
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


ASKS = "state a down; state b up; request b a down; "
GETS = "state a down; state b down; request b a down; grant b a down; "
LEFT = "P5 event {}: x/a is down and waits for nothing"


def beside_a_failure(text: str, graph: dict[str, Any]) -> tuple[list[str], int]:
    """Return what is told of a record after which `y/d` fails, and the number of its end."""
    record = [event(part) for part in text.split(";")]
    record += [{"type": "cob.state", "cob": "y/d", "state": state} for state in ("unknown", "up")]
    record.append(event("run 1"))
    said = check_promises(record, graph)
    assert said == plain_check_promises(record, graph)
    return said, len(record)


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (ASKS + "gave_up a; release b a down", False),
        (ASKS + "release b a down", True),
        (ASKS + "release b a down; gave_up a", True),
        (ASKS + "gave_up a; release b a down; request b a up; release b a up", False),
        (GETS + "gave_up a; release b a down; state b up", True),
        (
            GETS + "gave_up b; start a down up; end a down up ok; release b a down; state a down;"
            "state b up",
            True,
        ),
    ],
)
def test_who_gives_up_waits_for_what_it_asks_for_then(*, text: str, is_told: bool) -> None:
    """P5: who gives up and has all that it asks for has no reason."""
    graph = graph_json(graph_of("x/a x/b y/d", "x/a down>up x/b down"))
    said, last = beside_a_failure(text, graph)
    assert said == ([LEFT.format(last)] if is_told else [])


def test_who_gave_up_and_moves_nevertheless_needs_another_reason() -> None:
    """Nobody asks in vain for what is done."""
    graph = graph_json(graph_of("x/a x/b y/d", "x/a down>up x/b down", "x/a down>outdated y/d up"))
    text = (
        "state a down; state b down; request b a down; gave_up a; grant b a down; "
        "start a down up; end a down up ok; release b a down; state a down; state b up"
    )
    said, last = beside_a_failure(text, graph)
    assert said == [LEFT.format(last)]


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("", True),
        ("slot_take rolling y; ", False),
        ("slot_take rolling y; slot_return rolling y; ", True),
        ("slot_take rolling x; ", True),
        ("slot_take rolling x/a; ", True),
        ("slot_take rolling r1; ", False),
    ],
)
def test_an_object_may_wait_for_the_slot_of_another_unit(*, text: str, is_told: bool) -> None:
    """P5: of a unit that is a value of a variable nobody knows who belongs to it."""
    graph = graph_json(graph_of("x/a x/b y/d"))
    said, last = beside_a_failure(f"state a down; state b up; {text}state b up", graph)
    assert said == ([LEFT.format(last)] if is_told else [])


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("gave_up b; state a down; state b up; state d up", False),
        ("gave_up a; state a down; state b up; state d up", False),
        ("gave_up d; state a down; state b up; state d up", True),
        ("state a down; state b up; state d up; request b d up; gave_up b; release b d up", True),
        ("gave_up a; state a up; state b up; state d up; start a up down; end a up down ok", True),
    ],
)
def test_what_gave_up_before_anything_began_is_left_alone(*, text: str, is_told: bool) -> None:
    """P5: with all that needs join with it (`--allow-stuck`)."""
    graph = graph_json(graph_of("x/a x/b x/d y/d", "x/b down>up x/a up"))
    graph["cobs"] = [cob for cob in graph["cobs"] if cob["id"] != "y/d"]
    graph["cobs"].append({**graph["cobs"][0], "id": "y/z"})
    record = [event(part) for part in text.split(";")]
    record += [{"type": "cob.state", "cob": "y/z", "state": state} for state in ("unknown", "up")]
    record.append(event("run 1"))
    said = check_promises(record, graph)
    assert said == plain_check_promises(record, graph)
    assert said == ([LEFT.format(len(record))] if is_told else [])


@pytest.mark.parametrize(
    ("needs", "is_told"),
    [
        ((), True),
        (("x/d down>up x/a up",), False),
        (("x/a down>up x/b up", "x/b up x/d up"), False),
        (("x/a down>up y/d up",), True),
    ],
)
def test_an_object_may_wait_for_room_with_all_that_needs_join_with_it(
    *, needs: tuple[str, ...], is_told: bool
) -> None:
    """P5: one of these is in a limit with an object that failed, and is not that one."""
    for units, is_bounded in (("x/d y/d", True), ("x/d x/b", False), ("y/d", False)):
        graph = graph_json(graph_of("x/a x/b x/d y/d", *needs, budgets=(budget_of(units),)))
        said, last = beside_a_failure("state a down; state b up; state d up", graph)
        assert said == ([LEFT.format(last)] if is_told or not is_bounded else [])


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("state a down; state b up; state d up; request d a down", False),
        (
            "state a down; state b up; state d up; request d a down; gave_up a; release d a down",
            False,
        ),
        ("state a down; state b up; state d up; request d a down; request a d down", True),
        ("state a down; state b up; state d up", True),
        ("state a down; state b up; state d up; request d a up", True),
    ],
)
def test_a_run_in_which_nothing_failed_asked_in_vain_for_one_that_stays(
    *, text: str, is_told: bool
) -> None:
    """Exit code 1: not in a circle, and not for what is there; so is an object not selected."""
    record = [event(part) for part in f"{text}; run 1".split(";")]
    said = check_promises(record, JSON)
    assert said == plain_check_promises(record, JSON)
    line = f"P5 event {len(record)}: a failure is said and none is told"
    assert (line in said) == is_told


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("", True),
        ("request b a up; request d b down; request b d down; gave_up a", False),
        ("request b a up; request d b down; gave_up a; request b d down", True),
        ("request d b down; request b d down; gave_up d", False),
        ("request b a up; request d b down; request a b up; request b d down; gave_up a", True),
        ("request b a up; request d b down; request b d down; gave_up a; start a down up", True),
    ],
)
def test_who_gave_up_may_have_waited_for_one_that_only_vouches_for_its_state(
    *, text: str, is_told: bool
) -> None:
    """`b` asks `d` down to lend that it is up; `d` asks `b` down, which it does not seek to be."""
    needs = ("x/a down>up x/b up", "x/b up x/d down", "x/b up>down x/a up", "x/d down x/b down")
    graph = graph_json(graph_of("x/a x/b x/d", *needs))
    taken_back = "release b a up; release d b down; release b d down; release a b up; run 1"
    parts = f"state a down; state b up; state d down; {text}; {taken_back}".replace("; ;", ";")
    record = [event(part) for part in parts.split(";")]
    said = check_promises(record, graph)
    assert said == plain_check_promises(record, graph)
    assert (f"P5 event {len(record)}: a failure is said and none is told" in said) == is_told


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
