"""What a command costs: wall time, and processor time of all that it starts, daemons included.

Where control groups can be made (root, cgroup version 2) a command runs in one of its own, and what
it hands over to init is counted; elsewhere only children that were waited for are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._row import cost

LIMIT_S = 600
JOIN = 'echo 0 > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds of one command; `hosts_s` is what other hosts spent for it."""

    wall_s: float
    cpu_s: float
    hosts_s: float = 0.0
    output: str = ""
    code: int = 0

    @property
    def all_s(self) -> float:
        """Processor time of the command and of the hosts."""
        return self.cpu_s + self.hosts_s


def run_measured(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    hosts: Path | None = None,
    ok: Sequence[int] = (0,),
) -> Spent:
    """Run a command; `hosts` is the control group of the hosts it works on, if they have one.

    RuntimeError, with the end of what it printed, where its exit code is none of `ok`.
    """
    group = _make_group()
    before = cgroup_cpu_s(hosts) if hosts else 0.0
    joined = ["sh", "-c", JOIN, str(group), *argv] if group else list(argv)
    began = time.perf_counter()
    with cost() as spent:
        done = subprocess.run(
            joined,
            cwd=cwd,
            env=dict(environment),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
    wall_s = time.perf_counter() - began
    if done.returncode not in ok:
        tail = done.stdout[-2000:]
        raise RuntimeError(f"{' '.join(argv[:6])} ended with {done.returncode}: {tail}")
    cpu_s = spent.cpu_s
    if group is not None:
        cpu_s = cgroup_cpu_s(group)
        with contextlib.suppress(OSError):  # services that it has started live on in there
            group.rmdir()
    return Spent(
        wall_s=wall_s,
        cpu_s=cpu_s,
        hosts_s=cgroup_cpu_s(hosts) - before if hosts else 0.0,
        output=done.stdout,
        code=done.returncode,
    )


def cgroup_cpu_s(group: Path) -> float:
    """Return the processor time that a control group has used."""
    fields = dict(
        line.split() for line in (group / "cpu.stat").read_text(encoding="ascii").splitlines()
    )
    return int(fields["usage_usec"]) / 1e6


def cgroup_root() -> Path | None:
    """Return where this machine has mounted cgroup version 2; None where it has not."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, target, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(target)
    return None


def _make_group() -> Path | None:
    """Make a control group; those of ended commands are removed on the way."""
    root = cgroup_root()
    if os.geteuid() != 0 or root is None:
        return None
    for old in root.glob(f"cobweb-bench-{os.getpid()}-*"):
        if "populated 0" in (old / "cgroup.events").read_text(encoding="ascii"):
            old.rmdir()
    group = root / f"cobweb-bench-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    return group
