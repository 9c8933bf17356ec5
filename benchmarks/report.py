"""What a report of a run with a million events costs, beside reading the same events as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks._report_parts import options
from benchmarks._row import Row
from benchmarks._sites import write_site

__all__ = ["measure"]

HOSTS = {"full": 2750, "small": 8}
"""2,750 hosts with 50 objects give a little more than a million events."""

COBWEB = shutil.which("cobweb", path=str(Path(sys.executable).parent)) or "cobweb"
READ = "reading the events as JSON"
NOTE = "1% of the hosts unreachable, 0.2% of the objects fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """What one process took, alone."""

    code: int
    cpu_s: float
    peak_mib: float


def measure(size: str) -> Iterator[Row]:
    """Yield the costs of each form of a report, and how large and how true it is."""
    hosts = HOSTS[size]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        events = _simulated(folder, hosts)
        number = _lines(events)
        broken = _output(
            [sys.executable, "-m", "benchmarks._report_parts", "check", str(events), str(hosts)]
        )
        yield Row(
            what=f"promises broken in the {number:,} events",
            value=float(broken),
            unit="",
            target=0.0,
            note=NOTE,
        )
        yield from _page(events, folder)
        yield from _others(events, folder)
        yield from _from_journal(events, folder)


def _page(events: Path, folder: Path) -> Iterator[Row]:
    plain = _part("read", str(events))
    page = folder / "page.html"
    made = _report(events, "html", page)
    yield Row(what="page, CPU", value=made.cpu_s, peer=READ, peer_value=plain.cpu_s, target=20.0)
    yield Row(
        what="page, size",
        value=_mb(page),
        unit="MB",
        peer="the events themselves",
        peer_value=_mb(events),
        target=10.0,
    )
    yield Row(
        what="page, peak memory",
        value=made.peak_mib,
        unit="MiB",
        peer=READ,
        peer_value=plain.peak_mib,
        note="kept per object, transition and lock wait, never per event",
    )


def _others(events: Path, folder: Path) -> Iterator[Row]:
    plain = _part("read", str(events))
    for form in ("text", "json", "junit"):
        made = _report(events, form, folder / form)
        yield Row(what=f"{form}, CPU", value=made.cpu_s, peer=READ, peer_value=plain.cpu_s)


def _from_journal(events: Path, folder: Path) -> Iterator[Row]:
    site = folder / "site"
    _part("store", str(events), str(site))
    plain = _part("read", str(events))
    page = folder / "journal.html"
    made = _run([COBWEB, "-C", str(site), "report", "-o", "html", "--out", str(page)])
    assert made.code == 0, "the report from the journal failed"
    yield Row(
        what="page from the journal (SQLite), CPU",
        value=made.cpu_s,
        peer=READ,
        peer_value=plain.cpu_s,
        target=20.0,
        note=f"peak memory {made.peak_mib:.0f} MiB",
    )


def _simulated(folder: Path, hosts: int) -> Path:
    """Simulate the large site and return its events."""
    site, events = folder / "site", folder / "events.jsonl"
    site.mkdir()
    write_site(site, hosts)
    durations = folder / "durations.json"
    durations.write_text(json.dumps({"part": [0.5, 4]}), encoding="utf-8")
    command = [COBWEB, "-C", str(site), "simulate", "--parallel", "500", "--durations"]
    ran = _run([*command, str(durations), "--events", str(events), *options(hosts)])
    assert ran.code in (0, 1), "the simulation failed"
    return events


def _report(events: Path, form: str, out: Path) -> _Ran:
    made = _run([COBWEB, "report", "--events", str(events), "-o", form, "--out", str(out)])
    assert made.code == 0, f"the report {form} failed"
    return made


def _part(*arguments: str) -> _Ran:
    ran = _run([sys.executable, "-m", "benchmarks._report_parts", *arguments])
    assert ran.code == 0, f"{arguments[0]} failed"
    return ran


def _run(command: list[str]) -> _Ran:
    """Run a command to its end; what it took is its own, not that of other children."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status, used = os.wait4(pid, 0)
    return _Ran(
        code=os.waitstatus_to_exitcode(status),
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mib=used.ru_maxrss / 1024,
    )


def _output(command: list[str]) -> str:
    from subprocess import run

    return run(command, check=True, capture_output=True, text=True).stdout.strip()


def _lines(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def _mb(path: Path) -> float:
    return path.stat().st_size / 1e6
