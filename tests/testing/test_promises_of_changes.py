"""`check_promises` over a change of generations: a host follows the old one until it switches."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import graph_json
from tests.support.graphs import budget_of, graph_of
from tests.support.plain_promises import plain_check_promises

OLD = graph_json(graph_of("h/r g/a g/b", "h/r up>down g/a down", "g/b up>down g/a up"))
NEW = graph_json(graph_of("g/a g/b h/n", "g/a down>up h/n up"))
"""`r` leaves host h, which needs `a` down; in its place comes `n`, which `a` needs to come up."""

KNOWN = "state h/r up; state g/a up; state g/b up; "
REMOVED = (
    KNOWN + "request g/a h/r down; start g/a up down; end g/a down; grant g/a h/r down; "
    "start h/r up down; end h/r down; release g/a h/r down; "
)
EARLY = (
    f"{KNOWN}request g/a h/r down; start g/a up down; end g/a down; grant g/a h/r down; "
    "switch g; start h/r up down; end h/r down; release g/a h/r down; switch h; "
)
COMES = "state h/n down; start h/n down up; end h/n up; grant h/n g/a up; "
GONE = "state h/n up; state h/r down; "
BACK = COMES + "start g/a down up; end g/a up; release h/n g/a up; "


def event(text: str) -> dict[str, Any]:
    """Read `start h/a up down`, `end h/a down`, `switch h g`, `run 0`, `grant h/a h/b up`."""
    kind, *words = text.split()
    if kind == "switch":
        return {"type": "generation.switch", "hosts": words, "generation": 2}
    if kind == "run":
        return {"type": "run.end", "exit_code": int(words[0])}
    types = {"state": "cob.state", "start": "transition.start", "end": "transition.end"}
    keys = {"state": ("cob", "state"), "start": ("cob", "from", "to"), "end": ("cob", "to")}
    told = dict(zip(keys.get(kind, ("cob", "holder", "state")), words, strict=True))
    if kind == "end":
        told |= {"from": "up" if words[1] == "down" else "down", "result": "ok"}
    return {"type": types.get(kind, f"lock.{kind}"), **told}


def story(text: str) -> list[str]:
    """Check a record of events separated by `;`, and that the plain checker says the same."""
    events = [event(part) for part in text.split(";")]
    said = check_promises(events, NEW, before=OLD)
    assert said == plain_check_promises(events, NEW, before=OLD)
    return said


def test_a_change_in_the_right_order_has_no_violation() -> None:
    """What is gone goes under the old needs, hosts switch, what is new comes under the new ones."""
    assert story(f"{REMOVED}switch h; switch g; {BACK}run 0") == []


def test_pauses_of_limits_are_passed_over() -> None:
    """They are no promise."""
    events = [event(part) for part in f"{REMOVED}switch h g; {BACK}run 0".split(";")]
    pause = {"type": "limit.pause", "limit": "l", "cobs": ["g/a"], "seconds": 1.0}
    events[-1:-1] = [pause, {"type": "limit.resume", "limit": "l"}]
    assert check_promises(events, NEW, before=OLD) == []


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        (
            KNOWN + "start h/r up down; end h/r down; switch h g; state h/n up; run 0",
            "P1 event 4: h/r up -> down runs without g/a down",
        ),
        (
            f"{KNOWN}switch h g; state h/n up; start h/r up down; end h/r down; run 0",
            (
                "P1 event 6: h/r up -> down runs without g/a down\n"
                "P4 event 6: h/r moves after its host has switched\n"
                "P1 event 6: h/r needs g/a, whose host has switched"
            ),
        ),
        (
            f"{EARLY}{BACK}run 0",
            "P1 event 9: h/r needs g/a, whose host has switched",
        ),
        (
            f"{COMES}{REMOVED}switch h g; start g/a down up; end g/a up; release h/n g/a up; run 0",
            "P4 event 2: h/n moves before its host has switched",
        ),
        (
            f"{REMOVED}start g/a down up; end g/a up; switch g h; {COMES}run 0",
            "",
        ),
        (
            f"{REMOVED}switch h; switch g; state h/n up; start g/a down up; end g/a up; run 0",
            "P1 event 14: g/a down -> up runs without h/n up",
        ),
        (
            f"{KNOWN}start g/b up down; end g/b down; switch g h; state g/b up; {GONE}run 0",
            "P1 event 4: g/b up -> down runs without g/a up",
        ),
        (
            f"{REMOVED}start g/a down up; switch g; end g/a up; switch h; {COMES}run 0",
            "P4 event 12: g/a is in transition and its host switches",
        ),
        (
            f"{KNOWN}switch h g; state h/n up; run 0",
            "P5 event 6: all is said to be done and h/r is up",
        ),
        (
            f"{KNOWN}state h/n up; state g/b unknown; state g/b up; run 1",
            "P5 event 7: h/r is up and waits for nothing",
        ),
        (
            f"state g/a down; state g/b up; state h/n unknown; {GONE}switch g; run 1",
            "P5 event 7: g/a is down and waits for nothing",
        ),
        (
            f"{KNOWN}state h/r odd; switch h g; state h/n up; state h/r down; run 0",
            "P4 event 4: h/r has no state odd",
        ),
    ],
)
def test_each_way_to_break_a_promise_is_found(text: str, violation: str) -> None:
    """The line names the promise and the event; "" where all was right."""
    assert story(text) == violation.splitlines()


def test_what_is_gone_and_waits_for_nothing_is_told() -> None:
    """Where something else failed; what nothing was told of is not judged."""
    old = graph_json(graph_of("h/r g/a"))
    new = graph_json(graph_of("g/a"))
    failed = [event("state g/a up"), event("state g/a unknown"), event("state g/a up")]
    record = [event("state h/r up"), *failed, event("run 1")]
    said = ["P5 event 5: h/r is up and waits for nothing"]
    assert check_promises(record, new, before=old) == said
    assert plain_check_promises(record, new, before=old) == said
    assert check_promises([event("state g/a up"), event("run 0")], new, before=old) == []


@pytest.mark.parametrize(
    ("trouble", "idle"),
    [
        ("state a/r unknown; state a/r up; ", ""),
        ("state a/r unknown; ", ""),
        ("state b/x unknown; state b/x up; request a/x a/r up; ", ""),
        ("state a/x unknown; state a/x up; ", ""),
        ("state b/x unknown; state b/x up; ", "a/r d/r"),
    ],
)
def test_what_a_limit_holds_up_waits_for_another_member_of_it(trouble: str, idle: str) -> None:
    """One that failed, or that is kept itself; two that are idle are no excuse for each other."""
    old = graph_json(graph_of("a/r a/x b/x d/r", budgets=(budget_of("a/r d/r"),)))
    new = graph_json(graph_of("a/x b/x", budgets=(budget_of("a/x b/x", name="other"),)))
    known = "state a/r up; state d/r up; state a/x up; state b/x up; "
    events = [event(part) for part in f"{known}{trouble}run 1".split(";")]
    said = [f"P5 event {len(events)}: {cob} is up and waits for nothing" for cob in idle.split()]
    assert check_promises(events, new, before=old) == said
    assert plain_check_promises(events, new, before=old) == said


@pytest.mark.parametrize(("name", "is_told"), [("rolling", False), ("other", True)])
def test_a_limit_is_known_by_its_name_and_speaks_of_both_generations(
    name: str, *, is_told: bool
) -> None:
    """What is gone waits for what is lost, of which only the goal's limit speaks (5b, units)."""
    old = graph_json(graph_of("b/x d/r", budgets=(budget_of("d/r", name="rolling"),)))
    new = graph_json(graph_of("b/x", budgets=(budget_of("b/x", name=name),)))
    told = "state d/r up; state b/x up; state b/x unknown; state b/x up; run 1"
    events = [event(part) for part in told.split(";")]
    said = ["P5 event 5: d/r is up and waits for nothing"] if is_told else []
    assert check_promises(events, new, before=old) == said
    assert plain_check_promises(events, new, before=old) == said


def test_an_object_of_a_host_that_does_not_switch_in_this_run_may_follow_either_graph() -> None:
    """Its host had switched in an earlier run, or was held up."""
    assert story(f"{KNOWN}start g/b up down; end g/b down; state g/b unknown; run 4") == []
    assert story("state h/n down; start h/n down up; end h/n up; run 4") == []


def test_locks_follow_the_graph_of_their_host() -> None:
    """P3: what a lock needs may be another thing after the switch."""
    old = graph_json(graph_of("g/a g/b h/c h/d", "g/a up g/b up"))
    new = graph_json(graph_of("g/a g/b h/c h/d", "g/a up h/c up"))
    known = "state g/a up; state g/b up; state h/c up; state h/d up; "
    lend = "request g/a h/d up; grant g/a h/d up; release g/a h/d up; "
    for text, violations in (
        (f"grant g/b g/a up; {lend}release g/b g/a up; switch g h; run 0", []),
        (f"switch g h; grant h/c g/a up; {lend}release h/c g/a up; run 0", []),
        (f"switch g h; {lend}run 0", ["P3 event 7: g/a lends up without h/c up"]),
        (f"{lend}run 0", ["P3 event 6: g/a lends up without g/b up"]),
        (f"grant h/c g/a up; {lend}release h/c g/a up; run 0", []),
        (
            f"grant h/c g/a up; {lend}release h/c g/a up; switch g h; run 0",
            ["P3 event 7: g/a lends up without g/b up"],
        ),
    ):
        events = [event(part) for part in (known + text).split(";")]
        assert check_promises(events, new, before=old) == violations, text
        assert plain_check_promises(events, new, before=old) == violations
