"""What the events of a run say is found again: states, times, causes, failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cobweb.api import NO_END
from cobweb.errors import CobwebError
from cobweb_plugins.report._columns import LATEST_MS, NONE, End, Heard
from cobweb_plugins.report._recorder import MOST_OUTPUTS
from cobweb_plugins.report.forms import RunFacts, path_reason, record_lines

Tale = Any


def test_states_and_times_are_those_of_the_events(good: Tale) -> None:
    story = good.story()
    states = {cob: story.state_of(number) for number, cob in enumerate(story.cobs)}
    assert states == {"db/db": "up", "web/app": "up", "web/cfg": "up"}
    assert (story.run, story.generation, story.result, story.exit_code) == ("r1", 3, "ok", 0)
    assert story.last_ms == 6000
    steps = story.steps
    rows = {story.cobs[steps.cob[row]]: row for row in range(len(steps))}
    app = rows["web/app"]
    assert (steps.asked[app], steps.ready[app], steps.start[app]) == (0, 3000, 4000)
    assert story.cobs[steps.lock[app]] == "db/db"
    assert steps.after[app] == rows["db/db"]
    assert [steps.after[rows[cob]] for cob in ("db/db", "web/cfg")] == [NONE, NONE]


def test_the_critical_path_follows_the_locks(good: Tale) -> None:
    path = good.report().path
    told = [(it.step.cob, it.reason, it.gap_ms, it.step.took_ms) for it in path]
    assert told == [("db/db", "check", 0, 3000), ("web/app", "lock", 1000, 2000)]


def test_a_grant_brings_the_cause_of_those_that_it_stands_on(tale: Tale) -> None:
    """C gets its lock from B, which did nothing itself but waited for A."""
    for cob in ("h/a", "h/b", "h/c"):
        tale.state(cob, "up" if cob == "h/b" else "down")
    tale.start("h/a")
    tale.at(5)
    tale.end("h/a")
    tale.lock("grant", "h/a", "h/b")
    tale.lock("grant", "h/b", "h/c")
    tale.start("h/c")
    tale.at(6)
    tale.end("h/c")
    tale.over()
    assert [it.step.cob for it in tale.report().path] == ["h/a", "h/c"]


def test_a_recalled_lock_brings_the_cause_back(tale: Tale) -> None:
    """B may go down only after its holder A did."""
    for cob in ("h/a", "h/b"):
        tale.state(cob, "up")
    tale.lock("grant", "h/b", "h/a")
    tale.lock("recall", "h/b", "h/a")
    tale.start("h/a", "up", "down")
    tale.at(2)
    tale.end("h/a", source="up", dest="down")
    tale.lock("release", "h/b", "h/a")
    tale.start("h/b", "up", "down")
    tale.at(3)
    tale.end("h/b", source="up", dest="down")
    tale.over()
    report = tale.report()
    assert [it.step.cob for it in report.path] == ["h/a", "h/b"]
    assert report.story.recalls == 1


def test_a_later_check_is_the_cause(tale: Tale) -> None:
    tale.start("h/a")
    tale.at(1)
    tale.end("h/a")
    tale.lock("grant", "h/a", "h/b")
    tale.at(4)
    tale.state("h/b", "down")
    tale.start("h/b")
    tale.at(5)
    tale.end("h/b")
    tale.over()
    (step,) = tale.report().path
    assert (step.step.cob, step.reason) == ("h/b", "check")


def test_two_steps_of_one_object_follow_each_other(tale: Tale) -> None:
    tale.state("h/a", "outdated")
    for source, dest in (("outdated", "down"), ("down", "up")):
        tale.start("h/a", source, dest)
        tale.at(tale.now + 1)
        tale.end("h/a", source=source, dest=dest)
    tale.over()
    assert [it.reason for it in tale.report().path] == ["check", "own"]


def test_failures_and_who_waits_for_them_are_found(bad: Tale) -> None:
    report = bad.report()
    (failure,) = report.story.failures
    assert (failure.cob, failure.kind, failure.source, failure.dest) == (
        "db/db",
        "transition",
        "down",
        "up",
    )
    assert [task.status for task in failure.tasks] == ["ok", "failed"]
    ends = {it.cob: (len(it.chain), it.chain[-1]["kind"]) for it in report.waiting}
    assert ends == {
        "db/db": (1, "failed"),
        "old/disk": (1, "unreachable"),
        "web/app": (2, "failed"),
        "web/cfg": (2, "unreachable"),
    }


def test_what_the_journal_says_of_waits_is_taken(bad: Tale) -> None:
    chain = [{"cob": "web/app", "kind": "halted", "on": None, "state": "", "detail": ""}]
    waits = [{"cob": "web/app", "state": "down", "message": "", "chain": chain}]
    report = bad.report(RunFacts(waits=waits))
    assert [(it.cob, it.chain) for it in report.waiting] == [("web/app", chain)]


def test_a_failed_check_is_a_failure(tale: Tale) -> None:
    tale.state("h/a", "unknown", message="no rights")
    tale.state("h/b", "unknown", "content")
    tale.over("failed", 1)
    (failure,) = tale.story().failures
    assert (failure.cob, failure.kind, failure.message) == ("h/a", "check", "no rights")


def test_a_check_after_a_failed_transition_does_not_hide_it(tale: Tale) -> None:
    tale.start("h/a")
    tale.end("h/a", message="first")
    tale.state("h/a", "unknown", message="second")
    (failure,) = tale.story().failures
    assert failure.message == "first"


def test_a_transition_whose_host_was_lost_is_no_failure_of_its_own(tale: Tale) -> None:
    tale.state("h/a", "down")
    tale.start("h/a")
    tale.end("h/a", message="no route", unreachable=True)
    tale.over("failed", 1, unreachable={"h": "no route"})
    report = tale.report()
    assert report.story.failures == ()
    assert report.story.steps.result[0] == End.FAILED
    assert [it.chain[-1]["kind"] for it in report.waiting] == ["unreachable"]


def test_a_transition_that_was_stopped_before_it_began_is_no_failure(tale: Tale) -> None:
    tale.state("h/a", "down")
    tale.start("h/a")
    tale.end("h/a", state="down")
    tale.over("interrupted", 130)
    report = tale.report()
    assert report.story.failures == ()
    assert [it.result for it in report.slow] == ["dropped"]


def test_a_record_without_an_end_says_so(tale: Tale) -> None:
    tale.state("h/a", "down")
    tale.lock("request", "h/b", "h/a")
    tale.start("h/b")
    report = tale.report()
    assert report.result == NO_END
    assert report.story.steps.result[0] == End.OPEN
    assert report.story.waits.heard[0] == Heard.PENDING
    assert any("stop before the end" in note for note in report.notes)
    assert report.waiting[0].chain[-1]["kind"] == "untold"


def test_what_is_not_told_is_counted(tale: Tale) -> None:
    tale.over("stuck", 4, counts={"cobs": 7, "waiting": 5})
    notes = " ".join(tale.report().notes)
    assert "7 objects of the run have no event" in notes
    assert "5 more objects were not settled" in notes


def test_output_is_kept_of_so_many_failures_only(tale: Tale) -> None:
    task = [{"name": "t", "status": "failed", "message": "m"}]
    for number in range(MOST_OUTPUTS + 2):
        tale.start(f"h/{number}")
        tale.end(f"h/{number}", message="x" * 1000, tasks=task)
    report = tale.report()
    assert sum(bool(failure.tasks) for failure in report.story.failures) == MOST_OUTPUTS
    assert min(len(failure.message) for failure in report.story.failures) < 1000
    assert any("of 2 failures only the beginning" in note for note in report.notes)


def test_a_clock_that_goes_back_or_far_is_held_in_bounds(tale: Tale) -> None:
    tale.at(-5)
    tale.state("h/a", "down")
    tale.at(1e9)
    tale.start("h/a")
    assert tale.story().steps.start[0] == LATEST_MS


def test_events_of_unknown_types_and_keys_are_passed_over(good: Tale) -> None:
    good.events.insert(4, {"seq": 99, "time": 1000.0, "type": "later.version", "what": 1})
    good.events[2]["more"] = True
    assert good.story().events == len(good.events)


# --- files


def _lines(events: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(event) + "\n" for event in events]


def test_a_file_is_read_like_the_journal(good: Tale) -> None:
    story, notes = record_lines(_lines(good.events), "f")
    assert notes == ()
    assert story.last_ms == good.story().last_ms


def test_of_two_runs_in_a_file_the_last_counts(good: Tale, bad: Tale) -> None:
    story, notes = record_lines(_lines(good.events) + _lines(bad.events), "f")
    assert story.result == "failed"
    assert notes == ("f holds 2 runs; this is the last of them",)


def test_a_cut_off_last_line_is_left_out_and_told(good: Tale) -> None:
    lines = _lines(good.events)
    story, notes = record_lines([*lines[:-1], lines[-1][:20]], "f")
    assert story.result is None
    assert "is cut off" in notes[0]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no events of a run"),
        (["nonsense\n"], "f:1: this is no event"),
        (["[1]\n"], "f:1: this is no event"),
        (["{}\n"], "it has no 'type'"),
        (['{"type":"version","events":9}\n'], "format 9"),
        (['{"type":"version","events":1}\n', "x\n"], "f:2: this is no event"),
        (['{"type":"version","events":1}\n', '{"type":"cob.state","time":0}\n'], "f:2"),
        (['{"type":"version","events":1}\n', '{"type":"x","time":"y"}\n'], "f:2"),
        (['{"type":"version","events":1}\n', '{"type":"x","time":1e999}\n'], "f:2"),
        (['{"type":"version","events":1}\n', '{"type":[],"time":1}\n'], "f:2"),
        (
            [
                '{"type":"version","events":1}\n',
                '{"type":"transition.end","time":1,"cob":"a/b","from":"x","to":"y"}\n',
            ],
            "did not begin",
        ),
    ],
)
def test_what_is_no_event_is_one_message_with_its_line(lines: list[str], said: str) -> None:
    with pytest.raises(CobwebError, match=said):
        record_lines(lines, "f")


VERSION = '{"type":"version","events":1}'
MALFORMED = {
    "unreachable is a number": '{"type":"run.end","unreachable":5}',
    "a host's message is a number": '{"type":"run.end","unreachable":{"h":7}}',
    "counts are a list": '{"type":"run.end","counts":[]}',
    "a count is text": '{"type":"run.end","counts":{"cobs":"x"}}',
    "counts are null": '{"type":"run.end","counts":null}',
    "the result is a list": '{"type":"run.end","result":[]}',
    "the result is a number": '{"type":"run.end","result":5}',
    "the exit code is text": '{"type":"run.end","exit_code":"x"}',
    "the run is a list": '{"type":"run.start","run":[]}',
    "the generation is text": '{"type":"run.start","generation":"x"}',
    "the generation is endless": '{"type":"run.start","generation":1e999}',
    "an object is a number": '{"type":"cob.state","cob":5,"state":"up","reason":"check"}',
    "an object is a list": '{"type":"cob.state","cob":[],"state":"up","reason":"check"}',
    "a state is a number": '{"type":"cob.state","cob":"a/b","state":5,"reason":"check"}',
    "a state is null": '{"type":"lock.request","cob":"a/b","holder":"a/c","state":null}',
    "a holder is a number": '{"type":"lock.request","cob":"a/b","holder":5,"state":"up"}',
    "a source is a mapping": '{"type":"transition.start","cob":"a/b","from":{},"to":"up"}',
    "tasks are a number": (
        '{"type":"cob.state","cob":"a/b","state":"unknown","reason":"check","tasks":5}'
    ),
    "lists without an end": "[" * 100_000,
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=[it.replace(" ", "-") for it in MALFORMED])
def test_values_of_a_wrong_type_are_one_message_with_their_line(line: str) -> None:
    with pytest.raises(CobwebError, match=r"^f:2: this is no event of Cobweb: "):
        record_lines([f"{VERSION}\n", f"{line}\n"], "f")


def test_nothing_is_kept_per_event(tale: Tale) -> None:
    """Objects, transitions and asked locks have rows; being told of again makes none."""
    tale.lock("request", "h/a", "h/b")
    for _ in range(500):
        tale.state("h/a", "down", "journal")
        tale.lock("grant", "h/a", "h/b")
        tale.lock("recall", "h/a", "h/b")
        tale.lock("release", "h/a", "h/b")
    story = tale.story()
    assert (len(story.cobs), len(story.state)) == (2, 2)
    assert (len(story.steps), len(story.waits), len(story.failures)) == (0, 1, 0)
    assert story.events == 2003


def test_switches_are_told_in_their_order(moved: Tale) -> None:
    told = [(it.at_ms, it.hosts, it.generation) for it in moved.story().switches]
    assert told == [(0, ("db", "idle"), 3), (2000, ("web",), 3)]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"hosts": "web", "generation": 3}, "hosts must be a list"),
        ({"hosts": [1], "generation": 3}, "a host must be text"),
        ({"hosts": ["web"], "generation": "3"}, "generation must be a whole number"),
        ({"generation": 3}, "it has no 'hosts'"),
    ],
)
def test_an_odd_switch_is_no_event(tale: Tale, odd: dict[str, Any], message: str) -> None:
    tale.add("generation.switch", **odd)
    with pytest.raises(CobwebError, match=message):
        tale.story()


def test_the_critical_path_goes_on_through_the_switch_to_the_last_removal(tale: Tale) -> None:
    for cob, source, dest, end in (
        ("web/app", "up", "down", 2),
        ("db/old", "up", "down", 5),
        ("new/cache", "down", "up", 6),
        ("web/app", "down", "up", 8),
    ):
        if cob == "new/cache":
            tale.switch("db", "web")
            tale.state("new/cache", "down")
        if end == 8:
            tale.lock("grant", "new/cache", "web/app")
        tale.start(cob, source, dest)
        tale.at(end)
        tale.end(cob, source=source, dest=dest)
    tale.over()
    path = tale.report().path
    assert [(it.step.cob, it.reason) for it in path] == [
        ("db/old", "check"),
        ("new/cache", "switch"),
        ("web/app", "lock"),
    ]
    assert path_reason(path[1], path[0]) == "after the switch that db/old held up"


def test_an_object_that_only_waited_for_the_switch_goes_on_from_itself(tale: Tale) -> None:
    tale.start("web/app", "up", "down")
    tale.at(2)
    tale.end("web/app", source="up", dest="down")
    tale.switch("web")
    tale.start("web/app")
    tale.at(3)
    tale.end("web/app")
    tale.over()
    assert [it.reason for it in tale.report().path] == ["check", "own"]


def _one_by_one(tale: Tale, *units: str) -> None:
    """Let each host be restarted when it has the only slot, which the one before gave back."""
    for unit in units:
        tale.state(f"{unit}/app", "outdated")
    for unit in units:
        tale.add("slot.take", limit="rolling", unit=unit)
        tale.state(f"{unit}/app", "outdated")  # fresh knowledge
        tale.start(f"{unit}/app", "outdated", "up")
        tale.at(tale.now + 2)
        tale.end(f"{unit}/app", source="outdated", dest="up")
        tale.add("slot.return", limit="rolling", unit=unit)
    tale.over()


def test_who_gave_up_goes_on_waiting_for_what_it_asked_for(tale: Tale) -> None:
    """What it was given before, and what it asks for later, it does not wait for."""
    tale.state("web/app", "down")
    for cob in ("db/db", "web/cfg", "web/log"):
        tale.state(cob, "up")
        tale.lock("request", cob, "web/app")
    tale.lock("grant", "web/cfg", "web/app")
    tale.add("cob.gave_up", cob="web/app")
    tale.lock("request", "web/old", "web/app")
    for cob in ("db/db", "web/cfg", "web/log", "web/old"):
        tale.lock("release", cob, "web/app")
    tale.over("failed", 1, unreachable={"db": "no route"})
    (_, wait) = tale.report().waiting
    assert [(link["cob"], link["kind"], link["on"]) for link in wait.chain] == [
        ("web/app", "lock", "db/db"),
        ("db/db", "unreachable", None),
    ]
    waits = tale.story().waits
    assert [Heard(heard).name for heard in waits.heard] == [
        "PENDING",
        "GRANTED",
        "PENDING",
        "TAKEN_BACK",
    ]


def test_the_critical_path_goes_on_through_room_in_a_limit(tale: Tale) -> None:
    _one_by_one(tale, "web1", "web2", "web3")
    path = tale.report().path
    assert [(it.step.cob, it.reason) for it in path] == [
        ("web1/app", "check"),
        ("web2/app", "room"),
        ("web3/app", "room"),
    ]
    assert path_reason(path[2], path[1]) == "after room in `rolling`, taken by web2"


def test_waiting_for_room_is_what_a_unit_waits_for_before_its_slot(tale: Tale) -> None:
    _one_by_one(tale, "web1", "web2")
    steps = tale.story().steps
    assert (steps.asked[1], steps.ready[1], steps.start[1]) == (NONE, 0, 2000)


def test_room_that_nobody_had_taken_makes_nobody_wait(tale: Tale) -> None:
    """Of two places one stays free, and who takes it waits for nobody."""
    for unit in ("web1", "web2"):
        tale.add("slot.take", limit="rolling", unit=unit)
        tale.start(f"{unit}/app")
        tale.at(tale.now + 1)
        tale.end(f"{unit}/app")
    tale.over()
    assert [it.reason for it in tale.report().path] == ["check"]


@pytest.mark.parametrize("odd", [{"limit": 1, "unit": "web1"}, {"limit": "l", "unit": None}])
def test_an_odd_slot_is_no_event(tale: Tale, odd: dict[str, Any]) -> None:
    tale.add("slot.take", **odd)
    with pytest.raises(CobwebError, match="must be text"):
        tale.story()
