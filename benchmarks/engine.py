"""The engine alone: half a million objects from unknown to up, and a change of one in a hundred.

It is compared with ninja over the same graph, which plans all of it and then finds nothing to do:
a C++ program that knows two states, one owner and no locks, and so the practical limit.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._row import Row

__all__ = ["measure"]

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ROOT / "build" / "compiled"
CPU_TARGET_S = 10.0
PEAK_TARGET_MIB = 1536.0
GROWTH_TARGET = 1.15
"""What 1.0 is in theory; a larger graph also fits less well into the processor's caches."""

HOSTS = {"full": (100, 10_000), "small": (4, 20)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peer:
    """What ninja took; None where it is not there."""

    cpu_s: float | None = None
    peak_mib: float | None = None


def measure(size: str) -> Iterator[Row]:
    """Yield the rows of the pure engine, then those of the compiled one where there is one."""
    few, many = HOSTS[size]
    peer = _ninja(many)
    pure = _run(many, _times(many), None)
    yield from _rows("pure Python", pure, _run(few, _times(few), None), peer)
    yield _limited(pure, _run(many, _times(many), None, "limited"))
    if not _is_compiled():
        yield Row(what="compiled", missing="`make compiled` builds it from this source")
        return
    compiled = _run(many, _times(many), COMPILED)
    yield from _rows("compiled", compiled, _run(few, _times(few), COMPILED), peer)
    yield Row(
        what="effects that differ between the builds (P6)",
        value=float(pure["digest"] != compiled["digest"]),
        unit="",
        target=0.0,
        note="0 if a digest over all effects in order is the same",
    )


def _limited(free: dict[str, Any], limited: dict[str, Any]) -> Row:
    """Return the row of the same under a limit: at most one host in ten is out at once."""
    if limited["violations"]:
        raise AssertionError(limited["violations"][0])
    return Row(
        what="the same with limits: a tenth of all hosts at once, pure Python, CPU",
        value=limited["first_s"] + limited["change_s"],
        peer="without a limit",
        peer_value=free["first_s"] + free["change_s"],
        note=f"unknown to up {limited['first_s']:.2f} s, change of 1% {limited['change_s']:.2f} s;"
        " P1 to P5 checked",
    )


def _is_compiled() -> bool:
    """Say whether there is a compiled engine, and of the very source that the pure one is."""
    sources = sorted((ROOT / "toolkit" / "cobweb" / "engine").glob("*.py"))
    made = COMPILED / "cobweb" / "engine"
    return made.exists() and all(
        (made / source.name).exists() and (made / source.name).read_bytes() == source.read_bytes()
        for source in sources
    )


def _times(hosts: int) -> int:
    return max(1, 500 // hosts)


def _rows(build: str, large: dict[str, Any], small: dict[str, Any], peer: _Peer) -> Iterator[Row]:
    cpu_s, few_s = (run["first_s"] + run["change_s"] for run in (large, small))
    ninja = "ninja: plan, no-op" if peer.cpu_s is not None else "ninja (missing)"
    yield Row(
        what=f"{large['cobs']:,} objects, {large['needs']:,} needs, {build}, CPU",
        value=cpu_s,
        peer=ninja,
        peer_value=peer.cpu_s,
        target=CPU_TARGET_S,
        note=f"unknown to up {large['first_s']:.2f} s, change of 1% {large['change_s']:.2f} s",
    )
    yield Row(
        what=f"peak memory, {build}",
        value=large["peak_mib"],
        unit="MiB",
        peer=ninja,
        peer_value=peer.peak_mib,
        target=PEAK_TARGET_MIB,
        note="the graph included",
    )
    yield Row(
        what=f"messages, {build}",
        value=large["messages"] / cpu_s,
        unit="/s",
        more_is_better=True,
        note=f"{large['messages']:,} requests, grants, releases and recalls",
    )
    size = (large["cobs"] + large["needs"]) / (small["cobs"] + small["needs"])
    yield Row(
        what=f"growth of CPU, {build}: exponent",
        value=math.log(cpu_s / few_s) / math.log(size),
        unit="",
        peer="linear",
        peer_value=1.0,
        target=GROWTH_TARGET,
        note=f"from {small['cobs']:,} to {large['cobs']:,} objects",
    )
    yield Row(
        what=f"broken promises (P1 to P5), {build}",
        value=float(len(large["violations"]) + len(small["violations"])),
        unit="",
        target=0.0,
        note=", ".join(large["violations"][:3]) or "checked on all events of both runs",
    )


def _run(hosts: int, times: int, build: Path | None, *words: str) -> dict[str, Any]:
    """Return what a process of its own reports; its peak memory is its own."""
    path = [str(build)] if build else []
    path += [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks._engine_run", str(hosts), str(times), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def _ninja(hosts: int) -> _Peer:
    """Plan the whole graph with ninja (a dry run of no commands), then find nothing to do."""
    if shutil.which("ninja") is None:
        return _Peer()
    with tempfile.TemporaryDirectory() as folder:
        planned = _ninja_run(Path(folder, "plan"), hosts, "run", ["-n", "--quiet"])
        at_rest = _ninja_run(Path(folder, "rest"), hosts, "phony", ["--quiet"])
    return _Peer(cpu_s=planned[0] + at_rest[0], peak_mib=max(planned[1], at_rest[1]))


def _ninja_run(folder: Path, hosts: int, rule: str, options: list[str]) -> tuple[float, float]:
    """Return the CPU seconds and the peak MiB of one ninja over the graph."""
    folder.mkdir()
    file = str(folder / "build.ninja")
    writer = [sys.executable, "-m", "benchmarks._engine_ninja", str(hosts), rule, file]
    subprocess.run(writer, cwd=ROOT, check=True)
    process = subprocess.Popen(["ninja", *options], cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"ninja ended with exit code {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
