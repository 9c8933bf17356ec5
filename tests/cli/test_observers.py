"""`--observe` lets observers of plugins hear of runs; none of them changes how a run comes out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

MODULE = """
import json
from cobweb.plugin import hookimpl

cobweb_interface = 1


class Tape:
    name = "tape"

    def open(self, argument):
        self.file = open(argument, "w")

    def take(self, event):
        self.file.write(json.dumps(event) + chr(10))

    def close(self, result):
        self.file.write(json.dumps({"type": "result", "result": result}) + chr(10))
        self.file.close()


class Frail:
    name = "frail"

    def open(self, argument): pass

    def take(self, event):
        if event["type"] == "transition.start":
            raise ValueError("frail")

    def close(self, result): pass


@hookimpl
def cobweb_register_observers():
    return [Tape, Frail]
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a module with two observers on the import path, and its metadata."""
    folder = tmp_path / "plugin"
    info = folder / "observing-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "observing_for_tests.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: observing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cobweb]\nobserving = observing_for_tests\n")
    monkeypatch.syspath_prepend(str(folder))
    yield
    sys.modules.pop("observing_for_tests", None)


def _tape(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Return where the observer `tape` writes."""
    return tmp_path / "tape.jsonl"


@pytest.mark.parametrize(
    "command",
    [
        ["simulate"],
        ["simulate", "--fail", "alpha/a"],
        ["apply", "--yes", "--executor", "simulate"],
    ],
)
def test_an_observer_gets_what_the_events_file_gets(
    run: Run, site: Path, tape: Path, tmp_path: Path, command: list[str]
) -> None:
    events = tmp_path / "events.jsonl"
    told = run("-C", site, *command, "--events", events, "--observe", f"tape={tape}", "-o", "json")
    *seen, last = _tape(tape)
    assert seen == _tape(events)
    assert last["result"] == json.loads(told.out)


def test_drift_restart_and_rollback_are_observed(run: Run, site: Path, tape: Path) -> None:
    simulated = ("--executor", "simulate", "--observe", f"tape={tape}")
    assert run("-C", site, "apply", "--yes", *simulated).code == 0
    for command in (["restart", "beta/b", "--yes"], ["rollback", "1", "--yes"], ["drift"]):
        run("-C", site, *command, *simulated)
        kinds = [event["type"] for event in _tape(tape)]
        assert (kinds[0], *kinds[-2:]) == ("version", "run.end", "result"), command


def test_one_that_fails_changes_nothing_but_a_note(run: Run, site: Path, tape: Path) -> None:
    plain = run("-C", site, "simulate", "-o", "json")
    told = run(
        "-C", site, "simulate", "-o", "json", "--observe", "frail", "--observe", f"tape={tape}"
    )
    assert told.code == plain.code == 0
    (note,) = [line for line in told.err.splitlines() if "left out" in line]
    assert note.startswith(
        "note: observer frail was left out: plugin observing: observer frail: take() raised"
        " ValueError: frail at "
    )
    assert _tape(tape)[-2]["type"] == "run.end"


def test_where_nothing_runs_observers_are_closed_without_a_result(
    run: Run, site: Path, tape: Path
) -> None:
    refused = run("-C", site, "apply", "--executor", "simulate", "--observe", f"tape={tape}")
    assert refused.code == 64
    assert _tape(tape) == [{"type": "result", "result": None}]


def test_one_that_cannot_begin_is_left_out_with_a_note(
    run: Run, site: Path, tmp_path: Path
) -> None:
    told = run("-C", site, "simulate", "--observe", f"tape={tmp_path / 'no' / 'where'}")
    assert "note: observer tape was left out: " in told.err
    assert told.code == 0
