"""The disk of a host: the files that differ from the machine's own root, which lies below it."""

from __future__ import annotations

import os
import stat
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.support.fabric._loop import attach_loop
from tests.support.fabric._spec import CONFIG_DIR, OPERATOR, FabricHost, Init

__all__ = ["Disk", "make_disk"]

_OPERATOR_ID = 4242

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


def make_disk(
    disk: Disk, host: FabricHost, neighbours: Sequence[FabricHost], public_key: str
) -> str:
    """Fill the disk of a host; return the host's public SSH key."""
    for part in (disk.upper, disk.work, disk.root):
        part.mkdir(parents=True)
        part.chmod(0o755)
    disk.hide("/root", 0o700)
    disk.hide("/home")
    disk.erase("/var/lib/cobweb")  # what Cobweb remembers of this machine
    disk.write("/etc/hostname", f"{host.name}\n")
    known = "".join(f"{each.address} {each.name}\n" for each in neighbours)
    disk.write("/etc/hosts", f"127.0.0.1 localhost\n{known}")
    disk.write("/etc/resolv.conf", "")
    disk.write("/etc/machine-id", f"{uuid.uuid4().hex}\n")
    disk.write(f"{CONFIG_DIR}/sshd_config", _SSHD_CONFIG)
    disk.write(f"{CONFIG_DIR}/authorized_keys", public_key)
    _add_operator(disk)
    if host.init is Init.SYSTEMD:
        _add_units(disk)
    disk.devices = tuple(_make_device(disk, number, host.disk_mb) for number in range(host.disks))
    return _make_host_key(disk)


def _add_operator(disk: Disk) -> None:
    for path, line, mode in (
        (
            "/etc/passwd",
            f"{OPERATOR}:x:{_OPERATOR_ID}:{_OPERATOR_ID}::/home/{OPERATOR}:/bin/sh",
            0o644,
        ),
        ("/etc/group", f"{OPERATOR}:x:{_OPERATOR_ID}:", 0o644),
        ("/etc/shadow", f"{OPERATOR}:*:19000:0:99999:7:::", 0o640),
    ):
        lines = disk.read(path).splitlines()
        kept = [text for text in lines if not text.startswith(f"{OPERATOR}:")]
        disk.write(path, "\n".join([*kept, line, ""]), mode)
    disk.write(f"/etc/sudoers.d/{OPERATOR}", f"{OPERATOR} ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    home = disk.upper / "home" / OPERATOR
    home.mkdir()
    os.chown(home, _OPERATOR_ID, _OPERATOR_ID)


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


def _make_device(disk: Disk, number: int, size_mb: int) -> int:
    """Make an empty disk of the host; it takes the memory that is written to it."""
    file = disk.upper.with_name(f"disk{number}.img")
    with file.open("wb") as stream:
        stream.truncate(size_mb << 20)
    return attach_loop(file)


def _make_host_key(disk: Disk) -> str:
    key = disk.upper / CONFIG_DIR.lstrip("/") / "host_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    return key.with_suffix(".pub").read_text(encoding="utf-8").strip()
