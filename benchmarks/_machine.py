"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("cobweb", "ansible-core", "ansible-runner", "sqlalchemy", "pyyaml", "jinja2")

CODE = ("toolkit", "plugins", "benchmarks")
"""The folders whose code is measured, or measures."""


def commit() -> str:
    """Return the commit checked out, "+changes" behind it where CODE differs; "" outside of git."""
    try:
        head = git("rev-parse", "HEAD").strip()
        return f"{head}+changes" if git("status", "--porcelain", "--", *CODE) else head
    except (OSError, subprocess.CalledProcessError):
        return ""


def git(*arguments: str) -> str:
    """Return what git says of this checkout; CalledProcessError where it says no."""
    command = ["git", "-C", str(Path(__file__).resolve().parents[1]), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def machine() -> dict[str, Any]:
    """Return the processor, memory, system and versions that matter, without names of hosts."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": _field("/etc/os-release", "PRETTY_NAME", "=").strip('"'),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load_before": round(os.getloadavg()[0], 2),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _field(path: str, name: str, separator: str = ":") -> str:
    if not Path(path).exists():
        return ""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip()
    return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
