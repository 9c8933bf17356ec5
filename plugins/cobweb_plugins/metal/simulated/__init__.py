"""Simulated machines: firmware, trampoline and system as a process, a file as disk.

A machine is on while somebody holds the flock on NAME.lock. The switch takes it and gives it to the
process that it starts, so there is no moment at which a killed switch leaves a machine that is not
seen. The process writes its pid there; the pid goes when the ledger has the machine's `power-off`.
What is done with one machine's switch at once waits for NAME.switch, which no machine inherits.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cobweb.errors import CobwebError, UsageError
from cobweb_plugins.metal.simulated import _machine

__all__ = ["simulate", "two_writers"]

OFF_LIMIT_S = 10.0
_POLL_S = 0.01
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")


def simulate(  # noqa: PLR0913  # what a machine is; all but its name are named
    name: str, action: str, *, folder: Path, server: str, mac: str, interface: str = ""
) -> str:
    """Switch a machine `on` or `off`, or ask for its `status`; return `on` or `off`.

    `folder` has what there is of machines and is made if need be; `server` is the URL of the boot
    server that its firmware asks. With an `interface` it asks the URL that DHCP gives it there; the
    caller is in the network namespace that the machine has for itself. It returns when it is so: a
    machine that is off has no process any more, and its interface no link. A machine that is on
    already is left alone, whatever server it asks.

    Raises `UsageError` for what is no name, action or URL and for somebody else's folder, and
    `CobwebError` where the process cannot be started or ended.
    """
    _check(name, action, server, interface)
    folder = _made_folder(folder)
    with _opened(folder / f"{name}.switch") as switch, _opened(folder / f"{name}.lock") as lock:
        fcntl.flock(switch, fcntl.LOCK_EX)
        if action == "off":
            _machine.unplug(interface)
            _end(folder, name, lock)
        if not _is_free(lock):
            return "on"
        _settle(folder, name, lock, interface)
        if action != "on":
            # Not left to the closing: a child that another thread forks now has the file, too.
            fcntl.flock(lock, fcntl.LOCK_UN)
            return "off"
        _start(folder, name, lock, (server, mac, interface))
        return "on"


def two_writers(ledger: Path) -> list[str]:
    """Return what a ledger says against "no two processes ever wrote on a disk at once".

    It looks at the order of its lines alone. A last line that is not whole is left out.
    """
    problems = []
    writers: dict[str, set[str]] = defaultdict(set)
    text = ledger.read_text(encoding="utf-8") if ledger.exists() else ""
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            problem = _problem(json.loads(line), writers)
        except (ValueError, TypeError, KeyError):
            problem = "is no event"
        if problem:
            problems.append(f"{ledger.name}:{number}: {problem}")
    return problems


def _problem(event: dict[str, Any], writers: dict[str, set[str]]) -> str:
    """Return what is wrong at an event, "" for nothing; `writers` are who writes now, by disk."""
    writer = f"{event['machine']} (pid {event['pid']})"
    if event["event"] == "power-off":
        for each in writers.values():
            each.discard(writer)
        return ""
    if event["event"] not in {"write-begin", "write-end", "two-writers"}:
        return ""
    disk = event["disk"]
    present = writers[disk]
    match event["event"]:
        case "two-writers":
            return f"{writer} found {disk} locked by another writer"
        case "write-begin":
            others = ", ".join(sorted(present - {writer}))
            present.add(writer)
            return f"{writer} begins to write {disk} before the end of {others}" if others else ""
        case _:
            problem = "" if writer in present else f"{writer} wrote {disk} after it was off"
            present.discard(writer)
            return problem


def _check(name: str, action: str, server: str, interface: str) -> None:
    if not _NAME.fullmatch(name):
        hint = "a name has letters, digits, `-` and `.`, and begins with a letter or digit"
        raise UsageError(f"{name!r} is no name of a simulated machine", hint=hint)
    if action not in ("on", "off", "status"):
        raise UsageError(f"a switch cannot do {action!r}", hint="it does on, off and status")
    try:
        url = urlsplit(server)
        valid = url.scheme == "http" and url.hostname and url.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(f"{server!r} is no boot server", hint="for example http://127.0.0.1:7480")
    if interface and interface not in {it for _, it in socket.if_nameindex()}:
        hint = "switch it in its network namespace: nsenter --net=/run/netns/NAME cobweb ..."
        raise UsageError(f"there is no interface {interface} here", hint=hint)
    if interface and shutil.which("busybox") is None:
        raise UsageError("busybox is not installed", hint="Debian has it in busybox-static")


def _made_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        hint = "name another folder: who owns this one could change the disks"
        raise UsageError(f"{folder} belongs to another user", hint=hint)
    return folder.resolve()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file for locking; it is not inherited by what is started."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _is_free(lock: int) -> bool:
    """Take a machine's lock; say whether it could be taken."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid(lock: int) -> int | None:
    """Return the pid in a machine's lock, None before its process has written it."""
    text = os.pread(lock, 20, 0)
    return int(text) if text.endswith(b"\n") else None


def _settle(folder: Path, name: str, lock: int, interface: str) -> None:
    """Write down that a machine which was killed is off; the caller has its lock."""
    pid = _pid(lock)
    if pid is not None:
        _machine.unplug(interface)
        _machine.record(folder, name, pid, "power-off")
    os.truncate(lock, 0)


def _start(folder: Path, name: str, lock: int, arguments: tuple[str, ...]) -> None:
    """Start a machine that gets the lock; it is on when its first process has ended."""
    path = folder / f"{name}.log"
    # By its path, for its package would load Cobweb, which it has no use for.
    command = [sys.executable, "-I", _machine.__file__, name, str(folder), *arguments, str(lock)]
    with path.open("ab") as log:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            pass_fds=(lock,),
        )
    if done.returncode:
        raise CobwebError(f"{name} cannot be switched on", hint=f"its log says why: {path}")


def _end(folder: Path, name: str, lock: int) -> None:
    """Kill a machine's processes until its lock is free, and take that."""
    end = time.monotonic() + OFF_LIMIT_S
    while not _is_free(lock):
        # There is no pid yet where a switch was killed while its machine started: it will come.
        pid = _pid(lock)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if time.monotonic() > end:
            hint = f"see who holds it: fuser -v {folder / name}.lock"
            raise CobwebError(f"{name} is still on after {OFF_LIMIT_S:g} s", hint=hint)
        time.sleep(_POLL_S)
