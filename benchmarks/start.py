"""What a command takes before it does anything, and on a small site: the demo.

Each stands beside a Python interpreter that does nothing, as a multiple of what that takes.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from subprocess import run
from tempfile import TemporaryDirectory

from benchmarks._row import Row, cost

__all__ = ["measure"]

DEMO = Path(__file__).resolve().parents[1] / "inventories" / "demo"
COBWEB = shutil.which("cobweb", path=str(Path(sys.executable).parent)) or "cobweb"
BEFORE_WORK, SMALL_SITE = 6, 15
"""How many times a bare interpreter a command may take: before its work begins, and in all."""


def measure(size: str) -> Iterator[Row]:
    """Yield CPU seconds of short commands beside those of a bare interpreter."""
    times = 9 if size == "full" else 3
    with TemporaryDirectory() as folder:
        kept = {"COBWEB_NO_CACHE": "", "XDG_CACHE_HOME": folder}
        bare = _cpu_s([sys.executable, "-c", "pass"], times, {})
        for words, what, most, environment in (
            ("--help", "", BEFORE_WORK, {}),
            ("--version", "", BEFORE_WORK, {}),
            *((f"{name} --help", "", BEFORE_WORK, {}) for name in ("validate", "status", "plan")),
            ("validate", ", demo, nothing kept", None, {"COBWEB_NO_CACHE": "1"}),
            ("validate", ", demo", SMALL_SITE, kept),
            ("status", ", demo", None, kept),
            ("plan", ", demo", None, kept),
        ):
            command = [COBWEB, "-C", str(DEMO), *words.split()]
            if environment is kept:
                _cpu_s(command, 1, kept)
            yield Row(
                what=f"cobweb {words}{what}, CPU",
                value=_cpu_s(command, times, environment),
                peer="bare python",
                peer_value=bare,
                target=most and most * bare,
                note=f"median of {times}",
            )


def _cpu_s(command: list[str], times: int, environment: dict[str, str]) -> float:
    seconds = []
    for _ in range(times):
        with cost() as spent:
            run(command, check=True, capture_output=True, env={**os.environ, **environment})
        seconds.append(spent.cpu_s)
    return median(seconds)
