"""The trampoline: how it is built, and what its script does with the tools that it has itself."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import CobwebError
from cobweb_plugins.metal import trampoline
from cobweb_plugins.metal.trampoline import FILES, build, pack
from tests.plugins.metal.boot_server import CUT, LIMIT_S, MAC, BootServer
from tests.support.needed import lack

INIT = Path(trampoline.__file__).with_name("init")
DISK_BYTES = 1 << 20
IMAGE = b"".join(hashlib.sha256(number.to_bytes(2)).digest() for number in range(8000))
"""Does not shrink when it is packed."""

POWER = """
poweroff() { echo off >"$DEV/power"; kill $$; exit; }
reboot() { echo reset >"$DEV/power"; kill $$; exit; }
"""
"""What the two mean for a script that is no machine."""


class Machine:
    """A machine made of files, whose trampoline has busybox and nothing else."""

    def __init__(self, folder: Path, server: BootServer) -> None:
        program = shutil.which("busybox")
        if program is None:
            lack("busybox (Debian's package busybox-static)")
        self.folder = folder
        self._server = server
        for name in ("bin", "dev", "run"):
            (folder / name).mkdir()
        subprocess.run([program, "--install", "-s", str(folder / "bin")], check=True)
        self.write("proc/cpuinfo", "processor : 0\nx : 1\nprocessor : 1\n")
        self.write("proc/meminfo", "MemTotal:        2097152 kB\nMemFree: 1 kB\n")
        self.card("eth0", MAC)
        self.add_disk("sda", DISK_BYTES)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def card(self, name: str, mac: str) -> None:
        self.write(f"sys/class/net/{name}/address", f"{mac}\n")
        self.write(f"sys/class/net/{name}/device/vendor", "x\n")

    def add_disk(self, name: str, size: int, *, removable: int = 0) -> None:
        self.write(f"sys/block/{name}/size", f"{size // 512}\n")
        self.write(f"sys/block/{name}/removable", f"{removable}\n")
        self.write(f"sys/block/{name}/device/vendor", "x\n")
        (self.folder / "dev" / name).write_bytes(b"\xff" * size)

    def run(self, text: str, *, token: str = "token-1") -> str:  # noqa: S107  # for a test
        """Return what a script writes that has the functions of `init`."""
        given = {"PATH": str(self.folder / "bin"), "server": self._server.url, "token": token}
        for name in ("sys", "proc", "dev", "run"):
            given[name.upper()] = str(self.folder / name)
        done = subprocess.run(
            [str(self.folder / "bin" / "sh"), "-c", f". {INIT}{POWER}{text}"],
            env=given,
            stdout=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
        )
        return done.stdout.decode()

    def disk(self, name: str = "sda") -> bytes:
        return (self.folder / "dev" / name).read_bytes()

    def power(self) -> str:
        file = self.folder / "dev/power"
        return file.read_text().strip() if file.exists() else "on"

    def console(self) -> str:
        return (self.folder / "dev/ttyS0").read_text()


@pytest.fixture
def server() -> Iterator[BootServer]:
    server = BootServer()
    yield server
    server.stop()


@pytest.fixture
def machine(tmp_path: Path, server: BootServer) -> Machine:
    return Machine(tmp_path, server)


def test_hello_says_what_the_machine_is(machine: Machine, server: BootServer) -> None:
    machine.add_disk("nvme0n1", 2 << 20)
    machine.write("sys/block/nvme0n1/device/serial", "S 1\n")
    machine.add_disk("sr0", 4096, removable=1)
    machine.add_disk("sdb", 0)
    machine.write("sys/block/loop0/size", "8\n")
    machine.add_disk("nvme0c1n1", 2 << 20)
    machine.write("sys/block/nvme0c1n1/hidden", "1\n")  # a second path to nvme0n1
    machine.write("sys/block/sda/device/vpd_pg80", "\0\x80\0\x08 AB-12\0")
    machine.card("eth1", "52:54:00:00:00:02")
    machine.write("sys/class/net/lo/address", "00:00:00:00:00:00\n")
    machine.write("sys/class/dmi/id/sys_vendor", 'The "best"\\ Inc.  \n')
    machine.write("sys/class/dmi/id/product_name", "Box 9\n")
    machine.write("sys/class/dmi/id/bios_vendor", "SeaBIOS\n")
    machine.write("sys/class/dmi/id/bios_version", "1.16\n")
    server.order("off")
    machine.run("work")
    assert server.heard("hello") == {
        "cores": 2,
        "memory_mb": 2048,
        "firmware": "BIOS SeaBIOS 1.16",
        "vendor": "The best Inc.",
        "product": "Box 9",
        "disks": [
            {"name": "nvme0n1", "bytes": 2 << 20, "serial": "S 1"},
            {"name": "sda", "bytes": DISK_BYTES, "serial": "AB-12"},
        ],
        "nics": [
            {"name": "eth0", "mac": MAC},
            {"name": "eth1", "mac": "52:54:00:00:00:02"},
        ],
    }
    assert "found: {" in machine.console()


def test_a_machine_that_says_little_of_itself_says_hello_too(machine: Machine) -> None:
    machine.write("sys/firmware/efi/x", "")
    shutil.rmtree(machine.folder / "sys/block/sda")
    hardware = json.loads(machine.run("hardware"))
    assert (hardware["firmware"], hardware["vendor"], hardware["disks"]) == ("UEFI", "", [])


@pytest.mark.parametrize("form", ["gzip", "raw"])
def test_a_disk_is_primed_and_read_back(machine: Machine, server: BootServer, form: str) -> None:
    server.prime(IMAGE, form=form)
    machine.run("carry_out $(ask order '')")
    assert machine.disk() == IMAGE + b"\xff" * (DISK_BYTES - len(IMAGE))
    assert server.heard("priming") == f"{len(IMAGE)} bytes onto sda"
    assert server.heard("image") == "bytes=0-"
    assert server.heard("primed") == hashlib.sha256(IMAGE).hexdigest()


def test_an_image_that_breaks_off_goes_on_where_it_was(
    machine: Machine, server: BootServer
) -> None:
    server.on_cut = lambda: None
    server.prime(IMAGE)
    machine.run("carry_out $(ask order '')")
    server.heard("priming")
    assert server.heard("image") == "bytes=0-"
    assert server.heard("image") == f"bytes={CUT}-"
    assert server.heard("primed") == hashlib.sha256(IMAGE).hexdigest()
    assert f"stopped at byte {CUT}" in machine.console()


PACKED = gzip.compress(IMAGE, mtime=0)


@pytest.mark.parametrize(
    ("form", "stored", "text"),
    [
        ("gzip", PACKED[:-100], "gunzip: "),
        ("gzip", PACKED[:50_000] + bytes(1000) + PACKED[51_000:], "gunzip: "),
        ("gzip", b"no gzip", "gunzip: "),
        ("gzip", b"", "gunzip: "),
        ("gzip", gzip.compress(IMAGE[:-1], mtime=0), "the disk has sha256 "),
        ("raw", IMAGE[:-1], "the disk has sha256 "),
        ("raw", b"", "the disk has sha256 "),
    ],
)
def test_what_is_no_good_image_is_told(
    machine: Machine, server: BootServer, form: str, stored: bytes, text: str
) -> None:
    server.prime(IMAGE, form=form, stored=stored)
    machine.run("carry_out $(ask order '')")
    server.heard("priming")
    server.heard("image")
    assert server.heard("failed").startswith(text)


ODD_BYTES = DISK_BYTES + 512
"""No whole blocks of `dd`."""

DISCARDS = {
    "forgets": 'dd if=/dev/zero of="$1" bs=512 count=2049 2>/dev/null',
    "keeps all": ":",
    "keeps the end": f'head -c {ODD_BYTES - 1} /dev/zero >"$1" && echo >>"$1"',
    "cannot": "echo no such ioctl >&2; false",
}
"""What `blkdiscard` does to a disk."""


@pytest.mark.parametrize(
    ("wipe", "discard"), [("zero", "cannot"), *(("discard", it) for it in DISCARDS)]
)
def test_all_disks_have_zeros_only_before_the_image_is_written(
    machine: Machine, server: BootServer, wipe: str, discard: str
) -> None:
    machine.add_disk("sda", ODD_BYTES)
    machine.add_disk("sdb", ODD_BYTES)
    machine.add_disk("sr0", 4096, removable=1)
    server.prime(IMAGE, wipe=wipe)
    machine.run(f"blkdiscard() {{ {DISCARDS[discard]}; }}; set -f; carry_out $(ask order '')")
    assert server.heard("priming") == f"wiping sda sdb ({wipe})"
    assert server.heard("priming") == f"{len(IMAGE)} bytes onto sda"
    server.heard("image")
    server.heard("primed")
    assert machine.disk() == IMAGE + bytes(ODD_BYTES - len(IMAGE))
    assert machine.disk("sdb") == bytes(ODD_BYTES)
    assert machine.disk("sr0") == b"\xff" * 4096
    zeros = "" if (wipe, discard) == ("discard", "forgets") else "writes zeros onto sdb"
    assert zeros in machine.console()
    assert bool(zeros) == ("writes zeros" in machine.console())


@pytest.mark.parametrize(
    ("target", "cause"),
    [("/dev/full", "No space left"), ("/", "Is a directory"), ("/none", "there is no ")],
)
@pytest.mark.parametrize("wipe", ["zero", "discard"])
def test_without_all_disks_wiped_nothing_is_primed(
    machine: Machine, server: BootServer, target: str, cause: str, wipe: str
) -> None:
    machine.add_disk("sdb", DISK_BYTES)
    (machine.folder / "dev/sdb").unlink()
    (machine.folder / "dev/sdb").symlink_to(target)
    server.prime(IMAGE, wipe=wipe)
    # A disk that cannot be read is not one that has zeros.
    discard = 'blkdiscard() { [ -d "$1" ]; }'
    machine.run(f"{discard}; carry_out $(ask order '')")
    server.heard("priming")
    said = server.heard("failed")
    assert said.startswith("not wiped: ")
    assert cause in said
    assert machine.disk() == bytes(DISK_BYTES)


@pytest.mark.parametrize(("name", "size"), [("sdb", 1), ("sda", DISK_BYTES + 1)])
def test_a_disk_without_room_is_left_alone(
    machine: Machine, server: BootServer, name: str, size: int
) -> None:
    machine.run(f"carry_out prime {'0' * 64} {size} raw {name} zero")
    assert server.heard("failed") == f"there is no disk {name} that has room for {size} bytes"
    assert machine.disk() == b"\xff" * DISK_BYTES


def test_an_image_that_does_not_end_is_told(machine: Machine, server: BootServer) -> None:
    (machine.folder / "dev/sda").unlink()
    (machine.folder / "dev/sda").symlink_to("/dev/full")
    server.prime(IMAGE)
    machine.run("carry_out $(ask order '')")
    server.heard("priming")
    server.heard("image")
    assert "No space left" in server.heard("failed")


@pytest.mark.parametrize(("order", "power"), [("boot", "reset"), ("off", "off")])
def test_orders_end_what_runs(machine: Machine, server: BootServer, order: str, power: str) -> None:
    server.order(order)
    machine.run("work")
    assert machine.power() == power


@pytest.mark.parametrize(
    "text",
    [
        "work",
        "carry_out $(ask order '')",
        f"carry_out prime {'0' * 64} 1 raw sda discard",
        "stream | cat >/dev/null",
        "word primed x",
    ],
)
def test_a_boot_that_is_over_switches_off(machine: Machine, text: str) -> None:
    machine.run(text, token="old")  # noqa: S106  # for a test
    assert machine.power() == "off"
    assert "the boot server has ended this boot" in machine.console()


@pytest.mark.parametrize("order", ["", "prime", "prime x y", "reboot", "*", "wait now", "-h"])
def test_no_order_is_no_order(machine: Machine, order: str) -> None:
    assert machine.run(f"set -f; carry_out {order}; echo done") == "done\n"
    assert machine.power() == "on"
    assert machine.disk() == b"\xff" * DISK_BYTES


def test_what_gets_no_answer_is_said_until_there_is_one(
    machine: Machine, server: BootServer
) -> None:
    server.stop()
    naps = f"""
    sleep() {{
      echo "$1"
      [ "$1" != 2 ] || server={server.url}
    }}
    server=http://127.0.0.1:9 ask word '&word=failed' text
    """
    restarted = BootServer()
    try:
        naps = naps.replace(server.url, restarted.url)
        assert machine.run(naps).split() == ["0.2", "0.4", "0.8", "1.6", "2"]
        assert restarted.heard("failed") == "text"
    finally:
        restarted.stop()
        server.restart()
    assert "no answer to word from http://127.0.0.1:9: " in machine.console()


@pytest.mark.parametrize(
    ("mac", "found"),
    [(MAC, "eth0"), ("52:54:00:00:00:02", "eth9"), ("52:54:00:00:00:03", "none")],
)
def test_the_card_is_the_one_with_the_mac(machine: Machine, mac: str, found: str) -> None:
    machine.write("sys/class/net/br0/address", "52:54:00:00:00:02\n")  # no hardware
    machine.card("eth9", "52:54:00:00:00:02")
    assert machine.run(f"card {mac} || echo none").split() == [found]


def test_the_command_line_says_where_the_server_is(machine: Machine) -> None:
    machine.write("proc/cmdline", "quiet cobweb.server=http://a:1 xcobweb.server=b cobweb.mac=c\n")
    assert machine.run("option server; option mac; option token") == "http://a:1\nc\n"


# How it is built.


def test_the_same_tree_makes_the_same_archive(tmp_path: Path) -> None:
    def tree(name: str, order: Callable[[list[str]], list[str]], umask: int, when: int) -> bytes:
        root = tmp_path / name
        old = os.umask(umask)
        try:
            for path in order(["a/b/one", "a/two", "c", "program"]):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(path)
                (root / path).chmod(0o777 & ~umask if path == "program" else 0o666 & ~umask)
                os.utime(root / path, (when, when))
            pack(root, tmp_path / f"{name}.xz")
        finally:
            os.umask(old)
        return (tmp_path / f"{name}.xz").read_bytes()

    first = tree("first", sorted, 0o022, 1)
    assert tree("second", lambda it: it[::-1], 0o077, 2_000_000_000) == first
    listed = _listing(first, tmp_path)
    assert listed == ["a", "a/b", "a/b/one", "a/two", "c", "program"]
    assert (tmp_path / "unpacked/a/b/one").read_text() == "a/b/one"
    assert (tmp_path / "unpacked/program").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "unpacked/c").stat().st_mode & 0o777 == 0o644


def _listing(archive: bytes, folder: Path) -> list[str]:
    """Unpack an archive by a program of others, and return the names in it."""
    (folder / "unpacked").mkdir()
    program = shutil.which("busybox") or lack("busybox (Debian's package busybox-static)")
    plain = subprocess.run(["xz", "-dc"], input=archive, capture_output=True, check=True).stdout
    command = [program, "cpio", "-i", "-d", "-v"]
    done = subprocess.run(
        command, input=plain, capture_output=True, check=True, cwd=folder / "unpacked"
    )
    return [it for it in (done.stdout + done.stderr).decode().split("\n") if it and " " not in it]


def test_what_is_missing_is_told_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CobwebError, match=r"needs apt-get, .*xz") as caught:
        build(tmp_path / "out")
    assert "apt install apt " in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_build_that_fails_leaves_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "apt-get"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'E: no network today' >&2\nexit 100\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    out = tmp_path / "out"
    out.mkdir()
    for name in FILES:
        (out / name).write_text("older")
    with pytest.raises(CobwebError, match="E: no network today") as caught:
        build(out)
    assert "apt-get update" in caught.value.hint
    assert sorted(it.name for it in out.iterdir()) == sorted(FILES)
    assert (out / "vmlinuz").read_text() == "older"


@pytest.mark.full("it downloads packages of Debian and unpacks a kernel twice")
def test_the_same_packages_make_the_same_trampoline(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    outs = [tmp_path / "one", tmp_path / "two"]
    command = ("metal", "build-trampoline", "--kernel", "linux-image-cloud-amd64", "-o", "json")
    first, second = (json.loads(run(*command, "--out", str(out)).out) for out in outs)
    assert first["digest"] == second["digest"]
    whole = hashlib.sha256(b"".join((outs[0] / name).read_bytes() for name in FILES))
    assert first["digest"] == whole.hexdigest()
    for out in outs:
        written = json.loads((out / "trampoline.json").read_text())
        assert written["digest"] == first["digest"]
        assert {it.name for it in out.iterdir()} == {*FILES, "trampoline.json"}
        assert {it.stat().st_mode & 0o777 for it in out.iterdir()} == {0o644}
