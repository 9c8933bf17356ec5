"""`cobweb drift` on the command line, and `--refresh none`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.cli._output import Output
from cobweb.cli._text import cells
from cobweb.cli.drift import _sum_up, _tell
from cobweb.model import CobId
from cobweb.operations import DriftResult, Ending
from cobweb.operations.drift._drift_check import Unchecked
from cobweb.store import HostLost, StateWritten, TransitionBegan

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
APPLY = ("apply", "--yes", "--executor", "simulate")
LOOK = ("drift", "--executor", "simulate")
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


def drifted(cob: CobId, state: str = "down") -> StateWritten:
    """Return the entry of an object that a look has found elsewhere; simulated checks find it."""
    return StateWritten(cob=cob, state=state, reason="drift", time=1e9)


@pytest.fixture
def applied(run: Run, site: Path) -> Path:
    """Make a site whose objects are up."""
    assert run("-C", site, *APPLY).code == 0
    return site


def test_no_drift_is_a_line_and_exit_code_0(
    run: Run, applied: Path, check_schema: CheckSchema
) -> None:
    ran = run("-C", applied, *LOOK)
    assert (ran.code, ran.out, ran.err) == (0, "", "no drift (3 checks, 0.0 s)\n")
    ran = run("-C", applied, *LOOK, "-o", "json")
    check_schema("drift", json.loads(ran.out))
    assert json.loads(ran.out)["result"] == "ok"


def test_all_that_a_look_finds_is_told(run: Run, applied: Path, check_schema: CheckSchema) -> None:
    """One of each: drift, a pending change of each kind, doubt, and what is ignored."""
    edit(applied, "port: 8080", "port: 9090")
    edit(
        applied, "cobs:\n", "cobs:\n  d: {type: simple, on: front}\n  e: {type: simple, on: all}\n"
    )
    edit(applied, "cobs:\n", "drift: {ignore: [e]}\ncobs:\n")
    begun = TransitionBegan(cob=A, source="up", dest="down", time=1e9)
    gone = CobId("beta/gone")
    left = StateWritten(cob=gone, state="up", reason="check", time=1e9, content="old")
    written(applied, drifted(B), begun, left)
    ran = run("-C", applied, *LOOK)
    assert ran.code == 2
    table = ran.out.splitlines()
    assert table[0].split() == ["OBJECT", "WAS", "IS", "SINCE"]
    assert table[1].split()[:3] == ["beta/b", "up", "down"]
    assert "alpha/a  stopped in up -> down  up" in ran.out
    assert "not checked: beta/gone: no generation says any more what was applied" in ran.out
    assert ran.out.endswith(
        "\npending changes, which the next apply makes:\n~ alpha/cfg\n+ beta/d\n- beta/gone\n"
    )
    words = "3 pending, 1 in doubt, 1 not checked, 2 ignored"
    assert ran.err.endswith(f"1 of 3 objects drifted (3 checks, 0.0 s); {words}\n")
    assert all(cells(line) <= 80 for line in table)
    ran = run("-C", applied, *LOOK, "-o", "json")
    data = json.loads(ran.out)
    check_schema("drift", data)
    (found,) = data["drifted"]
    assert (found["cob"], found["was"], found["is"], found["since"]) == (
        "beta/b",
        "up",
        "down",
        1e9,
    )
    assert [(it["cob"], it["kind"]) for it in data["pending"]] == [
        ("alpha/cfg", "changed"),
        ("beta/d", "added"),
        ("beta/gone", "removed"),
    ]


def test_where_nothing_was_ever_applied_a_note_says_so(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    """As where the state database was lost: that there is no drift means nothing then."""
    note = "note: nothing was ever applied by this state database, so nothing could be compared\n"
    ran = run("-C", site, *LOOK)
    assert (ran.code, note in ran.err) == (0, True)
    ran = run("-C", site, *LOOK, "-o", "json")
    assert note in ran.err
    check_schema("drift", json.loads(ran.out))
    assert run("-C", site, *APPLY).code == 0
    assert note not in run("-C", site, *LOOK).err


def test_the_events_of_a_look_follow_their_schema(
    run: Run, applied: Path, check_schema: CheckSchema
) -> None:
    written(applied, drifted(B))
    told = run("-C", applied, *LOOK, "--events", "-").out.partition("OBJECT")[0].splitlines()
    events = [json.loads(line) for line in told]
    for event in events:
        check_schema("events", event)
    assert [event["type"] for event in events[:2]] == ["version", "run.start"]
    (found,) = [event for event in events if event.get("reason") == "drift"]
    assert (found["cob"], found["was"], found["state"]) == ("beta/b", "up", "down")
    assert (events[-1]["result"], events[-1]["exit_code"]) == ("drift", 2)


def test_status_notes_what_has_drifted_and_plan_repairs_it(
    run: Run, applied: Path, check_schema: CheckSchema
) -> None:
    written(applied, drifted(B))
    assert "drifted" in run("-C", applied, "status", "beta/b").out
    data = json.loads(run("-C", applied, "status", "-o", "json").out)
    check_schema("status", data)
    assert [cob["id"] for cob in data["cobs"] if cob["drifted"]] == ["beta/b"]
    assert "beta/b  down -> up" in run("-C", applied, "plan").out
    assert run("-C", applied, *APPLY).code == 0
    assert "drifted" not in run("-C", applied, "status").out
    assert run("-C", applied, *LOOK).code == 0


def test_many_pending_changes_are_counted(run: Run, applied: Path) -> None:
    hosts = ", ".join(f"n{number}: " for number in range(30))
    edit(applied, "      front:", f"      many: {{hosts: {{{hosts}}}}}\n      front:")
    edit(applied, "cobs:\n", "cobs:\n  d: {type: simple, on: many}\n")
    ran = run("-C", applied, *LOOK)
    assert ran.out.splitlines()[-1] == "... and 10 more (-o json has all)"


def test_a_locked_site_is_not_looked_at(run: Run, applied: Path) -> None:
    assert run("-C", applied, "lock", "hold", "--for", "10m").code == 0
    ran = run("-C", applied, *LOOK)
    assert ran.code == 5
    assert "hold" in ran.err
    assert len(json.loads(run("-C", applied, "runs", "-o", "json").out)["runs"]) == 1


def test_an_invalid_site_is_not_looked_at(run: Run, applied: Path) -> None:
    edit(applied, "stops: [a]", "stops: [nobody]")
    assert run("-C", applied, *LOOK).code == 3


def test_wrong_use_is_told(run: Run, applied: Path) -> None:
    assert run("-C", applied, *LOOK, "--limit", "nowhere").code == 64
    assert run("-C", applied, "drift", "--executor", "none").code == 64
    assert run("-C", applied, "drift", "--executor", "ansible").code == 64


def test_a_pipeline_is_told_of_drift(
    run: Run, applied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(applied, drifted(B))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    told = run("-C", applied, *LOOK).err
    assert "::error title=cobweb%3A beta/b%3A drifted::was up, is down" in told
    assert "::error" not in run("-C", applied, *LOOK, "--no-annotations").err


def test_a_run_that_looked_is_reported(run: Run, applied: Path, check_schema: CheckSchema) -> None:
    written(applied, drifted(B))
    assert run("-C", applied, *LOOK).code == 2
    report = run("-C", applied, "report")
    assert report.code == 0
    assert "drift (exit code 2)" in report.out
    assert "beta/b  drift" in report.out
    data = json.loads(run("-C", applied, "report", "-o", "json").out)
    check_schema("report", data)
    assert [(it["cob"], it["kind"]) for it in data["failures"]] == [("beta/b", "drift")]
    assert "drifted: was up, is down" in run("-C", applied, "report", "-o", "junit").out
    data = json.loads(run("-C", applied, "runs", "-o", "json").out)
    check_schema("runs", data)
    assert data["runs"][0]["result"] == "drift"


def test_refresh_none_checks_as_little_as_can_be(run: Run, applied: Path) -> None:
    edit(applied, "port: 8080", "port: 9090")
    assert "to be checked" not in run("-C", applied, "plan", "--refresh", "none").out
    ran = run("-C", applied, *APPLY, "--refresh", "none", "-o", "json")
    assert (ran.code, json.loads(ran.out)["counts"]["checks"]) == (0, 0)
    assert json.loads(ran.out)["counts"]["transitions"] == 5
    assert run("-C", applied, "plan", "--detailed-exitcode").code == 0


@pytest.mark.parametrize(
    "entry",
    [
        TransitionBegan(cob=CFG, source="up", dest="down", time=1e9),
        StateWritten(cob=CFG, state="unknown", reason="check", time=1e9),
        HostLost(host="alpha", time=1e9),
    ],
    ids=["in-transition", "unknown", "unreachable"],
)
def test_refresh_none_checks_what_nobody_can_know(run: Run, applied: Path, entry: Any) -> None:
    written(applied, entry)
    ran = run("-C", applied, *APPLY, "--refresh", "none", "-o", "json")
    assert ran.code == 0
    checked = 2 if isinstance(entry, HostLost) else 1
    assert json.loads(ran.out)["counts"]["checks"] == checked


def test_refresh_none_never_passes_over_a_change(run: Run, applied: Path) -> None:
    """A type without the state `outdated` would be taken to be as it is wanted."""
    edit(applied, "states: [outdated, down, up]", "states: [down, up]")
    edit(applied, "      outdated -> up: {tasks: simple/start.yml}\n", "")
    edit(applied, "      outdated -> down: {tasks: simple/stop.yml}\n", "")
    edit(applied, "port: 8080", "port: 9090")
    ran = run("-C", applied, *APPLY, "--refresh", "none", "-o", "json")
    assert json.loads(ran.out)["counts"]["checks"] == 1


def test_a_saved_plan_brings_that_nothing_is_checked(
    run: Run, applied: Path, tmp_path: Path, check_schema: CheckSchema
) -> None:
    edit(applied, "port: 8080", "port: 9090")
    file = tmp_path / "my.plan"
    assert run("-C", applied, "plan", "--refresh", "none", "--out", file).code == 0
    check_schema("plan", json.loads(file.read_text(encoding="utf-8")))
    done = run("-C", applied, "apply", file, "--executor", "simulate", "-o", "json")
    assert json.loads(done.out)["counts"]["checks"] == 0


def test_what_was_not_checked_is_told_by_host_and_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ("hosts", "cobs", "checks", "drifted", "pending", "doubtful", "unchecked", "ignored")
    result = DriftResult(
        run="r",
        ending=Ending.INTERRUPTED,
        counts={**dict.fromkeys(names, 0), "cobs": 4, "unchecked": 3, "drifted": 1},
        unchecked=(
            Unchecked(cob=A, message="word " * 30),
            Unchecked(cob=B, message="no route"),
            Unchecked(cob=CobId("beta/c"), message="no route"),
        ),
        unreachable={"beta": "no route"},
        in_flight=("alpha/cfg: check",),
        notices=("events are no longer written: no room",),
    )
    _tell(Output(), result)
    _sum_up(Output(), result)
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert lines[0].startswith("not checked: alpha/a: word word")
    assert lines[-1] == "host beta cannot be reached, 2 objects not checked: no route"
    assert all(cells(line) <= 80 for line in lines)
    assert told.err.splitlines() == [
        "stopped in the middle: alpha/cfg: check",
        "note: events are no longer written: no room",
        "interrupted: 1 of 4 objects drifted as far as is known (0 checks, 0.0 s); 3 not checked",
    ]


REAL = """\
cobweb: 1
name: real
inventory: {{all: {{hosts: {{local: {{
  ansible_connection: local, ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"}}}}}}}}
cobs:
  one:
    type: file
    on: all
    spec: {{path: {base}/one.txt, content: "one\\n", state_dir: {base}/state}}
  two:
    type: file
    on: all
    spec: {{path: {base}/two.txt, content: "two\\n", state_dir: {base}/state}}
"""


@pytest.mark.full(
    "by Ansible itself, several runs; the simulator and tests/plugins/types have it in the gate"
)
@pytest.mark.timeout(180)
def test_a_file_that_was_changed_by_hand_is_found_and_repaired(run: Run, tmp_path: Path) -> None:
    base, site = tmp_path / "base", tmp_path / "site"
    base.mkdir()
    site.mkdir()
    one, two = base / "one.txt", base / "two.txt"
    (site / "site.yml").write_text(REAL.format(base=base), encoding="utf-8")
    assert run("-C", site, "apply", "--yes").code == 0
    assert run("-C", site, "drift").code == 0
    one.write_text("by hand\n", encoding="utf-8")
    edit(site, "two\\n", "TWO\\n")
    ran = run("-C", site, "drift", "-o", "json")
    data = json.loads(ran.out)
    assert ran.code == 2, ran.err
    assert [(it["cob"], it["was"], it["is"]) for it in data["drifted"]] == [
        ("local/one", "up", "outdated")
    ]
    assert data["pending"] == [{"cob": "local/two", "kind": "changed"}]
    assert (one.read_text(encoding="utf-8"), two.read_text(encoding="utf-8")) == (
        "by hand\n",
        "two\n",
    )
    ran = run("-C", site, "apply", "--yes")
    assert ran.code == 0, ran.err
    assert (one.read_text(encoding="utf-8"), two.read_text(encoding="utf-8")) == ("one\n", "TWO\n")
    ran = run("-C", site, "drift")
    assert (ran.code, ran.out) == (0, "")


OWN = """
types:
  mark:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: mark/check.yml}
    transitions: {down -> up: {tasks: mark/up.yml}, up -> down: {tasks: mark/down.yml}}
"""
MARK = "  three: {{type: mark, on: all, spec: {{path: {base}/three}}}}\n"
TASKS = {
    "check": '- stat: {path: "{{ cob.spec.path }}"}\n  register: found\n'
    "- set_fact: {cob_state: \"{{ found.stat.exists | ternary('up', 'down') }}\"}\n",
    "up": '- copy: {dest: "{{ cob.spec.path }}", content: x}\n',
    "down": '- file: {path: "{{ cob.spec.path }}", state: absent}\n',
}


@pytest.mark.full("by Ansible itself, several runs; what is kept of a generation is in the gate")
@pytest.mark.timeout(180)
def test_what_is_gone_from_the_site_is_checked_by_the_tasks_that_it_had(
    run: Run, tmp_path: Path, check_schema: CheckSchema
) -> None:
    base, site = tmp_path / "base", tmp_path / "site"
    base.mkdir()
    (site / "mark").mkdir(parents=True)
    for name, text in TASKS.items():
        (site / "mark" / f"{name}.yml").write_text(text, encoding="utf-8")
    first = REAL.format(base=base)
    (site / "site.yml").write_text(first + MARK.format(base=base) + OWN, encoding="utf-8")
    ran = run("-C", site, "apply", "--yes")
    assert ran.code == 0, ran.err
    (site / "site.yml").write_text(first, encoding="utf-8")
    shutil.rmtree(site / "mark")
    ran = run("-C", site, "drift")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "- local/three")
    (base / "three").unlink()
    data = json.loads(run("-C", site, "drift", "-o", "json").out)
    check_schema("drift", data)
    assert [(it["cob"], it["was"], it["is"]) for it in data["drifted"]] == [
        ("local/three", "up", "down")
    ]


@pytest.mark.gate("a host that is not there, by Ansible itself")
@pytest.mark.timeout(180)
def test_a_host_that_is_not_there_is_told_once(run: Run, tmp_path: Path) -> None:
    """Nobody listens on port 1 of this machine."""
    (tmp_path / "site.yml").write_text(
        "cobweb: 1\n"
        "inventory: {all: {hosts: {gone: {ansible_host: 127.0.0.1, ansible_port: 1}}}}\n"
        "cobs:\n"
        "  a: {type: script, on: all, spec: {check: 'true', do: 'true'}}\n"
        "  b: {type: script, on: all, spec: {check: 'true', do: 'true'}}\n",
        encoding="utf-8",
    )
    names = (CobId("gone/a"), CobId("gone/b"))
    written(tmp_path, *(StateWritten(cob=it, state="up", reason="check", time=1.0) for it in names))
    ran = run("-C", tmp_path, "drift", "--parallel", "1")
    assert ran.code == 1
    assert ran.out.startswith("host gone cannot be reached, 2 objects not checked: ")
    assert ran.err.startswith("no drift (0 checks, ")
    assert "unreachable" in run("-C", tmp_path, "status").out
