"""`cobweb validate` finds everything that can be known before anything runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb import operations
from cobweb.engine import Blocked, WaitKind
from cobweb.model import CobId

Run = Callable[..., Any]
MakeSite = Callable[[str], Path]
CheckSchema = Callable[[str, Any], None]
CIRCLE = """\
cobweb: 1
name: circle
inventory: {all: {hosts: {h: {}}}}
types:
  simple:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: simple/check.yml}
    transitions:
      down -> up: {tasks: simple/start.yml}
      up -> down: {tasks: simple/stop.yml}
cobs:
  a: {type: simple, on: h, after: [b]}
  b: {type: simple, on: h, after: [c]}
  c: {type: simple, on: h, after: [a]}
"""


def test_a_valid_site_is_summed_up_in_a_line(run: Run, site: Path) -> None:
    ran = run("-C", site, "validate")
    assert ran.code == 0
    assert ran.out == ""
    assert ran.err.startswith("figure1 is valid: 2 hosts, 3 COBs, ")
    assert ran.err.count("\n") == 1


def test_a_valid_site_has_no_findings_as_json(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    ran = run("-C", site, "validate", "-o", "json")
    data = json.loads(ran.out)
    check_schema("findings", data)
    assert (ran.code, data) == (0, {"format": 1, "findings": [], "warnings": [], "waits": []})


def test_findings_of_made_files_are_data_as_well(
    run: Run, make_site: MakeSite, check_schema: CheckSchema
) -> None:
    ran = run("-C", make_site(f"{CIRCLE}generate: 1\n"), "validate", "-o", "json")
    data = json.loads(ran.out)
    check_schema("findings", data)
    assert (ran.code, [it["line"] for it in data["findings"]]) == (3, [CIRCLE.count("\n") + 1])


def test_each_finding_has_its_place(run: Run, make_site: MakeSite) -> None:
    text = CIRCLE.replace("after: [c]", "aftr: [c]").replace("on: h, after: [a]", "on: hh")
    ran = run("-C", make_site(text), "validate")
    lines = ran.err.splitlines()
    assert ran.code == 3
    assert ran.out == ""
    assert lines[-1] == f"{len(lines) - 1} findings"
    assert any("site.yml:15:28: " in line and "after" in line for line in lines), lines
    assert any("site.yml:16:25: " in line and "hh" in line for line in lines), lines


def test_findings_are_data_as_well(
    run: Run, make_site: MakeSite, check_schema: CheckSchema
) -> None:
    ran = run("validate", "-o", "json", "-C", make_site(CIRCLE.replace("after: [c]", "aftr: [c]")))
    data = json.loads(ran.out)
    check_schema("findings", data)
    assert ran.code == 3
    assert ran.err == ""
    finding = data["findings"][0]
    assert (Path(finding["file"]).name, finding["line"], finding["column"]) == ("site.yml", 15, 28)


def test_a_circular_wait_is_printed_as_a_cycle_with_a_line_per_step(
    run: Run, make_site: MakeSite
) -> None:
    ran = run("-C", make_site(CIRCLE), "validate")
    assert ran.code == 3
    steps = [line.strip() for line in ran.err.splitlines() if line.startswith("    ")]
    assert len(steps) >= 3
    assert {step.partition(":")[0] for step in steps} >= {"h/a", "h/b", "h/c"}


def test_a_missing_task_file_is_found(run: Run, site: Path) -> None:
    (site / "simple" / "stop.yml").unlink()
    ran = run("-C", site, "validate")
    assert ran.code == 3
    assert "stop.yml" in ran.err
    assert "site.yml:" in ran.err


@pytest.mark.parametrize("arguments", [["validate"], ["show"], ["graph"], ["plan"], ["status"]])
def test_no_site_is_exit_3_with_a_hint(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*arguments)
    assert ran.code == 3
    assert "cobweb init" in ran.err


def test_a_site_that_does_not_exist_is_exit_3(run: Run, tmp_path: Path) -> None:
    ran = run("-C", tmp_path / "none", "validate")
    assert ran.code == 3
    assert "none" in ran.err


def test_the_nearest_site_upwards_is_the_default(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = site / "deep" / "er"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert run("validate").code == 0


def test_the_environment_names_a_site_and_the_option_wins(
    run: Run, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COBWEB_SITE", str(site))
    assert run("validate").code == 0
    assert run("-C", tmp_path, "validate").code == 3
    assert run("validate", "-C", tmp_path).code == 3


def test_the_file_itself_can_be_named(run: Run, site: Path) -> None:
    assert run("-C", site / "site.yml", "validate").code == 0


def test_nothing_is_written(run: Run, site: Path) -> None:
    before = sorted(site.rglob("*"))
    run("-C", site, "validate")
    run("-C", site, "graph", "-o", "json")
    run("-C", site, "lock", "show")
    assert sorted(site.rglob("*")) == before


def test_the_log_tells_what_is_read(run: Run, site: Path) -> None:
    text = run("-C", site, "-v", "validate").err
    assert "info cobweb.api" in text
    assert str(site) in text
    lines = run("-C", site, "validate", "-v", "--log-format", "json").err.splitlines()
    assert {"time", "level", "logger", "message"} == set(json.loads(lines[0]))


def test_a_read_only_site_is_validated(run: Run, site: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(site, copy)
    copy.chmod(0o555)
    assert run("-C", copy, "validate").code == 0
    copy.chmod(0o755)


def test_a_call_leaves_no_log_behind(run: Run, site: Path) -> None:
    assert run("-C", site, "validate", "-vv").err.count("\n") > 1
    assert run("-C", site, "validate").err.count("\n") == 1


def test_the_same_circle_on_many_hosts_is_told_once(run: Run, site: Path) -> None:
    text = (site / "site.yml").read_text(encoding="utf-8")
    many = text.replace("{alpha: {port: 8080}}", '{"alpha[1:9]": {port: 8080}}')
    circle = many.replace("  a:\n    type: simple\n    on: back\n", MUTUAL)
    (site / "site.yml").write_text(circle, encoding="utf-8")
    ran = run("-C", site, "validate")
    assert ran.code == 3
    assert ran.err.count("in a circle") == 1
    assert "and 8 more like this on other hosts" in ran.err


MUTUAL = """\
  a:
    type: simple
    on: back
    requires: [z]
  z:
    type: simple
    on: back
    requires: [a]
"""


def test_warnings_change_no_exit_code(
    run: Run, make_site: MakeSite, check_schema: CheckSchema
) -> None:
    """Each has its place and a hint; a site with mistakes is not warned."""
    text = CIRCLE.replace("after: [c]", "after: []") + "limits: {none: {on: h, cob: z*, max: 1}}\n"
    folder = make_site(text)
    ran = run("-C", folder, "validate")
    assert ran.code == 0
    first, last = ran.err.splitlines()
    assert first.startswith("warning: site.yml:")
    assert first.endswith("limit `none` matches nothing (no COB has such a name)")
    assert last.endswith(", 1 warning")
    ran = run("-C", folder, "validate", "-o", "json")
    data = json.loads(ran.out)
    check_schema("findings", data)
    assert ran.code == 0
    (warning,) = data["warnings"]
    assert (warning["file"], warning["message"]) == ("site.yml", "limit `none` matches nothing")


def test_a_site_that_no_run_brings_about_is_told_as_stuck(
    run: Run,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    check_schema: Callable[[str, Any], None],
) -> None:
    """The analysis finds what needs alone forbid; this is what only a run would show."""
    link = Blocked(cob=CobId("beta/b"), kind=WaitKind.LIMIT, state="up", detail="rolling")
    wait = operations.Wait(cob=CobId("beta/b"), state="down", chain=(link,))
    monkeypatch.setattr(operations, "stuck_from_nothing", lambda _desired: (wait,))
    ran = run("-C", site, "validate")
    assert ran.code == 4
    assert "beta/b would wait for what no order gives" in ran.err
    assert "beta/b waits for more room than a limit has (rolling)" in ran.err
    ran = run("-C", site, "validate", "-o", "json")
    data = json.loads(ran.out)
    check_schema("findings", data)
    assert (ran.code, [it["cob"] for it in data["waits"]]) == (4, ["beta/b"])
