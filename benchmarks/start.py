"""How long a command takes before it does anything: start-up and the demo's validation."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from subprocess import run

from benchmarks._row import Row, cost

__all__ = ["measure"]

DEMO = Path(__file__).resolve().parents[1] / "inventories" / "demo"
COBWEB = shutil.which("cobweb", path=str(Path(sys.executable).parent)) or "cobweb"


def measure(size: str) -> Iterator[Row]:
    """Yield CPU seconds of short commands beside those of a bare interpreter."""
    times = 9 if size == "full" else 3
    bare = _cpu_s([sys.executable, "-c", "pass"], times)
    for what, command, target in (
        ("cobweb --help", [COBWEB, "--help"], 0.15),
        ("cobweb --version", [COBWEB, "--version"], 0.15),
        ("cobweb validate, demo", [COBWEB, "-C", str(DEMO), "validate"], 0.5),
    ):
        yield Row(
            what=f"{what}, CPU",
            value=_cpu_s(command, times),
            peer="bare python",
            peer_value=bare,
            target=target,
            note=f"median of {times}",
        )


def _cpu_s(command: list[str], times: int) -> float:
    seconds = []
    for _ in range(times):
        with cost() as spent:
            run(command, check=True, capture_output=True)
        seconds.append(spent.cpu_s)
    return median(seconds)
