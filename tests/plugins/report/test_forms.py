"""JUnit, GitHub and GitLab get what went wrong, and nothing that was said breaks their formats."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

from cobweb_plugins.report._annotations import MOST_ANNOTATIONS
from cobweb_plugins.report.forms import github_commands, gitlab_quality, junit_xml

Tale = Any


def _suites(tale: Tale) -> dict[str, ET.Element]:
    root = ET.fromstring("".join(junit_xml(tale.report())))  # noqa: S314  # our own text
    return {suite.attrib["name"]: suite for suite in root}


def test_junit_has_a_suite_per_host_and_a_case_per_object(good: Tale) -> None:
    suites = _suites(good)
    assert {name: len(suite) for name, suite in suites.items()} == {"db": 1, "web": 2}
    (app, cfg) = suites["web"]
    assert (app.attrib["name"], app.attrib["time"]) == ("app", "2.000")
    assert (cfg.attrib["name"], len(cfg)) == ("cfg", 0)


def test_junit_tells_failures_with_output_and_waits_with_their_cause(bad: Tale) -> None:
    suites = _suites(bad)
    failure = suites["db"][0][0]
    assert failure.tag == "failure"
    assert "<script>alert(1)</script> & ]]>" in (failure.text or "")
    skipped = suites["web"][0][0]
    assert skipped.tag == "skipped"
    assert skipped.attrib["message"].startswith("db/db failed in this run: ")
    assert suites["old"][0][0].tag == "error"
    told = {name: suites["db"].attrib[name] for name in ("tests", "failures", "errors", "skipped")}
    assert told == {"tests": "1", "failures": "1", "errors": "0", "skipped": "0"}


def test_junit_tells_lost_hosts_without_objects_and_open_transitions(tale: Tale) -> None:
    tale.start("h/a")
    assert _suites(tale)["h"][0][0].tag == "error"
    tale.over("failed", 1, unreachable={"gone": "no\x00 \x9b31m\n\u202eroute\uffff"})
    assert _suites(tale)["gone"][0][0].text == "no\\x00 \\x9b31m\n\\u202eroute?"


def test_github_gets_one_line_per_trouble(bad: Tale) -> None:
    lines = list(github_commands(bad.report()))
    assert [line.partition(" ")[0] for line in lines] == [
        "::error",
        "::error",
        "::warning",
        "::warning",
    ]
    assert all("\n" not in line for line in lines)
    assert "title=cobweb%3A db/db%3A down -> up failed::" in lines[0]


def test_what_a_task_said_is_no_command(tale: Tale) -> None:
    tale.start("h/a")
    tale.end("h/a", message="100%\r\n::set-env name=x::y")
    tale.over("failed", 1)
    (line,) = github_commands(tale.report())
    assert line.endswith("::100%25%0D%0A::set-env name=x::y")


def test_github_gets_so_many_only_and_is_told_of_the_rest(tale: Tale) -> None:
    for number in range(MOST_ANNOTATIONS + 5):
        tale.start(f"h/{number:02d}")
        tale.end(f"h/{number:02d}", message="m")
    tale.over("failed", 1)
    lines = list(github_commands(tale.report()))
    assert len(lines) == MOST_ANNOTATIONS
    assert "... and 6 more" in lines[-1]


def test_gitlab_gets_a_code_quality_report(bad: Tale) -> None:
    found = gitlab_quality(bad.report())
    assert json.loads(json.dumps(found)) == found
    for entry in found:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert entry["location"]["lines"]["begin"] >= 1
    assert len({entry["fingerprint"] for entry in found}) == len(found)
    assert found == gitlab_quality(bad.report())


def test_half_a_character_is_no_defect_of_gitlab_quality(tale: Tale) -> None:
    """A file of JSON can hold one; the other forms write it in some way as well."""
    tale.state("a/\udc80", "unknown", message="no")
    (entry,) = gitlab_quality(tale.report())
    assert "\udc80" in entry["description"]


def test_a_run_without_trouble_tells_none(good: Tale) -> None:
    assert list(github_commands(good.report())) == []
    assert gitlab_quality(good.report()) == []
