"""The benchmarks can be run by anyone: the harness, its table and its JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks._page import DATA, PAGE, page_of
from benchmarks._row import Row
from benchmarks._table import as_markdown, as_text

ROOT = Path(__file__).resolve().parents[2]


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )


def _report(*rows: Row, error: str = "") -> dict[str, object]:
    part: dict[str, object] = {"rows": [row.as_json() for row in rows]}
    if error:
        part["error"] = error
    machine = {
        "processor": "a processor",
        "cores": 2,
        "memory_gib": 24.0,
        "system": "Debian",
        "kernel": "6",
        "python": "3.11",
        "sqlite": "3.40",
        "load_before": 0.5,
        "packages": {"cobweb": "1"},
    }
    return {"format": 1, "machine": machine, "size": "full", "subjects": {"subject": part}}


@pytest.mark.parametrize(
    ("value", "target", "more_is_better", "met"),
    [
        (1.0, 2.0, False, True),
        (3.0, 2.0, False, False),
        (3.0, 2.0, True, True),
        (1.0, 2.0, True, False),
        (None, 2.0, False, None),
        (1.0, None, False, None),
    ],
)
def test_a_target_is_met_or_missed_or_not_told(
    value: float | None, target: float | None, *, met: bool | None, more_is_better: bool
) -> None:
    row = Row(what="x", value=value, target=target, more_is_better=more_is_better)
    assert row.met is met


def test_the_ratio_is_to_the_peer() -> None:
    assert Row(what="x", value=3.0, peer="p", peer_value=2.0).ratio == 1.5
    assert Row(what="x", value=3.0).ratio is None
    assert Row(what="x", peer="p", peer_value=2.0).ratio is None


@pytest.mark.parametrize("table", [as_text, as_markdown])
def test_the_table_tells_misses_gaps_and_what_died(table: object) -> None:
    assert callable(table)
    text = table(
        _report(
            Row(what="slow", value=12.0, peer="peer", peer_value=6.0, target=10.0, note="a note"),
            Row(what="gone", peer="pyinfra", missing="pyinfra is not installed"),
            error="ended with exit code 3",
        )
    )
    assert "12.0 s" in text
    assert "6.00 s peer" in text
    assert "2.00" in text
    assert "NO" in text
    assert "slow: a note" in text
    assert "gone: not measured, pyinfra is not installed" in text
    assert "ended with exit code 3" in text
    assert "2 cores of a processor" in text


def test_the_page_shows_the_figures_that_lie_beside_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_of(page, json.loads(DATA.read_text(encoding="utf-8"))) == page


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the marks"):
        page_of("no table here", _report())


def test_an_unknown_subject_is_refused() -> None:
    result = _bench("nonesuch")
    assert result.returncode == 2
    assert "no such subject: nonesuch" in result.stderr


@pytest.mark.full("a measurement on small sizes; make bench has it too")
def test_one_subject_runs_and_is_written_as_json(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    result = _bench("start", "--size", "small", "--out", str(out))
    assert result.returncode == 0, result.stderr
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["format"] == 1
    assert report["size"] == "small"
    rows = report["subjects"]["start"]["rows"]
    assert {row["what"] for row in rows} >= {"cobweb --help, CPU"}
    assert all(row["value"] > 0 and row["peer_value"] > 0 for row in rows)
    assert "cobweb --help, CPU" in result.stdout
