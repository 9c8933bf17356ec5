"""The disk of a host of a fabric: what every host of namespaces has, and what tests need."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from cobweb_plugins.namespaces._disk import CONFIG_DIR, Disk, fill_disk
from tests.support.fabric._loop import attach_loop
from tests.support.fabric._spec import OPERATOR, FabricHost

__all__ = ["Disk", "make_disk"]

_OPERATOR_ID = 4242


def make_disk(
    disk: Disk, host: FabricHost, neighbours: Sequence[FabricHost], public_key: str
) -> str:
    """Fill the disk of a host; return the host's public SSH key."""
    fill_disk(disk, host.name, host.init, public_key)
    known = "".join(f"{each.address} {each.name}\n" for each in neighbours)
    disk.write("/etc/hosts", f"127.0.0.1 localhost\n{known}")
    _add_operator(disk)
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
