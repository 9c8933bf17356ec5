"""The first moments of a host: from a forked process to the init of new namespaces."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from cobweb_plugins.namespaces._disk import CONFIG_DIR, Disk, Init
from cobweb_plugins.namespaces._network import run_ip
from cobweb_plugins.namespaces._system import (
    Capability,
    MountFlag,
    drop_capability,
    mount,
    pivot_root,
)

_DEVICES = (
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
    ("fuse", 10, 229),
)
_DISKS = "bcdefghijklmnopqrstuvwxyz"
_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
)
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "linux",
    "container": "namespaces",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What a host is to become; `address` has the length of the network's prefix: `10.0.0.2/24`.

    `binds` are files and folders of this machine that the host sees, read-only, by its own path.
    """

    name: str
    address: str
    gateway: str
    init: Init
    disk: Disk
    binds: Mapping[str, Path] = field(default_factory=dict)


def systemd_path() -> str | None:
    """Return where this machine, and so each host, has systemd."""
    candidates = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
    return next((path for path in candidates if Path(path).exists()), None)


def become_host(boot: Boot, network_ready: int) -> NoReturn:
    """Set up this process, PID 1 of new namespaces, as a host and run its init; never returns.

    `network_ready` is a pipe: a byte on it says that the cable `eth0` is in our namespace; where
    it ends without one there is no host.
    """
    os.setsid()
    disk = boot.disk
    mount("none", Path("/"), flags=MountFlag.RECURSIVE | MountFlag.PRIVATE)
    lower = ":".join([*map(str, disk.layers), "/"])
    overlay = f"lowerdir={lower},upperdir={disk.upper},workdir={disk.work}"
    mount("overlay", disk.root, "overlay", options=overlay)
    mount_system_folders(disk.root)
    for letter, device in zip(_DISKS, disk.devices, strict=False):
        number = os.fstat(device).st_rdev
        os.mknod(disk.root / f"dev/vd{letter}", stat.S_IFBLK | 0o660, number)
    for target, source in boot.binds.items():
        _bind(source, disk.root / target.lstrip("/"))
    socket.sethostname(boot.name)
    if not os.read(network_ready, 1):
        os._exit(1)
    _mount_kernel_folders(disk.root)
    _set_up_network(boot)
    pivot_root(disk.root)
    for capability in Capability:
        drop_capability(capability)
    os.dup2(os.open("/dev/null", os.O_RDWR), 0)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    argv = _init_argv(boot.init)
    os.execve(argv[0], argv, _ENVIRONMENT)  # noqa: S606 - becoming the init is what we are for


def mount_system_folders(root: Path) -> None:
    """Mount what a system has in memory (/dev, /run, /tmp) below its root."""
    safe = MountFlag.NO_SUID | MountFlag.NO_DEV
    mask = os.umask(0)
    mount("tmpfs", root / "dev", "tmpfs", MountFlag.NO_SUID, "mode=755,size=1m")
    for name, major, minor in _DEVICES:
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    for name, target in _LINKS:
        (root / "dev" / name).symlink_to(target)
    for name in ("pts", "shm", "mqueue"):
        (root / "dev" / name).mkdir()
    options = "newinstance,ptmxmode=0666,mode=620,gid=5"
    mount("devpts", root / "dev/pts", "devpts", MountFlag.NO_SUID | MountFlag.NO_EXEC, options)
    mount("tmpfs", root / "dev/shm", "tmpfs", safe, "mode=1777,size=256m")
    mount("tmpfs", root / "tmp", "tmpfs", safe, "mode=1777,size=128m")
    mount("tmpfs", root / "run", "tmpfs", safe, "mode=755,size=64m")
    (root / "run/sshd").mkdir(mode=0o755)
    (root / "run/lock").mkdir(mode=0o1777)
    os.umask(mask)


def _mount_kernel_folders(root: Path) -> None:
    """Mount proc, sysfs and cgroup of our own namespaces; what is the machine's is read-only."""
    safe = MountFlag.NO_SUID | MountFlag.NO_DEV | MountFlag.NO_EXEC
    mount("proc", root / "proc", "proc", safe)
    for name in ("sys", "sysrq-trigger", "irq", "bus"):
        path = root / "proc" / name
        if path.exists():
            mount(str(path), path, flags=MountFlag.BIND)
            mount("", path, flags=safe | MountFlag.BIND | MountFlag.REMOUNT | MountFlag.READ_ONLY)
    network = root / "proc/sys/net"  # it is of the network namespace
    mount(str(network), network, flags=MountFlag.BIND)
    mount("", network, flags=safe | MountFlag.BIND | MountFlag.REMOUNT)
    mount("sysfs", root / "sys", "sysfs", safe | MountFlag.READ_ONLY)
    mount("cgroup2", root / "sys/fs/cgroup", "cgroup2", safe)


def _bind(source: Path, target: Path) -> None:
    """Show a file or folder of this machine at `target`, read-only."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    mount(str(source), target, flags=MountFlag.BIND)
    mount("", target, flags=MountFlag.BIND | MountFlag.REMOUNT | MountFlag.READ_ONLY)


def _set_up_network(boot: Boot) -> None:
    commands = (
        "link set lo up",
        f"addr add {boot.address} brd + dev eth0",
        "link set eth0 up",
        f"route add default via {boot.gateway}",
    )
    run_ip(*commands)


def _init_argv(init: Init) -> list[str]:
    if init is Init.SYSTEMD:
        return [systemd_path() or "systemd-is-missing", "--log-target=console"]
    return ["/usr/sbin/sshd", "-D", "-e", "-f", f"{CONFIG_DIR}/sshd_config"]
