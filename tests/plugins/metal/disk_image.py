"""Disk images that machines of QEMU boot, under BIOS as under UEFI: a system of one page.

An image is a boot sector, a FAT partition with two boot loaders, and the trampoline's own kernel
and initramfs with another `init` on top. The system asks DHCP for its address and its name, counts
how often it was booted on this disk, and serves a page about all that on port 80.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from cobweb_plugins.metal.trampoline import pack

PACKAGES = ("dosfstools", "mtools", "syslinux", "systemd-boot-efi")
"""What making an image needs of Debian."""

_SECTOR = 512
_START = 2048
"""Where the partition begins, in sectors; the boots are counted in one before."""

_BYTES = 32 << 20
_FAT16 = 0x06
_ACTIVE = 0x80
_OPTIONS = "console=ttyS0 quiet mitigations=off no_timer_check panic=5"
_EFI = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi"
_MBR = Path("/usr/lib/SYSLINUX/mbr.bin")
_CODE_BYTES = 440
_TABLE = 446

_SYSLINUX = f"""\
DEFAULT system
PROMPT 0
LABEL system
  KERNEL vmlinuz
  INITRD trampoline.gz,system.gz
  APPEND {_OPTIONS}
"""

_SYSTEMD_BOOT = f"""\
linux /vmlinuz
initrd /trampoline.gz
initrd /system.gz
options {_OPTIONS}
"""

_INIT = r"""#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run /www
/bin/busybox --install -s /bin
export PATH=/bin
if [ -n "$interface" ]; then # called by udhcpc
  case $1 in
  deconfig) ifconfig "$interface" 0.0.0.0 ;;
  bound | renew)
    ifconfig "$interface" "$ip" netmask "$subnet"
    hostname "$hostname"
    echo "name=$hostname address=$ip boots=$(cat /run/boots) text=$(cat /text)" >/www/index.html
    ;;
  esac
  exit
fi
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for round in 1 2 3; do
  find /sys/devices -name modalias -exec cat {} + | sort -u | xargs -r modprobe -a -b -q
done
until [ -e /dev/vda ] && [ -e /sys/class/net/eth0 ]; do sleep 0.1; done
boots=$(dd if=/dev/vda bs=512 skip=100 count=1 2>/dev/null | tr -d '\000')
boots=$((${boots:-0} + 1))
echo $boots >/run/boots
printf %s $boots | dd of=/dev/vda bs=512 seek=100 conv=sync,fsync 2>/dev/null
[ ! -e /resets ] || reboot -f
ifconfig lo 127.0.0.1 up
ifconfig eth0 up
udhcpc -C -i eth0 -t 50 -T 1 -s /init
httpd -p 80 -h /www
echo "system: $(cat /www/index.html)"
while :; do sleep 3600; done
"""


def make_disk_image(image: Path, trampoline: Path, text: str, *, resets: bool = False) -> None:
    """Make an image of a text, with the kernel of a trampoline; one that resets serves no page."""
    with TemporaryDirectory() as temporary:
        work = Path(temporary)
        tree = work / "tree"
        tree.mkdir()
        (tree / "init").write_text(_INIT, encoding="utf-8")
        (tree / "init").chmod(0o755)
        (tree / "text").write_text(text, encoding="utf-8")
        if resets:
            (tree / "resets").touch()
        pack(tree, work / "system.gz")
        (work / "syslinux.cfg").write_text(_SYSLINUX, encoding="ascii")
        (work / "system.conf").write_text(_SYSTEMD_BOOT, encoding="ascii")
        files = {
            "vmlinuz": trampoline / "vmlinuz",
            "trampoline.gz": trampoline / "initrd.gz",
            "system.gz": work / "system.gz",
            "syslinux.cfg": work / "syslinux.cfg",
            "loader/entries/system.conf": work / "system.conf",
            "EFI/BOOT/BOOTX64.EFI": Path(_EFI),
        }
        part = work / "partition"
        with part.open("wb") as file:
            file.truncate(_BYTES - _START * _SECTOR)
        # One fixed id, no time: the same text makes the same image but for times in directories.
        _run("mkfs.vfat", "-F", "16", "-h", str(_START), "-i", "c0b0eb00", str(part))
        _run("mmd", "-i", str(part), "::loader", "::loader/entries", "::EFI", "::EFI/BOOT")
        for name, source in files.items():
            _run("mcopy", "-i", str(part), str(source), f"::{name}")
        _run("syslinux", "--install", str(part))
        image.write_bytes(_boot_sector() + bytes((_START - 1) * _SECTOR) + part.read_bytes())


def _boot_sector() -> bytes:
    """Return code and table: one active partition."""
    chs = b"\xfe\xff\xff"
    size = _BYTES // _SECTOR - _START
    entry = struct.pack("<B3sB3sII", _ACTIVE, chs, _FAT16, chs, _START, size)
    code = _MBR.read_bytes()[:_CODE_BYTES].ljust(_TABLE, b"\0")
    return code + entry.ljust(4 * 16, b"\0") + b"\x55\xaa"


def _run(*command: str) -> None:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    subprocess.run(command, check=True, capture_output=True, env={"PATH": path})
