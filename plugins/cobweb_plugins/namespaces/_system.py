"""The few calls of Linux that Python 3.11 has no name for: mounts, namespaces, capabilities."""

from __future__ import annotations

import ctypes
import enum
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_SIGKILL = 9
_MNT_DETACH = 2


class Namespace(enum.IntFlag):
    """Kinds of namespaces, by their CLONE_NEW* value."""

    MOUNT = 0x00020000
    CGROUP = 0x02000000
    UTS = 0x04000000
    IPC = 0x08000000
    PID = 0x20000000
    NETWORK = 0x40000000


class MountFlag(enum.IntFlag):
    """Flags of mount(2)."""

    READ_ONLY = 1
    NO_SUID = 2
    NO_DEV = 4
    NO_EXEC = 8
    REMOUNT = 32
    BIND = 4096
    RECURSIVE = 16384
    PRIVATE = 1 << 18


class Capability(enum.IntEnum):
    """Capabilities that a host has no use for; with them it could change the machine under it."""

    SYS_MODULE = 16
    SYS_RAWIO = 17
    SYS_TIME = 25
    SYSLOG = 34


def mount(
    source: str, target: Path, kind: str = "", flags: MountFlag | int = 0, options: str = ""
) -> None:
    """Mount `source` on `target`; OSError says what could not be mounted."""
    arguments = [text.encode() or None for text in (source, str(target), kind, options)]
    result = _LIBC.mount(*arguments[:3], ctypes.c_ulong(int(flags)), arguments[3])
    _check(result, f"mount {kind or 'bind'} on {target}")


def pivot_root(root: Path) -> None:
    """Make `root`, a mount point, the root of this mount namespace and forget the old one."""
    os.chdir(root)
    _check(_LIBC.pivot_root(b".", b"."), f"pivot_root to {root}")
    _check(_LIBC.umount2(b".", _MNT_DETACH), "unmount the old root")
    os.chdir("/")


def unshare(kinds: Namespace) -> None:
    """Move this process (for PID: its next child) into new namespaces."""
    _check(_LIBC.unshare(int(kinds)), f"unshare {kinds!r}")


def enter_namespace(path: Path, kind: Namespace) -> None:
    """Move the calling thread into the namespace at `path` (`/proc/PID/ns/...`)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_LIBC.setns(descriptor, int(kind)), f"setns {path}")
    finally:
        os.close(descriptor)


def die_with_parent() -> None:
    """Let the kernel end this process by SIGKILL when its parent ends."""
    _check(_LIBC.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl PR_SET_PDEATHSIG")


def drop_capability(capability: Capability) -> None:
    """Give up a capability for this process and all that it will start."""
    _check(_LIBC.prctl(_PR_CAPBSET_DROP, int(capability), 0, 0, 0), f"drop {capability!r}")


def cgroup_root() -> Path | None:
    """Return where this machine has mounted cgroup version 2; None where it has not."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, target, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(target)
    return None


def remove_cgroup(name: str) -> None:
    """Remove a cgroup and those in it, all without processes; harmless where it is not there."""
    root = cgroup_root()
    if root is not None:
        for folder, _, _ in os.walk(root / name, topdown=False):
            Path(folder).rmdir()


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
