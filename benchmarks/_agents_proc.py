"""What processes have used, and what they keep: from `/proc`, so it can be asked while they live.

Of processes that have ended only those are counted that a living one has waited for.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident memory of a process in MiB; in `shared_out` each page counts for its sharers."""

    resident: float
    shared_out: float


def cpu_s(roots: Iterable[int]) -> float:
    """Return the processor time of processes and of all that lives below them.

    Children that have ended and were waited for are in it.
    """
    times: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for pid, fields in _stats():
        times[pid] = sum(map(int, fields[11:15])) / _TICKS  # utime, stime, cutime, cstime
        children[int(fields[1])].append(pid)
    found, waiting = set[int](), [*roots]
    while waiting:
        pid = waiting.pop()
        if pid in times and pid not in found:
            found.add(pid)
            waiting += children[pid]
    return sum(times[pid] for pid in found)


def named(text: str) -> list[int]:
    """Return the processes whose command line contains a text."""
    return [pid for pid in _pids() if text in _read(pid, "cmdline").replace("\0", " ")]


def memory(pid: int) -> Memory:
    """Return what a process keeps."""
    lines = (line.split() for line in _read(pid, "smaps_rollup").splitlines()[1:])
    kib = {name: int(value) for name, value, *_ in lines}
    return Memory(resident=kib["Rss:"] / 1024, shared_out=kib["Pss:"] / 1024)


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Yield the fields after the name of each process: state, parent, and so on."""
    for pid in _pids():
        if text := _read(pid, "stat"):
            yield pid, text.rpartition(")")[2].split()


def _pids() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]


def _read(pid: int, name: str) -> str:
    try:
        return (_PROC / str(pid) / name).read_bytes().decode(errors="replace")
    except _GONE:
        return ""
