"""`plan`, `apply` and `simulate` in process: exit codes, events, plans, and what is told."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from cobweb.api import Site
from cobweb.cli import _locking
from cobweb.cli._output import Output
from cobweb.cli._running import tell_result
from cobweb.engine import Blocked, WaitKind
from cobweb.kernel._result import Wait
from cobweb.model import CobId
from cobweb.operations import Ending, RunResult
from cobweb.store import HostLost, RunInfo, StateWritten, TransitionBegan, this_process

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
APPLY = ("apply", "--yes", "--executor", "simulate")
A, B, CFG = CobId("alpha/a"), CobId("beta/b"), CobId("alpha/cfg")


def written(site: Path, *entries: Any) -> None:
    """Write entries into the journal of a site."""
    with Site(site) as session:
        session.store(create=True).write(entries)


def edit(site: Path, old: str, new: str) -> None:
    """Change the site."""
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_apply_then_nothing_is_pending(run: Run, site: Path) -> None:
    assert run("-C", site, "plan", "--detailed-exitcode").code == 2
    first = run("-C", site, *APPLY)
    assert first.code == 0
    assert "beta/b  down -> up  (1.0 s)" in first.err
    assert "done (3 transitions, 3 checks, 3.0 s)" in first.err
    again = run("-C", site, *APPLY)
    assert "nothing to do, all is as it should be (0 transitions, 0 checks" in again.err
    plan = run("-C", site, "plan", "--detailed-exitcode")
    assert plan.code == 0
    assert plan.err == "nothing to change\n"
    assert run("-C", site, "why", "beta/b").out.startswith("beta/b is up, as wanted")


def test_a_lost_state_is_pending(run: Run, site: Path, check_schema: CheckSchema) -> None:
    """The journal does not know where it stopped, so nobody can say that nothing is to do."""
    assert run("-C", site, *APPLY).code == 0
    written(site, TransitionBegan(cob=A, source="up", dest="down", time=1.0))
    ran = run("-C", site, "plan", "--detailed-exitcode")
    assert ran.code == 2
    assert ran.out.startswith("? alpha/a (in doubt: stopped in up -> down)\n? 1 object to be ")
    assert "? 1 object to be checked first, 1 in a state that was lost" in ran.out
    assert ran.err == "nothing to change as far as is known without the checks\n"
    data = json.loads(run("-C", site, "plan", "-o", "json").out)
    check_schema("plan", data)
    assert data["uncertain"] == ["alpha/a"]
    assert run("-C", site, "plan", "--refresh", "all", "--detailed-exitcode").code == 2
    assert run("-C", site, *APPLY).code == 0
    assert run("-C", site, "plan", "--refresh", "all", "--detailed-exitcode").code == 0


def test_a_plan_says_why_it_touches_what_the_site_has_not_changed(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    """Also what differs: a run has found the file outdated and was stopped before it wrote it."""
    assert run("-C", site, *APPLY).code == 0
    edit(site, "port: 8080", "port: 9090")
    assert run("-C", site, *APPLY).code == 0
    old = {"text": "port=8080"}
    written(
        site,
        StateWritten(cob=CFG, state="outdated", reason="check", time=1.0, applied=old),
        StateWritten(cob=A, state="down", reason="drift", time=1.0),
        HostLost(host="beta", time=1.0),
    )
    told = run("-C", site, "plan", "--renew", "alpha/cfg").out
    assert told.partition("? 1 object to be checked first")[0].splitlines() == [
        "! alpha/a (drifted: was up, is down)",
        "! alpha/cfg (is outdated)",
        '    -text: "port=8080"',
        '    +text: "port=9090"',
        "? beta/b (its host could not be reached the last time)",
    ]
    data = json.loads(run("-C", site, "plan", "-o", "json").out)
    check_schema("plan", data)
    assert [(it["cob"], it["kind"]) for it in data["unsettled"]] == [
        (A, "drift"),
        (CFG, "state"),
        (B, "unreachable"),
    ]
    assert data["unsettled"][1]["diff"] == ['-text: "port=8080"', '+text: "port=9090"']
    assert run("-C", site, *APPLY).code == 0
    assert "! alpha/cfg (to be renewed)" in run("-C", site, "plan", "--renew", CFG).out


def test_a_changed_content_is_checked_and_carried_out(run: Run, site: Path) -> None:
    assert run("-C", site, *APPLY).code == 0
    edit(site, "port: 8080", "port: 9090")
    plan = run("-C", site, "plan", "--detailed-exitcode")
    assert plan.code == 2
    assert '-text: "port=8080"' in plan.out
    why = run("-C", site, "why", "alpha/cfg").out
    assert why.startswith("alpha/cfg is up with an earlier content and is to be changed\n")
    assert "waits for the next apply, which checks it" in why
    told = run("-C", site, *APPLY, "--events", "-").out.splitlines()
    events = [json.loads(line) for line in told]
    content = [event for event in events if event.get("reason") == "content"]
    assert [(event["cob"], event["state"]) for event in content] == [("alpha/cfg", "unknown")]
    assert run("-C", site, "plan", "--detailed-exitcode").code == 0


def test_a_saved_plan_brings_its_limit_and_refresh(run: Run, site: Path, tmp_path: Path) -> None:
    file = tmp_path / "my.plan"
    saved = run("-C", site, "plan", "--out", file, "--limit", "alpha", "--refresh", "all")
    assert f"saved; carry it out with: cobweb apply {file}" in saved.err
    assert run("-C", site, "apply", file, "--limit", "beta").code == 64
    done = run("-C", site, "apply", file, "--executor", "simulate", "-o", "json")
    assert done.code == 0
    assert json.loads(done.out)["counts"]["checks"] == 3
    stale = run("-C", site, "apply", file, "--executor", "simulate")
    assert stale.code == 1
    assert "the states have changed since the plan was made" in stale.err


def test_a_saved_plan_of_a_part_is_based_on_what_it_reaches(
    run: Run, site: Path, tmp_path: Path
) -> None:
    """`cfg` and `a` on alpha need nothing of `extra` on gamma; `b` on beta stops with `a`."""
    file = tmp_path / "my.plan"
    edit(site, "      back:", "      other: {hosts: {gamma: {}}}\n      back:")
    edit(site, "cobs:\n", "cobs:\n  extra: {type: simple, on: other}\n")
    assert run("-C", site, *APPLY).code == 0
    assert run("-C", site, "plan", "--out", file, "--limit", "alpha").code == 0
    extra = CobId("gamma/extra")
    written(site, StateWritten(cob=extra, state="down", reason="check", time=2.0))
    assert run("-C", site, "apply", file, "--executor", "simulate").code == 0
    written(site, StateWritten(cob=B, state="down", reason="check", time=2.0))
    stale = run("-C", site, "apply", file, "--executor", "simulate")
    assert "the states have changed since the plan was made" in stale.err


@pytest.mark.parametrize(("text", "code"), [(None, 64), ("{}", 1)], ids=["missing", "no-plan"])
def test_what_is_no_plan_is_refused(
    run: Run, site: Path, tmp_path: Path, text: str | None, code: int
) -> None:
    file = tmp_path / "x.plan"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    ran = run("-C", site, "apply", file)
    assert ran.code == code
    assert str(file) in ran.err
    assert not (site / ".cobweb").exists()


def test_a_plan_that_cannot_be_saved_is_one_message(run: Run, site: Path) -> None:
    ran = run("-C", site, "plan", "--out", "/dev/full")
    assert ran.code == 1
    assert "cannot write the plan to /dev/full: No space left on device" in ran.err


def test_a_new_host_that_was_lost_is_found_again(run: Run, site: Path) -> None:
    """Nothing was ever written of its objects, and yet the host was; one check finds both."""
    written(site, HostLost(host="alpha", time=1.0))
    assert run("-C", site, *APPLY).code == 0
    again = run("-C", site, *APPLY)
    assert "nothing to do, all is as it should be (0 transitions, 0 checks" in again.err


def test_an_apply_with_a_limit_leaves_other_hosts(run: Run, site: Path) -> None:
    ran = run("-C", site, *APPLY, "--limit", "beta")
    assert ran.code == 1
    assert "beta/b waits for alpha/a to be up" in ran.err
    assert "alpha/a is outside of what this run may move (--limit)" in ran.err
    assert run("-C", site, *APPLY, "--limit", "alpha").code == 0
    assert run("-C", site, *APPLY, "--limit", "beta").code == 0


def test_results_and_events_have_their_schemas(
    run: Run, site: Path, tmp_path: Path, check_schema: CheckSchema
) -> None:
    file = tmp_path / "events.jsonl"
    ran = run(
        "-C", site, "simulate", "--fail", "alpha/a", "-o", "json", "--events", file, "--seed", "1"
    )
    assert ran.code == 1
    result = json.loads(ran.out)
    check_schema("result", result)
    assert [wait["cob"] for wait in result["unsettled"]] == ["alpha/a", "beta/b"]
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for event in events:
        check_schema("events", event)
    assert events[-1]["exit_code"] == 1


def test_events_and_result_do_not_share_standard_output(run: Run, site: Path) -> None:
    ran = run("-C", site, "simulate", "--events", "-", "-o", "json")
    assert ran.code == 64
    assert ran.out == ""


@pytest.mark.parametrize("arguments", [["simulate"], [*APPLY]], ids=["simulate", "apply"])
def test_a_full_disk_for_events_does_not_stop_the_run(
    run: Run, site: Path, arguments: list[str]
) -> None:
    ran = run("-C", site, *arguments, "--events", "/dev/full")
    assert ran.code == 0
    assert "note: events are no longer written: No space left on device" in ran.err
    assert "Traceback" not in ran.err


def test_an_events_file_that_cannot_be_opened_changes_nothing(run: Run, site: Path) -> None:
    ran = run("-C", site, *APPLY, "--events", site / "none" / "e.jsonl")
    assert ran.code == 1
    assert "cannot write events to" in ran.err
    assert run("-C", site, "status", "-o", "json").out.count('"state": "unknown"') == 3
    assert "not locked" in run("-C", site, "lock", "show").out


def test_causes_are_told_first_and_who_waits_is_counted(
    run: Run, make_site: Callable[[str], Path], site_text: str
) -> None:
    text = site_text.replace("{beta: {}}", "{'beta[01:30]': {}}").replace("on: front", "on: all")
    site = make_site(text.replace("requires: [a@back]", "requires: [a@alpha]"))
    ran = run("-C", site, "simulate", "--fail", "alpha/a")
    lines = ran.err.splitlines()
    assert ran.code == 1
    assert lines[0] == "alpha/a is down"
    assert lines[1].startswith("  alpha/a failed in this run: ")
    assert "... and 28 more wait for alpha/a" in lines
    assert len(lines) < 20
    unreachable = [f"--unreachable=beta{number:02}" for number in range(1, 31)]
    assert "... and 10 more (-o json has all)" in run("-C", site, "simulate", *unreachable).err


def test_too_many_failures_stop_a_simulation(run: Run, site: Path) -> None:
    ran = run("-C", site, "simulate", "--fail", "alpha/cfg", "--max-failures", "10%")
    assert ran.code == 1
    assert "1 failed, more than may: nothing new is started" in ran.err


SIMULATIONS: list[tuple[list[str], str]] = [
    (["--initial", "sideways"], "neither a state of this site nor a file"),
    (["--fail", "alpha/aa"], "did you mean alpha/a?"),
    (["--unreachable", "gamma"], "there is no host 'gamma'"),
    (["--durations", "none.json"], "a JSON object is wanted"),
]


@pytest.mark.parametrize(("arguments", "words"), SIMULATIONS)
def test_wrong_options_of_simulate_are_wrong_usage(
    run: Run, site: Path, arguments: list[str], words: str
) -> None:
    ran = run("-C", site, "simulate", *arguments)
    assert ran.code == 64
    assert words in ran.err


FILES: list[tuple[str, int, str]] = [
    ('{"alpha/a": "up", "alpha/cfg": "up", "beta/b": "up"}', 0, "nothing to do"),
    ('{"alpha/none": "up"}', 64, "there is no object 'alpha/none'"),
    ('{"alpha/a": "sideways"}', 64, "alpha/a has no state 'sideways'"),
    ("[]", 64, "this is no JSON object"),
    ("{", 64, "a JSON object is wanted"),
]


@pytest.mark.parametrize(("text", "code", "words"), FILES)
def test_first_states_from_a_file(run: Run, site: Path, text: str, code: int, words: str) -> None:
    file = site / "initial.json"
    file.write_text(text, encoding="utf-8")
    ran = run("-C", site, "simulate", "--initial", file)
    assert ran.code == code
    assert words in ran.err


def test_one_first_state_and_durations(run: Run, site: Path, tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    file.write_text('{"simple": 7, "beta/b": 2}', encoding="utf-8")
    assert "nothing to do" in run("-C", site, "simulate", "--initial", "up").err
    ran = run("-C", site, "simulate", "--durations", file, "-v")
    assert "beta/b  down -> up  (2.0 s)" in ran.err
    assert "(3 transitions, 3 checks, 16.0 s)" in ran.err


def test_an_executor_that_does_not_exist_leaves_no_trace(run: Run, site: Path) -> None:
    ran = run("-C", site, "apply", "--yes", "--executor", "simulat")
    assert ran.code == 64
    assert "did you mean simulate?" in ran.err
    data = json.loads(run("-C", site, "status", "-o", "json").out)
    assert data["run"] is None
    assert data["lock"] is None
    assert "there are: " in run("-C", site, "apply", "--yes", "--executor", "xyz").err


def test_no_room_for_temporary_files_is_one_message(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_options: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    ran = run("-C", site, *APPLY)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "cannot make a folder for temporary files: No space left on device" in ran.err


def test_a_run_that_a_plugin_broke_has_an_end(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cobweb.errors import ExecutorError
    from cobweb_plugins.simulate import SimulateExecutor

    def broken(*_arguments: Any) -> None:
        raise ExecutorError("the executor is out of order")

    monkeypatch.setattr(SimulateExecutor, "wait", broken)
    ran = run("-C", site, *APPLY)
    assert ran.code == 1
    assert "the executor is out of order" in ran.err
    assert "note: stopped in the middle: alpha/a: check" in ran.err
    data = json.loads(run("-C", site, "status", "-o", "json").out)
    assert (data["run"]["result"], data["run"]["exit_code"]) == ("failed", 1)
    assert data["lock"] is None


def test_a_lock_that_is_broken_in_mid_run_ends_it(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cobweb_plugins.simulate import SimulateExecutor

    submit = SimulateExecutor.submit
    broken: list[str] = []

    def submit_and_break(self: Any, job: Any) -> None:
        submit(self, job)
        if job.dest and not broken:
            with Site(site) as session:
                lock = session.store(create=True).site_lock(clock=lambda: 1e9)
                owner = lock.show()
                assert owner is not None
                broken.append(lock.break_lock(owner.run).run)

    monkeypatch.setattr(SimulateExecutor, "submit", submit_and_break)
    ran = run("-C", site, *APPLY)
    assert ran.code == 5
    assert "someone broke the lock of this run" in ran.err
    states = json.loads(run("-C", site, "status", "-o", "json").out)["cobs"]
    assert [cob["id"] for cob in states if cob["in_transition"]] == ["alpha/cfg"]
    assert run("-C", site, *APPLY).code == 0


def test_a_site_that_is_locked_is_left_alone(run: Run, site: Path) -> None:
    with Site(site) as session:
        lock = session.store(create=True).site_lock(clock=lambda: 1e9)
        with lock.acquire(this_process(run="r2", reason="apply", since=1e9)):
            ran = run("-C", site, *APPLY)
    assert ran.code == 5
    assert "run r2" in ran.err


COMMANDS: list[tuple[str, ...]] = [
    APPLY,
    ("rollback", "1", "--yes", "--executor", "simulate"),
    ("drift", "--executor", "simulate"),
    ("forget", "--host", "gone", "--yes"),
    ("gc",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("ends", [True, False], ids=["ends", "stays"])
def test_a_site_that_is_locked_can_be_waited_for(
    run: Run,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    *,
    ends: bool,
) -> None:
    assert run("-C", site, *APPLY).code == 0
    if command[0] == "forget":
        written(site, StateWritten(cob=CobId("gone/x"), state="up", reason="check", time=1.0))
    now = [0.0]
    with Site(site) as session:
        lock = session.store(create=True).site_lock(clock=lambda: 1e9)
        held = lock.acquire(this_process(run="r2", reason="apply", since=1e9))

        def pause(seconds: float) -> None:
            now[0] += seconds
            if ends:
                held.release()

        patient = partial(_locking.patience_of, clock=lambda: now[0], sleep=pause)
        monkeypatch.setattr(_locking, "patience_of", patient)
        ran = run("-C", site, *command, "--wait", "1m30s")
        held.release()
    assert ran.code == (0 if ends else 5), ran.err
    assert ran.err.count("waiting for the site, which is locked by") == 1
    assert ends or (now[0] == 90.0 and "the site is locked by" in ran.err.splitlines()[-1])


def test_why_after_a_killed_run_says_what_the_next_one_does(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    written(
        site,
        StateWritten(cob=A, state="down", reason="check", time=1.0),
        TransitionBegan(cob=A, source="down", dest="up", time=1.0),
        StateWritten(cob=B, state="down", reason="check", time=1.0),
    )
    ran = run("-C", site, "why", "beta/b")
    assert ran.out.splitlines() == [
        "beta/b is down and should be up",
        "  beta/b waits for alpha/a to be up",
        "  alpha/a waits for the next apply, which checks it (stopped in down -> up)",
    ]
    assert "alpha/cfg waits for the next apply" in run("-C", site, "why", "alpha/cfg").out
    told = run("-C", site, "why", "alpha/a").out
    assert told.startswith("alpha/a is not known (stopped in down -> up) and should be up\n")
    check_schema("why", json.loads(run("-C", site, "why", "beta/b", "-o", "json").out))


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the program think that a person sits at a terminal and types."""

    def type_in(text: str) -> None:
        typed = io.StringIO(text)
        monkeypatch.setattr(typed, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", typed)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        monkeypatch.setenv("TERM", "xterm")

    return type_in


ASK = ("apply", "--executor", "simulate")


@pytest.mark.parametrize(("typed", "words"), [("n\n", "nothing was changed"), ("y\n", "done (3")])
def test_a_plan_is_shown_beside_the_data_before_the_question(
    run: Run, site: Path, at_terminal: Callable[[str], None], typed: str, words: str
) -> None:
    at_terminal(typed)
    ran = run("-C", site, *ASK, "-o", "json")
    assert ran.code == 0
    assert "? 3 objects to be checked first" in ran.err
    assert "Apply this plan? [y/N]" in ran.err
    assert words in ran.err
    assert ran.out == "" or json.loads(ran.out)["result"] == "ok"
    assert "not locked" in run("-C", site, "lock", "show").out


def test_no_answer_is_an_interrupt(
    run: Run, site: Path, at_terminal: Callable[[str], None]
) -> None:
    at_terminal("")
    assert run("-C", site, *ASK).code == 130
    assert "not locked" in run("-C", site, "lock", "show").out


def test_nothing_is_asked_where_nothing_is_to_do(
    run: Run, site: Path, at_terminal: Callable[[str], None]
) -> None:
    assert run("-C", site, *APPLY).code == 0
    at_terminal("")
    ran = run("-C", site, *ASK)
    assert ran.code == 0
    assert "[y/N]" not in ran.err


def test_the_lock_of_a_dead_owner_is_taken_over_and_told(run: Run, site: Path) -> None:
    dead = replace(this_process(run="r0", reason="apply", since=1e9), process_start="1")
    with Site(site) as session:
        session.store(create=True).site_lock(clock=lambda: 1e9).acquire(dead)
    ran = run("-C", site, *APPLY)
    assert ran.code == 0
    assert "note: took over the lock of" in ran.err


TURN = "waits for its turn in the run that goes on"
WORK: list[tuple[list[Any], list[str]]] = [
    (
        [TransitionBegan(cob=A, source="down", dest="up", time=1.0)],
        ["beta/b waits for alpha/a to be up", "alpha/a is at work (down -> up)"],
    ),
    (
        [StateWritten(cob=A, state="down", reason="check", time=1.0, failed=True)],
        ["beta/b waits for alpha/a to be up", "alpha/a failed in this run"],
    ),
    (
        [HostLost(host="alpha", time=1.0)],
        ["beta/b waits for alpha/a to be up", "alpha/a: host alpha cannot be reached"],
    ),
    (
        [],
        ["beta/b waits for alpha/a to be up", "alpha/a is about to begin"],
    ),
    (
        [StateWritten(cob=A, state="up", reason="check", time=1.0, content="other")],
        ["beta/b waits for alpha/a to be up", f"alpha/a {TURN}"],
    ),
]


@pytest.mark.parametrize(("entries", "lines"), WORK)
def test_why_during_a_run_tells_what_goes_on(
    run: Run, site: Path, entries: list[Any], lines: list[str]
) -> None:
    info = RunInfo(id="r2", command="apply", started=1e9, user="ann", host="h", pid=1)
    with Site(site) as session:
        store = session.store(create=True)
        with store.site_lock(clock=lambda: 1e9).acquire(
            this_process(run="r2", reason="apply", since=1e9)
        ):
            store.begin_run(info)
            store.write(
                [
                    StateWritten(cob=A, state="down", reason="check", time=1.0),
                    StateWritten(cob=B, state="down", reason="check", time=1.0),
                    StateWritten(cob=CFG, state="up", reason="check", time=1.0),
                    *entries,
                ]
            )
            told = run("-C", site, "why", "beta/b").out.splitlines()
            status = run("-C", site, "status").err
    assert [line.strip() for line in told[1:]] == lines
    assert "last run: r2 (apply) by ann: goes on" in status


def test_simulated_states_are_not_taken_for_real_ones(run: Run, site: Path) -> None:
    assert run("-C", site, *APPLY).code == 0
    real = run("-C", site, "apply", "--yes")
    assert real.code == 64
    assert "holds the states of a simulation" in real.err
    assert run("-C", site, *APPLY).code == 0


def test_a_lost_host_is_found_only_by_a_run_of_all_its_objects(run: Run, site: Path) -> None:
    assert run("-C", site, *APPLY).code == 0
    written(site, HostLost(host="alpha", time=1.0))

    def lost() -> bool:
        cobs = json.loads(run("-C", site, "status", "-o", "json").out)["cobs"]
        return not all(cob["reachable"] for cob in cobs)

    assert run("-C", site, *APPLY, "--limit", "beta").code == 0
    assert lost()
    assert run("-C", site, *APPLY).code == 0
    assert not lost()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": -1}', "a takes -1"),
        ('{"a": "x"}', "a takes 'x'"),
        ('{"a": [3, 2]}', "a takes [3, 2]"),
        ('{"a": true}', "a takes True"),
        ('{"a": 1e308}', "a takes 1e+308 (seconds from 0 to 366 days"),
        ('{"a": [0, 31622401]}', "a takes [0, 31622401]"),
        ('{"aa": 1}', "there is no object, name or type 'aa' (did you mean a?)"),
        ("[]", "this is no JSON object"),
    ],
)
def test_durations_that_say_nothing_are_refused(
    run: Run, site: Path, text: str, message: str
) -> None:
    file = site / "durations.json"
    file.write_text(text, encoding="utf-8")
    ran = run("-C", site, "simulate", "--durations", file)
    assert ran.code == 64
    assert message in ran.err


NAMES = ("hosts", "cobs", "settled", "checks", "transitions", "failed", "waiting")


@pytest.mark.parametrize("on", [CobId("alpha/a"), None])
def test_a_canary_that_is_home_is_not_to_be_mended(
    capsys: pytest.CaptureFixture[str], on: CobId | None
) -> None:
    """In its pause nobody is in the way; the others wait for its end."""
    link = Blocked(cob=B, kind=WaitKind.LIMIT, on=on, detail="rolling, canary")
    result = RunResult(
        run="r",
        ending=Ending.INTERRUPTED,
        counts=dict.fromkeys(NAMES, 2),
        waits=(Wait(cob=B, state="up", chain=(link,)),),
    )
    with click.Context(click.Command("apply")):
        tell_result(Output(), result)
    told = capsys.readouterr().err
    assert ("who goes first is not home" in told) == (on is not None)
    assert ("waits for the pause of a limit" in told) == (on is None)
