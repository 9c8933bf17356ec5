"""Each subject runs whole in small, as `make bench` runs it, and has all kinds of rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import SUBJECTS

ROOT = Path(__file__).resolve().parents[2]
Rows = Sequence[Mapping[str, Any]]
_ON_SSH_HOSTS = ("tasks", "broadcast")


@pytest.mark.full("all measurements on small sizes: three minutes; make bench has them too")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "subject",
    [pytest.param(s, marks=[pytest.mark.netns] if s in _ON_SSH_HOSTS else []) for s in SUBJECTS],
)
def test_a_subject_ends_well_and_its_rows_have_figures(subject: str, tmp_path: Path) -> None:
    """It ends with an error where a tool left work undone, or a run of tasks broke a promise."""
    out = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", subject, "--size", "small", "--out", str(out)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=290,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text(encoding="utf-8"))
    assert (report["format"], report["size"]) == (1, "small")
    assert report["subjects"][subject]["wall_s"] > 0
    rows = report["subjects"][subject]["rows"]
    for row in rows:
        assert row["what"] in done.stdout
        assert row["missing"] or _has_figures(row), row
    _CLAIMS[subject](rows)


def _has_figures(row: Mapping[str, Any]) -> bool:
    """Say whether a row has what it names; one with the target 0 counts what went wrong."""
    has_peer = row["peer_value"] or not row["peer"] or row["peer"].endswith("(missing)")
    return bool(has_peer and (row["value"] == 0 if row["target"] == 0 else row["value"] > 0))


def _start(rows: Rows) -> None:
    assert "cobweb --help, CPU" in _whats(rows)
    assert all(row["peer_value"] for row in rows)


def _engine(rows: Rows) -> None:
    assert "broken promises (P1 to P5), pure Python" in _whats(rows)
    assert any("compiled" in what for what in _whats(rows))


def _site(rows: Rows) -> None:
    assert Counter(what.partition(":")[0] for what in _whats(rows)) == {"site": 8, "plan": 13}
    assert len(_whats(rows)) == len(rows)
    assert any("P1 to P5 checked and P6 compared" in row["note"] for row in rows)


def _journal(rows: Rows) -> None:
    assert {"SQLite", "PostgreSQL"} <= {what.split(", ")[1] for what in _whats(rows) if "," in what}
    assert any(row["peer"] for row in rows)


def _apply(rows: Rows) -> None:
    assert "promises broken" in _whats(rows)
    assert len(rows) > 1


def _report(rows: Rows) -> None:
    assert {"page, CPU", "page, size", "page, peak memory"} <= _whats(rows)
    (promises,) = [row for row in rows if row["what"].startswith("promises broken")]
    assert all(row["peer_value"] for row in rows if row is not promises)


def _tasks(rows: Rows) -> None:
    words = " ".join(_whats(rows))
    for part in ("wall", "CPU per task", "nothing to do", "locks held"):
        assert part in words
    targets = {row["peer"] for row in rows if row["target"] is not None}
    assert any(peer.startswith("ansible-playbook linear") for peer in targets)
    assert any(peer.startswith("ansible-playbook free") for peer in targets)
    if not any(row["what"] == "2 SSH hosts" for row in rows):  # that row says what they lack
        assert "one slow host each" in words
        assert "locks held to task at work, SSH" in words


def _agents(rows: Rows) -> None:
    words = " ".join(_whats(rows))
    for part in ("nothing to do", "one file changed", "CPU of all", "wall", "resident memory"):
        assert part in words
    peers = {row["peer"] for row in rows if row["peer_value"]}
    assert {"Cobweb without agents", "ansible-playbook"} <= peers
    notes = [row["note"] for row in rows if row["what"].endswith("CPU of all")]
    assert all("coordinator" in note and "agents" in note for note in notes if note)


def _broadcast(rows: Rows) -> None:
    words = " ".join(_whats(rows))
    for part in ("`cobweb run`, wall", "round trip", "answered", "started again"):
        assert part in words
    answered = [row for row in rows if row["what"].endswith("answered")]
    assert answered
    assert all(row["value"] == row["target"] for row in answered)
    if not any(row["what"] == "2 SSH hosts" for row in rows):  # that row says what they lack
        assert {"2 SSH hosts, wall", "2 SSH hosts, one silent, wall"} <= _whats(rows)


def _layout(rows: Rows) -> None:
    assert len(rows) == len(_whats(rows)) == 8
    assert "8 services on 20 nodes, CPU" in {row["what"] for row in rows if row["peer_value"]}
    assert [row["target"] for row in rows if row["target"]] == [0.5, 3.0]


def _tasks_plan(rows: Rows) -> None:
    makespans = [row for row in rows if row["what"].startswith("makespan")]
    assert len(makespans) == 16
    assert all(1 - 1e-9 <= row["value"] <= row["peer_value"] for row in makespans)


def _whats(rows: Rows) -> set[str]:
    return {row["what"] for row in rows}


_CLAIMS: Mapping[str, Callable[[Rows], None]] = {
    "start": _start,
    "engine": _engine,
    "site": _site,
    "journal": _journal,
    "apply": _apply,
    "report": _report,
    "tasks": _tasks,
    "agents": _agents,
    "broadcast": _broadcast,
    "layout": _layout,
    "tasks_plan": _tasks_plan,
}
