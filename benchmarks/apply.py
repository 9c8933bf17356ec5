"""`apply` and `simulate` of a thousand hosts with trouble: CPU, time and memory of whole processes.

Durations are random, one object in a hundred fails and one host in a hundred cannot be reached. The
limit is a process that loads the same site and drives the bare engine over the same inputs: no
events, no journal. Every run's events are checked for the promises afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._row import Row
from benchmarks._sites import write_site
from benchmarks._tape import trouble

__all__ = ["measure"]

SEED = 7
PARALLEL = 1000
KINDS = ("apply", "paced")
HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a whole process took, and the events that it told."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    events: Path


def measure(size: str) -> Iterator[Row]:
    """Yield the figures of each command beside those of the bare engine."""
    hosts = 1000 if size == "full" else 20
    with tempfile.TemporaryDirectory(dir=_disk()) as name:
        folder = Path(name)
        write_site(folder, hosts)
        (folder / "durations.json").write_text('{"part": [1, 30]}', encoding="utf-8")
        runs = {"engine": _spend(folder, "engine", _child(folder, "engine"))}
        runs["simulate"] = _spend(folder, "simulate", _simulate(folder, "simulate"))
        for kind in KINDS:
            runs[kind] = _spend(folder, kind, _child(folder, kind))
        runs["again"] = _spend(folder, "again", _simulate(folder, "again"))
        yield from _rows(runs)
        yield _promises(folder, runs)


def _rows(runs: Mapping[str, Spent]) -> Iterator[Row]:
    engine = runs["engine"]
    for kind, what in (("simulate", "cobweb simulate"), ("apply", "apply, virtual clock")):
        spent, events = runs[kind], _lines(runs[kind].events)
        peer = "site and bare engine"
        yield Row(
            what=f"{what}, CPU",
            value=spent.cpu_s,
            peer=peer,
            peer_value=engine.cpu_s,
            note=f"{events} events, {spent.cpu_s / events * 1e6:.0f} us of CPU each with loading",
        )
        yield Row(what=f"{what}, time", value=spent.wall_s, peer=peer, peer_value=engine.wall_s)
        yield Row(
            what=f"{what}, peak memory",
            value=spent.peak_mib,
            unit="MiB",
            peer=peer,
            peer_value=engine.peak_mib,
        )
    paced, told = runs["paced"], json.loads((runs["paced"].events.with_suffix(".told")).read_text())
    yield Row(
        what="apply, real clock: events/s while it runs",
        value=told["events"] / told["seconds"],
        unit="/s",
        peer="what its jobs allow",
        peer_value=told["events"] / told["floor_s"],
        more_is_better=True,
        note=f"{PARALLEL} jobs of 0.05 to 0.5 s at once, {told['commits']} commits, "
        f"{told['events'] / told['commits']:.0f} events each: reports group while one commits",
    )
    yield Row(what="apply, real clock: CPU", value=paced.cpu_s)


def _promises(folder: Path, runs: Mapping[str, Spent]) -> Row:
    from cobweb.site import load_site
    from cobweb.testing.promises import check_promises
    from cobweb.testing.simulation import graph_stream

    graph, broken = load_site(folder).graph(None), 0
    for kind in ("simulate", *KINDS):
        with runs[kind].events.open(encoding="utf-8") as lines:
            broken += len(check_promises(map(json.loads, lines), graph_stream(graph)))
    broken += runs["simulate"].events.read_bytes() != runs["again"].events.read_bytes()
    note = "P1 to P5 on the events of all runs, P6 by a second run of `simulate`"
    return Row(what="promises broken", value=float(broken), unit="", target=0.0, note=note)


def _disk() -> Path:
    folder = HERE / "build"
    folder.mkdir(exist_ok=True)
    return folder


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _child(folder: Path, kind: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks._runs", str(folder), kind]


def _simulate(folder: Path, kind: str) -> list[str]:
    from cobweb.site import load_site

    options = trouble(load_site(folder))
    command = [sys.executable, "-m", "cobweb", "-C", str(folder), "simulate", "--seed", str(SEED)]
    for option in ("fail", "unreachable"):
        for name in options[option]:
            command += [f"--{option}", name]
    events = folder / f"{kind}.jsonl"
    return [*command, "--durations", str(folder / "durations.json"), "--events", str(events)]


def _spend(folder: Path, kind: str, command: Sequence[str]) -> Spent:
    """Run a command to its end; RuntimeError if it failed by more than what was to fail."""
    started = time.perf_counter()
    with (folder / f"{kind}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError((folder / f"{kind}.log").read_text(encoding="utf-8")[-2000:])
    return Spent(
        cpu_s=used.ru_utime + used.ru_stime,
        wall_s=time.perf_counter() - started,
        peak_mib=used.ru_maxrss / 1024,
        events=folder / f"{kind}.jsonl",
    )
