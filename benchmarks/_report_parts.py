"""Parts of the benchmark of reports that run in processes of their own.

`python -m benchmarks._report_parts options|read|check|store ...`; see `benchmarks/report.py`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks._sites import COBS_PER_HOST, host_name, large_graph

AT_ONCE = 2000
RUN = "bench"


def options(hosts: int) -> list[str]:
    """Return options of `simulate`: 1% of the hosts unreachable, 0.2% of the objects fail."""
    dice = random.Random(1)  # noqa: S311  # no secret, the same every time
    found = []
    for host in range(hosts):
        if dice.random() < 0.01:
            found += ["--unreachable", host_name(host)]
        found += [
            f"--fail={host_name(host)}/c{cob:02d}"
            for cob in range(COBS_PER_HOST)
            if dice.random() < 0.002
        ]
    return found


def read(events: Path) -> None:
    """Read the events as JSON and do nothing with them."""
    with events.open(encoding="utf-8") as lines:
        for line in lines:
            json.loads(line)


def check(events: Path, hosts: str) -> None:
    """Print how many promises the events break, after the first few of them."""
    from cobweb.cli.graph import graph_data
    from cobweb.testing.promises import check_promises

    graph = graph_data(large_graph(int(hosts)), {})
    broken = check_promises(_events(events), graph)
    print(*broken[:5], sep="\n", file=sys.stderr)
    print(len(broken))


def store(events: Path, site: str) -> None:
    """Put the events into a state database, as the run `bench`."""
    from cobweb.store import EventWritten, RunInfo, RunRecord, open_store

    info = RunInfo(id=RUN, command="bench", started=1e9, user="bench", host="bench", pid=1)
    lines = _events(events)
    with open_store("sqlite:///.cobweb/state.db", Path(site)) as journal:
        journal.begin_run(info)
        while batch := list(islice(lines, AT_ONCE)):
            journal.write(
                [
                    EventWritten(
                        seq=event.pop("seq"),
                        time=event.pop("time"),
                        type=event.pop("type"),
                        data=json.dumps(event),
                    )
                    for event in batch
                ]
            )
        journal.end_run(RunRecord(info=info, result="failed", exit_code=1, ended=1e9 + 600))


def _events(events: Path) -> Iterator[dict[str, Any]]:
    with events.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


if __name__ == "__main__":
    parts: dict[str, Callable[..., None]] = {"read": read, "check": check, "store": store}
    parts[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
