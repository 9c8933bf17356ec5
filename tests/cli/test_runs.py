"""`cobweb runs` and `cobweb report` tell what was, also of a site that is broken by now."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.store import EventWritten, RunInfo, RunRecord

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]


@pytest.fixture
def ran(run: Run, site: Path) -> Path:
    """Make a site with two runs, of which the second failed."""
    assert run("-C", site, "apply", "--yes", "--executor", "simulate", "--limit", "alpha").code == 0
    (site / "options.json").write_text("{}", encoding="utf-8")
    assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0
    return site


def test_runs_are_listed_the_newest_first(run: Run, ran: Path, check_schema: CheckSchema) -> None:
    told = run("-C", ran, "runs", "-o", "json")
    data = json.loads(told.out)
    check_schema("runs", data)
    assert [entry["result"] for entry in data["runs"]] == ["ok", "ok"]
    assert data["runs"][0]["started"] >= data["runs"][1]["started"]
    text = run("-C", ran, "runs")
    assert text.out.splitlines()[1].startswith(data["runs"][0]["id"])
    assert max(len(line) for line in text.out.splitlines()) <= 80
    assert text.err == "2 runs\n"
    assert len(json.loads(run("-C", ran, "runs", "--last", "1", "-o", "json").out)["runs"]) == 1


def test_a_site_without_runs_says_so(run: Run, site: Path) -> None:
    told = run("-C", site, "runs")
    assert (told.code, told.out) == (0, "")
    assert told.err.startswith("no run yet")
    assert run("-C", site, "report").code == 64


def test_the_last_run_is_reported(run: Run, ran: Path, check_schema: CheckSchema) -> None:
    newest = json.loads(run("-C", ran, "runs", "-o", "json").out)["runs"][0]["id"]
    told = run("-C", ran, "report")
    assert told.code == 0
    assert told.out.startswith(f"run {newest}: ok (exit code 0)\n")
    assert "Critical path" in told.out
    data = json.loads(run("-C", ran, "report", newest, "-o", "json").out)
    check_schema("report", data)
    assert data["run"]["command"] == "apply --executor simulate"


def test_an_unknown_run_is_wrong_usage(run: Run, ran: Path) -> None:
    newest = json.loads(run("-C", ran, "runs", "-o", "json").out)["runs"][0]["id"]
    told = run("-C", ran, "report", newest[:-1])
    assert told.code == 64
    assert f"did you mean {newest}?" in told.err


def test_a_broken_site_can_be_asked_for_its_history(run: Run, ran: Path) -> None:
    text = (ran / "site.yml").read_text(encoding="utf-8")
    (ran / "site.yml").write_text(text.replace("type: simple", "type: gone"), encoding="utf-8")
    assert run("-C", ran, "validate").code == 3
    assert run("-C", ran, "runs").code == 0
    assert run("-C", ran, "report").code == 0


def test_a_state_that_is_no_url_is_a_finding(run: Run, ran: Path) -> None:
    text = (ran / "site.yml").read_text(encoding="utf-8")
    (ran / "site.yml").write_text(text + "state: nowhere\n", encoding="utf-8")
    told = run("-C", ran, "runs")
    assert told.code == 3
    assert "no URL of a database" in told.err


def test_a_file_of_events_needs_no_site(
    run: Run, site: Path, tmp_path: Path, check_schema: CheckSchema
) -> None:
    events = tmp_path / "events.jsonl"
    assert run("-C", site, "simulate", "--fail", "alpha/a", "--events", events).code == 1
    told = run("-C", tmp_path / "nowhere", "report", "--events", events)
    assert told.code == 0
    assert "alpha/a  down -> up (at " in told.out
    assert "beta/b is down <- alpha/a" in told.out
    data = json.loads(run("report", "--events", events, "-o", "json").out)
    check_schema("report", data)
    assert [failure["cob"] for failure in data["failures"]] == ["alpha/a"]


def test_the_order_in_which_hosts_switched_is_told(run: Run, tmp_path: Path) -> None:
    many = [f"h{number:02}" for number in range(40)]
    switches = (["db01"], many)
    lines = [{"type": "version", "events": 1}, {"type": "run.start", "run": "r", "generation": 2}]
    lines += [
        {"type": "generation.switch", "time": 5.0 + n, "hosts": hosts, "generation": 2}
        for n, hosts in enumerate(switches)
    ]
    (tmp_path / "x").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = run("report", "--events", tmp_path / "x")
    assert told.code == 0
    assert "Hosts switched to generation 2\n" in told.out
    assert "\n1.00 s      40  h00, h01, h02, h03, h04, h05, h06, h07 and 32 more\n" in told.out
    assert max(map(len, told.out.splitlines())) <= 80


def test_a_report_goes_into_a_file(run: Run, ran: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    told = run("-C", ran, "report", "-o", "json", "--out", out)
    assert (told.code, told.out, told.err) == (0, "", f"wrote {out}\n")
    assert json.loads(out.read_text(encoding="utf-8"))["format"] == 1
    assert run("-C", ran, "report", "--out", tmp_path / "no" / "folder").code == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["r1", "--events", "x"], 64),
        (["--events", "missing.jsonl"], 1),
        (["--events", "/dev/null"], 1),
    ],
)
def test_bad_input_is_one_message(run: Run, arguments: list[str], code: int) -> None:
    told = run("report", *arguments)
    assert told.code == code
    assert "Traceback" not in told.err


def test_bytes_that_are_no_text_are_one_message(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    told = run("report", "--events", tmp_path / "x")
    assert told.code == 1
    assert "x:1: this is no event" in told.err


@pytest.mark.parametrize("form", ["text", "json", "html", "junit", "github", "gitlab"])
def test_events_of_a_wrong_type_are_one_message_in_every_format(
    run: Run, tmp_path: Path, form: str
) -> None:
    lines = ('{"type":"version","events":1}', '{"type":"run.end","result":[]}')
    (tmp_path / "x").write_text("\n".join(lines) + "\n", encoding="utf-8")
    told = run("report", "--events", tmp_path / "x", "-o", form)
    assert (told.code, told.out) == (1, "")
    assert "x:2: this is no event of Cobweb: result must be text, not '[]'" in told.err
    assert "defect" not in told.err


def test_why_answers_for_past_runs(
    run: Run, ran: Path, site_text: str, check_schema: CheckSchema
) -> None:
    runs = json.loads(run("-C", ran, "runs", "-o", "json").out)["runs"]
    newest, oldest = runs[0]["id"], runs[1]["id"]
    (ran / "site.yml").write_text(site_text.replace("type: simple", "type: gone"), encoding="utf-8")
    told = run("-C", ran, "why", "beta/b", "--run", newest)
    assert (told.code, told.out) == (0, f"beta/b was up when run {newest} ended\n")
    data = json.loads(run("-C", ran, "why", "beta/b", "--run", newest, "-o", "json").out)
    check_schema("why", data)
    assert (data["preferred"], data["source"]) == ("up", "settled")
    assert run("-C", ran, "why", "beta/none", "--run", oldest).code == 64
    assert run("-C", ran, "why", "beta/b", "--run", "nothing").code == 64


@pytest.fixture
def stored(site: Path) -> Path:
    """Make a site with a run that failed and one that was killed."""
    wait = {"cob": "beta/b", "state": "down", "message": ""}
    link = {"cob": "beta/b", "kind": "lock", "on": "alpha/a", "state": "up", "detail": ""}
    last = {"cob": "alpha/a", "kind": "failed", "on": None, "state": "", "detail": ""}
    info = RunInfo(id="r1", command="apply", started=1e9, user="ann", host="h", pid=1)
    events = [
        ("version", {"events": 1, "cobweb": "0.1.0"}),
        ("run.start", {"run": "r1", "generation": 0, "hosts": 2, "cobs": 2}),
        ("transition.start", {"cob": "alpha/a", "from": "down", "to": "up", "locks": []}),
        (
            "transition.end",
            {
                "cob": "alpha/a",
                "from": "down",
                "to": "up",
                "state": "unknown",
                "result": "failed",
                "attempt": 1,
                "seconds": 1.0,
                "message": "no luck",
            },
        ),
    ]
    with Site(site) as session:
        store = session.store(create=True)
        for name in ("r1", "r2"):
            store.begin_run(replace(info, id=name))
            store.write(
                [
                    EventWritten(seq=seq, time=1e9, type=kind, data=json.dumps(data))
                    for seq, (kind, data) in enumerate(events, start=1)
                ]
            )
        waits = ({**wait, "chain": [link, last]},)
        store.end_run(RunRecord(info=info, result="failed", exit_code=1, waits=waits, ended=1e9))
    return site


def test_why_tells_the_chain_of_a_past_run(
    run: Run, stored: Path, check_schema: CheckSchema
) -> None:
    told = run("-C", stored, "why", "beta/b", "--run", "r1")
    assert told.out.splitlines()[1:] == [
        "  beta/b waits for alpha/a to be up",
        "  alpha/a failed in this run",
    ]
    assert told.err == "as run r1 ended\n"
    check_schema(
        "why", json.loads(run("-C", stored, "why", "beta/b", "--run", "r1", "-o", "json").out)
    )
    assert "has no end" in run("-C", stored, "why", "beta/b", "--run", "r2").err


def test_a_run_without_an_end_was_killed_or_could_not_write_it(run: Run, stored: Path) -> None:
    why = "it was killed, or its state database was away"
    assert run("-C", stored, "report").out.startswith(f"run r1: no end ({why})\n")
    told = run("-C", stored, "runs")
    newest, failed = (" ".join(line.split()) for line in told.out.splitlines()[1:])
    assert newest.endswith(" ann apply - no end")
    assert failed.endswith(" ann apply - failed (exit 1)")
    assert re.search(r" \d\d-\d\d \d\d:\d\d:\d\d 0.0 s ", failed)
    assert told.err == f"no end: {why}\n2 runs\n"
    told = run("-C", stored, "runs", "--last", "1")
    assert told.err == f"no end: {why}\nthe last run; --last N shows more\n"


def test_secrets_are_in_no_report(
    run: Run, make_site: Callable[[str], Path], site_text: str, tmp_path: Path
) -> None:
    cipher = "$ANSIBLE_VAULT;1.1;AES256\n            6162636465"
    vaulted = f"    spec:\n      text: !vault |\n            {cipher}\n"
    site = make_site(site_text.replace('    spec: {text: "port={{ port }}"}\n', vaulted))
    events = tmp_path / "events.jsonl"
    ran = run("-C", site, "apply", "--yes", "--executor", "simulate", "--events", events)
    assert ran.code == 0, ran.err
    for form in ("text", "json", "html", "junit", "github", "gitlab"):
        out = tmp_path / form
        assert run("-C", site, "report", "-o", form, "--out", out).code == 0
        assert "6162636465" not in out.read_text(encoding="utf-8")
    assert "6162636465" not in events.read_text(encoding="utf-8")
