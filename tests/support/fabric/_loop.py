"""Loop devices: a file as a block device, freed by the kernel when nobody uses it any more."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from tests.support.fabric._system import MountFlag, mount

__all__ = ["attach_loop", "mount_image"]

_GET_FREE = 0x4C82
_CONFIGURE = 0x4C0A
_READ_ONLY = 1
_AUTOCLEAR = 4
# struct loop_config: descriptor, block size, then struct loop_info64, then reserved words.
_CONFIG = struct.Struct("=II 5Q 4I 64s 64s 32s 2Q 8Q")
_ATTEMPTS = 100


def attach_loop(file: Path, *, read_only: bool = False) -> int:
    """Attach `file` to a free loop device; return the device, opened.

    The device is free again when this descriptor is closed and no host has it open or mounted,
    so also after the end of the process by any signal.
    """
    backing = os.open(file, os.O_RDONLY if read_only else os.O_RDWR)
    flags = _AUTOCLEAR | (_READ_ONLY if read_only else 0)
    name = str(file).encode()[:63]
    config = _CONFIG.pack(
        backing, 0, *(0,) * 5, 0, 0, 0, flags, name, b"", b"", *(0,) * 2, *(0,) * 8
    )
    try:
        for _ in range(_ATTEMPTS):
            device = os.open(_free_device(), os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _CONFIGURE, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:  # somebody else was quicker
                    raise
            else:
                return device
    finally:
        os.close(backing)
    raise OSError(errno.EBUSY, f"no free loop device for {file}")


def mount_image(file: Path, target: Path, *, read_only: bool) -> None:
    """Mount a file that holds an ext4; unmounting it frees its loop device."""
    device = attach_loop(file, read_only=read_only)
    try:
        name = str(Path(f"/proc/self/fd/{device}").readlink())
        mount(name, target, "ext4", MountFlag.READ_ONLY if read_only else 0)
    finally:
        os.close(device)


def _free_device() -> str:
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        return f"/dev/loop{fcntl.ioctl(control, _GET_FREE)}"
    finally:
        os.close(control)
