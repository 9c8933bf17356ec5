"""Compare: `python -m benchmarks.comparison` (as root); `--docs` writes the page's figures.

Each scenario begins with all servers at a known value. What is told of a run was seen from outside:
by a client that writes, by the servers' values and by the logs of the standbys.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks._machine import machine
from benchmarks.comparison._lab import HERE, TOOLS, Lab, opened_lab
from benchmarks.comparison._page import DATA, as_markdown, write_page

LOW, HIGH = 100, 200
FILES = {"Cobweb": ("site.yml",), "Ansible": ("play.yml", "set.yml")}
LAST = 2


def main() -> int:
    """Measure, print the tables, and write them down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="how often each change is made")
    parser.add_argument("--docs", action="store_true", help="put the figures into the docs page")
    options = parser.parse_args()
    report: dict[str, Any] = {"format": 1, "machine": machine(), "repeat": options.repeat}
    with tempfile.TemporaryDirectory() as folder, opened_lab(Path(folder)) as lab:
        report["changes"] = _changes(lab, options.repeat)
        report["losses"] = [row for tool in TOOLS for row in _losses(lab, tool)]
    report["lines"] = {tool: sum(map(_lines, names)) for tool, names in FILES.items()}
    print(as_markdown(report))
    if options.docs:
        DATA.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        write_page(report)
    return 0


def _changes(lab: Lab, repeat: int) -> list[dict[str, Any]]:
    """Raise, do nothing, lower; the tools take turns. Medians, and all wrong orders together."""
    steps = (("raise", HIGH), ("no change", HIGH), ("lower", LOW))
    runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    lab.heal(LOW)
    for _ in range(repeat):
        for tool in TOOLS:
            for what, value in steps:
                _say(f"{tool}: {what}")
                before = lab.complaints()
                ran = lab.run(tool, value)
                if ran.code != 0 or lab.values() != [str(value)] * 3:
                    raise RuntimeError(f"{tool} did not {what}: {ran.output}")
                told = {"seconds": ran.seconds, "gap": ran.longest_s, "broken": ran.broken}
                runs.setdefault((what, tool), []).append(
                    {**told, "wrong": lab.complaints() - before}
                )
    return [
        {
            "what": what,
            "tool": tool,
            "seconds": statistics.median(run["seconds"] for run in row),
            "gap": statistics.median(run["gap"] for run in row),
            "broken": statistics.median(run["broken"] for run in row),
            "wrong": sum(run["wrong"] for run in row),
        }
        for (what, tool), row in runs.items()
    ]


def _losses(lab: Lab, tool: str) -> Iterator[dict[str, Any]]:
    """Let a server die half-way, and see what a second and a third run make of it."""
    lab.heal(LOW)
    _say(f"{tool}: raise, a standby dies")
    first = lab.run_with_loss(tool, HIGH, LAST, lambda: lab.value(1) != str(LOW))
    yield _told(lab, tool, "raise; the second standby dies while the first restarts", first.code)
    again = lab.run_with_loss(tool, HIGH, LAST, lambda: False)
    yield _told(lab, tool, "the same run again, it is still dead", again.code)
    without = lab.run_with_loss(tool, HIGH, LAST, lambda: False, "--limit", _without_last(lab))
    yield _told(lab, tool, "an operator in a hurry: `--limit` without it", without.code)
    lab.start(LAST)
    lab.settle()
    yield _told(lab, tool, "it comes back", None)
    healed = lab.run_with_loss(tool, HIGH, LAST, lambda: False)
    lab.settle()
    yield _told(lab, tool, "the same run again", healed.code)
    lab.heal(HIGH)
    _say(f"{tool}: lower, the primary dies")
    first = lab.run_with_loss(tool, LOW, 0, lambda: lab.value(0) == str(LOW))
    yield _told(lab, tool, "lower; the primary dies when it is done", first.code)
    lab.start(0)
    healed = lab.run_with_loss(tool, LOW, 0, lambda: False)
    yield _told(lab, tool, "it comes back; the same run again", healed.code)


def _told(lab: Lab, tool: str, what: str, code: int | None) -> dict[str, Any]:
    values = " ".join(lab.values())
    return {"tool": tool, "what": what, "code": code, "values": values, "wrong": lab.wrong_orders()}


def _without_last(lab: Lab) -> str:
    return f"all:!{lab.servers[LAST].host.name}"


def _lines(name: str) -> int:
    """Count the lines of a file that say something."""
    text = (HERE / "database" / name).read_text(encoding="utf-8").splitlines()
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text)


def _say(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
