"""The report as data follows its schema."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cobweb.cli.schema import read_schema
from cobweb_plugins.report.forms import hosts_text, report_data, span

Tale = Any


@pytest.mark.parametrize("name", ["good", "bad", "moved", "tale"])
def test_data_follow_the_schema(name: str, request: pytest.FixtureRequest) -> None:
    report = request.getfixturevalue(name).report()
    Draft202012Validator(read_schema("report")).validate(report_data(report))


def test_data_say_what_was_waited_for(good: Tale) -> None:
    data = report_data(good.report())
    (entry,) = data["waited_for"]
    longest = {"cob": "web/app", "seconds": 3.0}
    assert entry == {"cob": "db/db", "state": "up", "waits": 1, "seconds": 3.0, "longest": longest}
    assert [host["name"] for host in data["hosts"]] == ["db", "web"]
    assert data["hosts"][1] == {
        "name": "web",
        "cobs": 2,
        "transitions": 2,
        "failed": 0,
        "waiting": 0,
        "busy": 3.0,
        "start": 0.0,
        "end": 6.0,
    }


def test_data_say_which_hosts_switched_and_when(moved: Tale) -> None:
    assert report_data(moved.report())["switches"] == [
        {"at": 0.0, "hosts": ["db", "idle"], "generation": 3},
        {"at": 2.0, "hosts": ["web"], "generation": 3},
    ]


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (2, "h0, h1"),
        (8, "h0, h1, h2, h3, h4, h5, h6, h7"),
        (9, "h0, h1, h2, h3, h4, h5, h6, h7 and 1 more"),
    ],
)
def test_many_hosts_are_told_by_the_first(hosts: int, text: str) -> None:
    assert hosts_text([f"h{number}" for number in range(hosts)]) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(250, "0.25 s"), (12_300, "12.3 s"), (184_000, "3 min 4 s"), (7_500_000, "2 h 5 min")],
)
def test_spans_are_written_for_people(ms: int, text: str) -> None:
    assert span(ms) == text
