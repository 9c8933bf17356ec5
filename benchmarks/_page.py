"""The table on the docs page, and the figures that it was made from, beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks._table import as_markdown

_DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = _DOCS / "benchmarks.md"
DATA = _DOCS / "benchmarks.json"
_BEGIN = "<!-- table: made by `make bench BENCH_ARGS=--docs`, do not edit -->\n"
_END = "<!-- end of table -->\n"
_MAY_CHANGE = 0.1
"""The share of the measured lines that may change before the page has to be made anew."""


def page_of(page: str, report: Mapping[str, Any]) -> str:
    """Return the page with the table of this report between its two marks; ValueError without."""
    head, begin, rest = page.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} lacks the marks around its table")
    return f"{head}{begin}\n{as_markdown(report)}\n{end}{tail}"


def write_page(report: Mapping[str, Any]) -> None:
    """Write the figures of a whole run and the table of them into the docs."""
    page = page_of(PAGE.read_text(encoding="utf-8"), report)
    DATA.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page, encoding="utf-8")


def with_parts(page: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page's report with the subjects of another one in the place of its own.

    Each of these tells where it was measured, for the rest was measured elsewhere or at another
    time; its figures are compared only with those of its own run.
    """
    apart = {"machine": report["machine"], "size": report["size"], "commit": report["commit"]}
    parts = {subject: {**part, "apart": apart} for subject, part in report["subjects"].items()}
    return {**page, "subjects": {**page["subjects"], **parts}}


def write_parts(report: Mapping[str, Any]) -> None:
    """Write the subjects of a run into the docs, and leave the others as they are."""
    write_page(with_parts(json.loads(DATA.read_text(encoding="utf-8")), report))


def why_no_page(report: Mapping[str, Any], subjects: Iterable[str]) -> str:
    """Say why the page can't be made of a report: not all at full size, or with errors; or ""."""
    parts = report["subjects"]
    if report["size"] != "full":
        return f"the size is {report['size']}, not full"
    if lacking := [subject for subject in subjects if subject not in parts]:
        return f"not measured: {', '.join(lacking)}"
    if failed := [subject for subject, part in parts.items() if "error" in part]:
        return f"ended with an error: {', '.join(failed)}"
    return ""


def why_outdated(commit: str, *, changed: str, whole: str) -> str:
    """Say why a page that was measured at `commit` is older than the code it measures; or "".

    `changed` is what `git diff --numstat` says from that commit on, `whole` from nothing on.
    """
    again = "run `make bench BENCH_ARGS=--docs` on an idle machine"
    if not commit:
        return f"docs/{DATA.name} does not say at which commit it was measured: {again}"
    lines, of_lines = _lines(changed), _lines(whole)
    if lines <= _MAY_CHANGE * of_lines:
        return ""
    since = f"since then {lines:,} of {of_lines:,} lines changed"
    return f"docs/{PAGE.name} was measured at {commit[:12]}; {since}: {again}"


def _lines(numstat: str) -> int:
    """Return how many lines are added and removed; a file that is no text has none."""
    counts = (count for line in numstat.splitlines() for count in line.split("\t")[:2])
    return sum(int(count) for count in counts if count != "-")
