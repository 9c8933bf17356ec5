"""Who we are, and whether another process of this host is still there.

A process is known by its host, the boot of that host, its pid and its start: a pid alone is given
again. Where the answer cannot be known (another host, another pid namespace) the answer is that it
may live.
"""

from __future__ import annotations

import getpass
import os
import socket
from operator import attrgetter
from pathlib import Path

from cobweb.store._values import LockOwner

_PROC = Path("/proc")


def this_process(*, run: str, reason: str, since: float) -> LockOwner:
    """Return this process as the owner of a lock for the run `run`; `reason` is for people."""
    return LockOwner(
        run=run,
        user=_user(),
        host=socket.gethostname(),
        pid=os.getpid(),
        process_start=_process_start(os.getpid()) or "",
        boot_id=_read(_PROC / "sys/kernel/random/boot_id"),
        machine_id=_read(Path("/etc/machine-id")),
        pid_space=_link(_PROC / "self/ns/pid"),
        reason=reason,
        since=since,
        heartbeat=since,
    )


def why_dead(owner: LockOwner) -> str:
    """Return how we know that the process of `owner` has ended, or "" where it may live."""
    here = this_process(run="", reason="", since=0.0)
    if (owner.host, owner.machine_id) != (here.host, here.machine_id):
        return ""
    if owner.boot_id != here.boot_id:
        return f"{owner.host} has been restarted since"
    if owner.pid_space != here.pid_space or _is_there(owner):
        return ""
    return f"its process {owner.pid} is gone"


def is_alive(owner: LockOwner) -> bool:
    """Say whether the process of `owner` is seen to be there; False where that cannot be seen."""
    here = this_process(run="", reason="", since=0.0)
    place = attrgetter("host", "machine_id", "boot_id", "pid_space")
    return bool(place(owner) == place(here)) and _is_there(owner)


def _is_there(owner: LockOwner) -> bool:
    start = _process_start(owner.pid)
    return start is not None and (not start or owner.process_start in ("", start))


def _process_start(pid: int) -> str | None:
    """Return when a process started, in ticks of this boot; None if there is none, "" unknown."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it is there, and another user's
    # The name of the program, in brackets, may hold anything; what follows is state, ppid, ...
    fields = _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    if not fields:
        return ""
    return None if fields[0] in "ZX" else fields[19]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""
