"""The disk of a host: the files that differ from this machine's own root, which lies below it."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

CONFIG_DIR = "/etc/fabric"
"""Where a host keeps what it is reached by: its SSH key, sshd_config, authorized_keys."""

_SSHD_CONFIG = f"""\
HostKey {CONFIG_DIR}/host_key
AuthorizedKeysFile {CONFIG_DIR}/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile none
MaxStartups 500:30:1000
MaxSessions 100
Subsystem sftp internal-sftp
"""

_SSHD_UNIT = f"""\
[Service]
ExecStart=/usr/sbin/sshd -D -e -f {CONFIG_DIR}/sshd_config
RuntimeDirectory=sshd
KillMode=process
"""

_TARGET = """\
[Unit]
Requires=basic.target
Wants=fabric-sshd.service multi-user.target
After=basic.target
AllowIsolate=yes
"""

# Units that would reach for the machine's kernel, or wait for hardware that no host has.
_MASKED = (
    "dev-hugepages.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "sys-fs-fuse-connections.mount",
    "systemd-remount-fs.service",
    "systemd-modules-load.service",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-tmpfiles-clean.timer",
)


class Init(StrEnum):
    """What runs as PID 1 of a host."""

    SSHD = "sshd"
    SYSTEMD = "systemd"


class Disk:
    """The folders of one host's overlay; `upper` outlives the host's restarts.

    `layers` lie between it and the machine's own root, the highest first. `devices` are the
    further disks of the host, opened.
    """

    def __init__(self, folder: Path, layers: Sequence[Path] = ()) -> None:
        self.upper = folder / "upper"
        self.work = folder / "work"
        self.root = folder / "root"
        self.layers = tuple(layers)
        self.devices: tuple[int, ...] = ()

    def read(self, path: str) -> str:
        """Return a file of the host as it was before the first `write`."""
        name = path.lstrip("/")
        places = [*self.layers, Path("/")]
        found = next(place / name for place in places if (place / name).exists())
        return found.read_text(encoding="utf-8")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the host, `path` as seen there."""
        file = self.upper / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)

    def hide(self, path: str, mode: int = 0o755) -> None:
        """Make a folder of the host that shows nothing of the machine's folder below it."""
        folder = self.upper / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
        os.setxattr(folder, "trusted.overlay.opaque", b"y")

    def erase(self, path: str) -> None:
        """Let a folder of the machine's not be there on the host."""
        if Path(path).exists():
            place = self.upper / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))


def fill_disk(disk: Disk, name: str, init: Init, public_key: str) -> None:
    """Make the folders of a disk and what every host has; `public_key` opens it."""
    for part in (disk.upper, disk.work, disk.root):
        part.mkdir(parents=True)
        part.chmod(0o755)
    disk.hide("/root", 0o700)
    disk.hide("/home")
    disk.erase("/var/lib/cobweb")  # what Cobweb remembers of this machine
    disk.write("/etc/hostname", f"{name}\n")
    disk.write("/etc/resolv.conf", "")
    disk.write("/etc/machine-id", f"{uuid.uuid4().hex}\n")
    disk.write(f"{CONFIG_DIR}/sshd_config", _SSHD_CONFIG)
    disk.write(f"{CONFIG_DIR}/authorized_keys", public_key)
    if init is Init.SYSTEMD:
        _add_units(disk)


def _add_units(disk: Disk) -> None:
    """Start sshd and no unit that the machine itself has enabled."""
    units = "/etc/systemd/system"
    disk.hide(units)
    disk.hide("/usr/lib/systemd/system/multi-user.target.wants")
    disk.write(f"{units}/default.target", _TARGET)
    disk.write(f"{units}/fabric-sshd.service", _SSHD_UNIT)
    disk.write("/etc/systemd/journald.conf.d/fabric.conf", "[Journal]\nStorage=volatile\n")
    for unit in _MASKED:
        (disk.upper / units.lstrip("/") / unit).symlink_to("/dev/null")
