"""A power switch for machines of QEMU: on, off or status, as the kind of power `command` wants it.

    python -P qemu_machine.py NAME ACTION --folder DIR --mac MAC [--firmware uefi] [--bridge br0]

It is run in the network namespace of the bridge, and with `-P`: beside it is another `operator`. A
machine is one process; its files in the folder are NAME.disk, NAME.pid and NAME.log, which is its
serial console. It boots from its network card first and from its disk second. KVM is never used:
where it is offered it may not work.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

DISK_BYTES = 128 << 20
_LIMIT_MS = 20_000
_OVMF = Path("/usr/share/OVMF")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("action", choices=("on", "off", "status"))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--mac", required=True)
    parser.add_argument("--firmware", choices=("bios", "uefi"), default="bios")
    parser.add_argument("--bridge", default="br0")
    given = parser.parse_args()
    pid = _pid(given.folder / f"{given.name}.pid")
    if given.action == "off" and pid:
        _end(pid)
        pid = 0
    elif given.action == "on" and not pid:
        _start(given.name, given.folder, given.mac, given.firmware, given.bridge)
        pid = 1
    print("on" if pid else "off")  # noqa: T201  # the answer


_NO_ROM = {"bios": "", "uefi": ",romfile="}


def _pid(file: Path) -> int:
    """Return the process of a machine that is on, else 0."""
    with suppress(OSError, ValueError):
        pid = int(file.read_text(encoding="ascii"))
        if str(file).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    return 0


def _end(pid: int) -> None:
    """End a process as a power cut does; return when it is gone."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        ended = select.poll()
        ended.register(process, select.POLLIN)
        signal.pidfd_send_signal(process, signal.SIGKILL)
        ended.poll(_LIMIT_MS)
        os.close(process)


def _start(name: str, folder: Path, mac: str, firmware: str, bridge: str) -> None:
    """Start a machine, which goes on by itself; it has nothing open of whoever calls."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = folder / f"{name}.disk"
    if not disk.exists():
        with disk.open("wb") as file:
            file.truncate(DISK_BYTES)
    tap = f"tap{mac[-5:].replace(':', '')}"
    # /sys may be that of another network namespace.
    if subprocess.run(["ip", "link", "show", tap], capture_output=True, check=False).returncode:
        _run("ip", "tuntap", "add", tap, "mode", "tap")
        _run("ip", "link", "set", tap, "master", bridge, "up")
    _run(
        *("qemu-system-x86_64", "-name", name, "-accel", "tcg,tb-size=64", "-smp", "1"),
        *("-nodefaults", "-display", "none", "-daemonize", "-pidfile", str(folder / f"{name}.pid")),
        *_firmware(folder, name, firmware),
        *("-chardev", f"file,id=log,path={folder}/{name}.log,append=on", "-serial", "chardev:log"),
        *("-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no"),
        # UEFI boots from the network itself, without the ROM of iPXE: it loads iPXE by TFTP.
        *("-device", f"virtio-net-pci,netdev=net,mac={mac},bootindex=1{_NO_ROM[firmware]}"),
        *("-drive", f"file={disk},format=raw,if=none,id=disk"),
        *("-device", f"virtio-blk-pci,drive=disk,serial={name}-disk,bootindex=2"),
        *("-device", "virtio-rng-pci"),
        *("-smbios", f"type=1,manufacturer=Cobweb,product=test machine,serial={name}"),
    )


def _firmware(folder: Path, name: str, firmware: str) -> tuple[str, ...]:
    if firmware == "bios":
        return ("-machine", "pc,usb=off,graphics=off", "-cpu", "Nehalem", "-m", "192")
    variables = folder / f"{name}.vars"
    if not variables.exists():
        shutil.copyfile(_OVMF / "OVMF_VARS_4M.fd", variables)
    code = f"if=pflash,format=raw,readonly=on,file={_OVMF}/OVMF_CODE_4M.fd"
    return (
        *("-machine", "q35,usb=off", "-cpu", "Nehalem", "-m", "512"),
        *("-fw_cfg", "name=opt/org.tianocore/IPv6Support,string=n"),
        *("-drive", code, "-drive", f"if=pflash,format=raw,file={variables}"),
    )


def _run(*command: str) -> None:
    """Run a program; descriptors above 2 are closed, as subprocess does."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
