"""From "locks held" to "task started on the host", with many transitions waiting for a lane.

Each task writes the time as the first thing it does, by the clock of this machine, which is that of
Cobweb's events too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks._tasks_places import Place
from benchmarks._tasks_tools import TAKE_OVER, cobweb, write_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds at the median and the 95th percentile.

    `start` is from the event `transition.start` (all locks held, handed to a lane that is free);
    `turn` from the event `transition.end` of the transition whose lane it took.
    """

    start_s: float
    start_95_s: float
    turn_s: float
    waiting: int


def latency(place: Place, folder: Path, *, count: int, parallel: int, task_s: float) -> Latency:
    """Apply a site of `count` objects, whose tasks only write the time and sleep; measure each."""
    stamps = place.root / f"stamps-{parallel}"
    if place.is_local:
        stamps.mkdir()
    else:
        for host in place.hosts:
            place.on_host(host, f"mkdir -p {stamps}")
    _write(place, folder, stamps, task_s, count)
    ran = cobweb(place, folder, *TAKE_OVER, parallel=parallel)
    begun = _stamps(place, stamps)
    if len(begun) != ran.changed:
        raise RuntimeError(f"{ran.changed} transitions, but {len(begun)} have written the time")
    starts = {e["cob"]: e["time"] for e in ran.events if e["type"] == "transition.start"}
    ends = sorted(e["time"] for e in ran.events if e["type"] == "transition.end")
    waits = [begun[cob] - time for cob, time in starts.items()]
    later = sorted(begun.values())[parallel:]
    return Latency(
        start_s=median(waits),
        start_95_s=quantiles(waits, n=20)[-1],
        turn_s=median(at - end for at, end in zip(later, ends, strict=False)),
        waiting=len(starts),
    )


def _write(place: Place, folder: Path, stamps: Path, task_s: float, count: int) -> None:
    """Write the site; its checks run nothing on the hosts."""
    write_json(folder / "hosts.yml", place.inventory({}))
    cobs = {f"t{n}": {"type": "stamp", "on": "all"} for n in range(count // len(place.hosts))}
    kind = {
        "states": ["down", "up"],
        "preferred": "up",
        "remove": "down",
        "check": {"tasks": "check.yml"},
        "transitions": {
            "down -> up": {"tasks": "stamp.yml"},
            "up -> down": {"tasks": "stamp.yml"},
        },
    }
    site = {"cobweb": 1, "name": "stamps", "inventory": "hosts.yml"}
    write_json(folder / "site.yml", {**site, "types": {"stamp": kind}, "cobs": cobs})
    write_json(folder / "check.yml", [{"ansible.builtin.set_fact": {"cob_state": "down"}}])
    path = f"{stamps}/{{{{ cob.host }}}}-{{{{ cob.name }}}}"
    command = f"date +%s.%N >{path}; sleep {task_s}"
    write_json(folder / "stamp.yml", [{"ansible.builtin.shell": command}])


def _stamps(place: Place, stamps: Path) -> Mapping[str, float]:
    lines: Sequence[str]
    if place.is_local:
        lines = [f"{p.name} {p.read_text(encoding='ascii')}" for p in sorted(stamps.iterdir())]
    else:
        script = f'cd {stamps} && for f in *; do echo "$f $(cat $f)"; done'
        lines = [line for h in place.hosts for line in place.on_host(h, script).splitlines()]
    found: dict[str, Any] = dict(line.split() for line in lines)
    return {name.replace("-", "/", 1): float(time) for name, time in found.items()}
