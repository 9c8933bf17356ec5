"""Run as a program, in a folder with `boot.json`: starts a machine, prints its pid, and is done.

The machine lives on by itself. All that it is made of is in its namespaces, its disk in memory too,
so that the kernel takes it away with its first process. A byte on stdin tells it that its cable is
there; where stdin ends without one it ends as well.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from cobweb_plugins.namespaces._boot import Boot, become_host
from cobweb_plugins.namespaces._disk import CONFIG_DIR, Disk, Init, fill_disk
from cobweb_plugins.namespaces._packages import REPOSITORY
from cobweb_plugins.namespaces._system import MountFlag, Namespace, mount, unshare

__all__: list[str] = []

_HOST = (
    Namespace.PID
    | Namespace.MOUNT
    | Namespace.NETWORK
    | Namespace.UTS
    | Namespace.IPC
    | Namespace.CGROUP
)


def main(folder: Path) -> None:
    """Start the machine of a folder."""
    plan = json.loads((folder / "boot.json").read_text(encoding="utf-8"))
    Path(plan["cgroup"], "cgroup.procs").write_text("0", encoding="ascii")
    unshare(_HOST)
    mount("none", Path("/"), flags=MountFlag.RECURSIVE | MountFlag.PRIVATE)
    memory = folder / "disk"
    memory.mkdir()
    mount("tmpfs", memory, "tmpfs", options=f"mode=755,size={plan['disk_mb']}m")
    init = Init(plan["init"])
    disk = Disk(memory)
    fill_disk(disk, plan["name"], init, plan["public_key"])
    _furnish(disk, folder, packages=bool(plan["packages"]))
    boot = Boot(
        name=plan["name"],
        address=plan["address"],
        gateway=plan["gateway"],
        init=init,
        disk=disk,
        binds={target: Path(source) for target, source in plan["binds"].items()},
    )
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        become_host(boot, 0)
    sys.stdout.write(f"{child}\n")


def _furnish(disk: Disk, folder: Path, *, packages: bool) -> None:
    """Give the machine its key, what it may install, and leave to start what it installs."""
    disk.write(f"{CONFIG_DIR}/host_key", (folder / "host_key").read_text(encoding="ascii"), 0o600)
    disk.write("/etc/hosts", "")
    disk.erase("/usr/sbin/policy-rc.d")
    if packages:
        disk.hide("/etc/apt/sources.list.d")
        disk.hide("/var/lib/apt/lists")
        disk.write("/etc/apt/sources.list", f"deb [trusted=yes] file:{REPOSITORY} ./\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
