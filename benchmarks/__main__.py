"""Run all benchmarks, print the table of ratios and write it as JSON.

Each subject runs in a process of its own, so that its peak memory is its own and one that dies
takes no other with it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks._machine import commit, machine
from benchmarks._page import why_no_page, write_page, write_parts
from benchmarks._table import as_text

SUBJECTS = (
    *("start", "engine", "site", "journal", "apply", "report"),
    *("tasks", "agents", "broadcast", "layout", "tasks_plan", "pools"),
)
HERE = Path(__file__).resolve().parent
SUBJECT_TIMEOUT_S = 1800


def main(argv: list[str] | None = None) -> int:
    """Return 0 if every subject ran to its end and its page could be written, 1 otherwise.

    A missed target is no failure.
    """
    options = _options(argv)
    if options.child:
        return _measure(options.child, options.size, Path(options.out))
    report: dict[str, Any] = {"format": 1, "commit": commit(), "machine": machine()}
    report["size"] = options.size
    report["subjects"] = {subject: {} for subject in options.subjects or SUBJECTS}
    wanted = report["subjects"] if options.docs_parts else SUBJECTS
    is_shown = options.docs or options.docs_parts
    if is_shown and _is_no_page(report, wanted):
        return 1
    report["subjects"] = {subject: _run(subject, options.size) for subject in report["subjects"]}
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(as_text(report))
    if is_shown and not _is_no_page(report, wanted):
        (write_parts if options.docs_parts else write_page)(report)
    return int(any("error" in part for part in report["subjects"].values()))


def _is_no_page(report: dict[str, Any], subjects: Iterable[str]) -> bool:
    """Say whether the page has to stay as it is, and tell people why."""
    if why := why_no_page(report, subjects):
        print(f"the docs page stays as it is: {why}", file=sys.stderr)
    return bool(why)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--size", choices=["full", "small"], default="full")
    parser.add_argument("--out", default="build/bench.json", help="where the JSON is written")
    parser.add_argument("--docs", action="store_true", help="put the table into the docs page")
    parser.add_argument(
        "--docs-parts", action="store_true", help="put these subjects alone into the docs page"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    unknown = sorted(set(options.subjects) - set(SUBJECTS))
    if unknown:
        parser.error(f"no such subject: {', '.join(unknown)} (there are: {', '.join(SUBJECTS)})")
    return options


def _run(subject: str, size: str) -> dict[str, Any]:
    print(f"{subject} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    part = _part(subject, size)
    return {**part, "wall_s": round(time.monotonic() - began, 1)}


def _part(subject: str, size: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "rows.json")
        command = [sys.executable, "-m", "benchmarks", "--child", subject, "--size", size]
        try:
            ended = subprocess.run(
                [*command, "--out", str(out)],
                cwd=HERE.parent,
                check=False,
                timeout=SUBJECT_TIMEOUT_S,
                stdout=sys.stderr,
            )
        except subprocess.TimeoutExpired:
            return {"rows": _rows(out), "error": f"stopped after {SUBJECT_TIMEOUT_S} s"}
        if ended.returncode:
            return {"rows": _rows(out), "error": f"ended with exit code {ended.returncode}"}
        return {"rows": _rows(out)}


def _rows(out: Path) -> list[Any]:
    if not out.exists():
        return []
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def _measure(subject: str, size: str, out: Path) -> int:
    module = importlib.import_module(f"benchmarks.{subject}")
    with out.open("w", encoding="utf-8") as file:
        for row in module.measure(size):
            file.write(json.dumps(row.as_json()) + "\n")
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
