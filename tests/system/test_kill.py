"""`kill -9` at random moments loses nothing, doubles nothing, and the next apply converges."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from cobweb.testing.promises import check_promises
from tests.system.conftest import Demo

KILLS = 30
KILLS_IN_A_ROW = 3
MOST_EVENTS = 40
SEED = 20_261_121

Event = dict[str, Any]


def events_until(process: subprocess.Popen[str], number: int) -> Iterator[Event]:
    """Yield what a run tells until it has told `number` events or has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)
        number -= 1
        if number <= 0:
            return


def rest(process: subprocess.Popen[str]) -> list[Event]:
    """Return the whole lines that a killed run had still told."""
    assert process.stdout is not None
    lines = [json.loads(line) for line in process.stdout if line.endswith("\n")]
    process.wait()
    return lines


def begun(events: list[Event]) -> set[str]:
    """Return the objects whose transition had begun and not ended when the run was killed."""
    open_: set[str] = set()
    for event in events:
        if event["type"] == "transition.start":
            open_.add(event["cob"])
        elif event["type"] == "transition.end":
            open_.discard(event["cob"])
    return open_


@pytest.mark.full(
    "kill -9 at each moment of a run; test_resume.py and test_rolling.py kill at some"
)
@pytest.mark.timeout(1500)
def test_any_kill_is_survived(demo: Demo) -> None:
    choose = random.Random(SEED)
    assert demo.workshop.run("apply", "--yes").code == 0
    kills = rounds = in_transition = 0
    while kills < KILLS:
        rounds += 1
        demo.greet(f"round {rounds}")
        states = {cob: str(it["state"]) for cob, it in demo.workshop.states().items()}
        for _ in range(KILLS_IN_A_ROW):
            process = demo.workshop.start("apply", "--yes", "--events", "-")
            told = list(events_until(process, choose.randint(1, MOST_EVENTS)))
            if process.poll() is None:
                process.kill()
            told += rest(process)
            kills += process.returncode == -9
            in_transition += bool(begun(told))
            follow(states, told)
            for cob in begun(told):
                states.pop(cob, None)
        done = demo.workshop.run("apply", "--yes", "--events", "-")
        assert done.code == 0, done.err
        told = [json.loads(line) for line in done.out.splitlines()]
        follow(states, told)
        assert check_promises(told, demo.workshop.graph()) == []
        assert demo.is_up()
        assert {it["state"] for it in demo.workshop.states().values()} == {"up"}
    assert in_transition > 0, "no kill met a transition; choose other moments"


def follow(states: dict[str, str], told: list[Event]) -> None:
    """Every finished transition goes on from where the one before ended: none lost, none doubled.

    What is unknown after a kill was in transition and is known again after its check; a changed
    content makes an object unknown as well.
    """
    for event in told:
        if event["type"] == "cob.state" and event["reason"] in ("check", "content"):
            states[event["cob"]] = event["state"]
        elif event["type"] == "cob.state" and event["reason"] == "journal":
            assert states.get(event["cob"], event["state"]) == event["state"]
            states[event["cob"]] = event["state"]
        elif event["type"] == "transition.end" and event["result"] == "ok":
            assert states.get(event["cob"]) == event["from"], event
            states[event["cob"]] = event["to"]
