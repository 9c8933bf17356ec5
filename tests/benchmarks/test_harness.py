"""The benchmarks can be run by anyone: the harness, its table and its JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import benchmarks.__main__ as benchmarks
from benchmarks._machine import CODE, commit, git
from benchmarks._page import DATA, PAGE, page_of, why_outdated, with_parts
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


def _report(*rows: Row, error: str = "") -> dict[str, Any]:
    part: dict[str, Any] = {"rows": [row.as_json() for row in rows]}
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


def test_subjects_of_another_run_are_put_into_the_page_and_say_so() -> None:
    whole = _report(Row(what="old", value=1.0)) | {"commit": "a" * 40}
    later = _report(Row(what="new", value=2.0)) | {"commit": "b" * 40}
    made = with_parts(whole, later | {"subjects": {"more": later["subjects"]["subject"]}})
    text = as_markdown(made)
    assert "| old | 1.00 s |" in text
    assert "| new | 2.00 s |" in text
    assert text.startswith("2 cores")
    assert f"commit {'a' * 12}\n" in text
    assert "- measured apart from the rest: 2 cores of a processor" in text
    assert text.endswith(f"commit {'b' * 12}\n")
    again = with_parts(made, later)
    assert "| old |" not in as_markdown(again)


def test_an_unknown_subject_is_refused() -> None:
    result = _bench("nonesuch")
    assert result.returncode == 2
    assert "no such subject: nonesuch" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--size", "small"], "the size is small, not full"),
        (["start", "engine"], "not measured: site, journal, apply"),
        (["start", "--docs-parts", "--size", "small"], "the size is small, not full"),
    ],
)
def test_the_page_is_of_all_subjects_at_full_size(arguments: list[str], reason: str) -> None:
    """It is said before anything is measured, so that nobody waits an hour for it."""
    page = PAGE.read_bytes()
    result = _bench("--docs", *arguments)
    assert result.returncode == 1
    assert f"the docs page stays as it is: {reason}" in result.stderr
    assert "..." not in result.stderr
    assert PAGE.read_bytes() == page


def test_no_page_is_made_of_a_run_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = list[object]()
    parts = {"tasks": {"rows": [], "error": "ended with exit code 1"}}
    monkeypatch.setattr(benchmarks, "_run", lambda subject, _size: parts.get(subject, {"rows": []}))
    monkeypatch.setattr(benchmarks, "write_page", written.append)
    arguments = ["--docs", "--out", str(tmp_path / "bench.json")]
    assert benchmarks.main(arguments) == 1
    assert "stays as it is: ended with an error: tasks" in capsys.readouterr().err
    assert not written
    parts.clear()
    assert benchmarks.main(arguments) == 0
    assert [json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))] == written


def test_the_table_names_the_commit_where_the_report_has_one() -> None:
    head = "0123456789abcdef0123456789abcdef01234567"
    for said, shown in ((head, "0123456789ab"), (f"{head}+changes", "0123456789ab+changes")):
        assert as_text(_report() | {"commit": said}).endswith(f"size full; commit {shown}")
    for report in (_report(), _report() | {"commit": ""}):
        assert as_text(report).endswith("size full")


def test_the_commit_is_that_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    head = git("rev-parse", "HEAD").strip()
    assert commit() in (head, f"{head}+changes")
    monkeypatch.setenv("PATH", "")
    assert commit() == ""


def test_a_page_is_outdated_when_a_tenth_of_the_code_has_changed() -> None:
    whole = "600\t0\ttoolkit/a.py\n400\t0\tplugins/b.py\n-\t-\tplugins/picture.png\n"
    few, many = "60\t40\ttoolkit/a.py\n", "60\t40\ttoolkit/a.py\n1\t0\tplugins/b.py\n"
    head = "0123456789abcdef"
    assert not why_outdated(head, changed="", whole=whole)
    assert not why_outdated(head, changed=few, whole=whole)
    assert why_outdated(head, changed=many, whole=whole) == (
        "docs/benchmarks.md was measured at 0123456789ab; since then 101 of 1,000 lines changed: "
        "run `make bench BENCH_ARGS=--docs` on an idle machine"
    )
    assert "does not say at which commit" in why_outdated("", changed="", whole=whole)


@pytest.mark.full("a page may be old for a while; the gate compares made-up counts of lines")
def test_the_page_was_measured_with_much_the_same_code() -> None:
    measured = json.loads(DATA.read_text(encoding="utf-8")).get("commit", "").partition("+")[0]
    nothing = git("hash-object", "-t", "tree", "/dev/null").strip()
    try:
        changed = git("diff", "--numstat", measured or "HEAD", "HEAD", "--", *CODE)
    except subprocess.CalledProcessError as error:
        pytest.fail(f"the commit of docs/{DATA.name} is not in this repository: {error.stderr}")
    whole = git("diff", "--numstat", nothing, "HEAD", "--", *CODE)
    why = why_outdated(measured, changed=changed, whole=whole)
    assert not why, why
