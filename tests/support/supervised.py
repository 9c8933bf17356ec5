"""The supervisors that objects of the type `process` have left on this machine, below a folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import psutil

__all__ = ["end_supervised", "supervisors"]

_PATIENCE_S = 20


def supervisors(base: Path) -> list[int]:
    """Return the process ids of all supervisors whose home is below `base`, sorted."""
    found = base.glob("**/process/*/status.json")
    return sorted(json.loads(path.read_text(encoding="utf-8"))["supervisor"][0] for path in found)


def end_supervised(base: Path) -> None:
    """End the supervisors, which end what they supervise, and remove the folder."""
    processes = [psutil.Process(pid) for pid in supervisors(base) if psutil.pid_exists(pid)]
    children = [child for process in processes for child in process.children(recursive=True)]
    for process in processes:
        os.kill(process.pid, signal.SIGTERM)
    _, alive = psutil.wait_procs([*processes, *children], timeout=_PATIENCE_S)
    for process in alive:
        process.kill()
    shutil.rmtree(base, ignore_errors=True)
