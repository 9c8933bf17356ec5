"""Two machines of QEMU, BIOS and UEFI, for real: DHCP, iPXE, trampoline, disk, and a site's apply.

All of it is in a namespace of its own for networks and for processes: what runs ends with it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb_plugins.metal.trampoline import build
from tests.plugins.metal.disk_image import make_disk_image
from tests.support.needed import lack

pytestmark = [
    pytest.mark.full("machines of QEMU take minutes; their parts are in the gate"),
    pytest.mark.timeout(1200),
]

ROOT = Path(__file__).resolve().parents[3]
MACHINES = {"m01": ("52:54:00:72:00:01", "bios"), "m02": ("52:54:00:72:00:02", "uefi")}
PROGRAMS = (
    *("busybox", "dnsmasq", "mcopy", "mkfs.vfat", "qemu-system-x86_64", "syslinux", "unshare"),
    *("depmod", "dpkg-deb", "xz", "nsenter", "ip"),
)
FILES = (
    "/usr/lib/ipxe/ipxe.efi",
    "/usr/share/OVMF/OVMF_CODE_4M.fd",
    "/usr/lib/systemd/boot/efi/systemd-bootx64.efi",
)
LIMIT_S = 900

NETWORK = """
set -e
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
ip address add 10.72.0.1/24 dev br0
ip -6 address add fd72::1/64 dev br0 nodad
echo ready
# Whoever has lost his parent becomes a child of this process, and is waited for.
while :; do sleep 3600 & wait; done
"""


class World:
    """A namespace with a bridge `br0`, and a site in it; `processes` run there as root."""

    def __init__(self, folder: Path, trampoline: Path) -> None:
        self.folder = folder
        self.site = folder / "site"
        self._trampoline = trampoline
        (self.site / "images").mkdir(parents=True)
        shutil.copytree(trampoline, self.site / ".cobweb" / "metal" / "trampoline")
        (self.site / ".cobweb" / "metal").chmod(0o700)
        kinds = ("--net", "--pid", "--fork", "--mount-proc", "--kill-child")
        self._keeper = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "unshare", *kinds, "sh", "-c", NETWORK],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children")
        self._first = int(children.read_text(encoding="ascii"))
        self.data = self._data()

    def end(self) -> None:
        """End all that runs in the namespace; return when it is gone."""
        with self._keeper:  # closes its pipe, and waits
            os.kill(self._first, signal.SIGKILL)

    def run(self, *command: str, check: bool = True) -> str:
        """Return what a program in the namespace writes."""
        done = subprocess.run(
            ["nsenter", f"--target={self._first}", "--net", "--pid", "--mount", *command],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            cwd=self.folder,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr + self.consoles()
        return done.stdout

    def cobweb(self, *words: str) -> str:
        return self.run(sys.executable, "-m", "cobweb", "-C", str(self.site), *words)

    def machine(self, name: str) -> dict[str, Any]:
        """Return what the boot server knows of a machine."""
        answer = json.loads(self.cobweb("metal", "show", name, "-o", "json"))
        found: dict[str, Any] = answer["machines"][0]
        return found

    def power(self, name: str) -> str:
        *command, action = self.switch(name, "status")
        return self.run(*command, action).strip()

    def switch(self, name: str, action: str) -> list[str]:
        mac, firmware = MACHINES[name]
        program = [sys.executable, "-P", str(ROOT / "tests/support/qemu_machine.py"), name]
        settings = [f"--folder={self.folder}/machines", f"--mac={mac}", f"--firmware={firmware}"]
        return [*program, *settings, action]

    def page(self, address: str) -> dict[str, str]:
        """Return what the system at an address says of itself."""
        text = self.run("busybox", "wget", "-q", "-O", "-", f"http://{address}/")
        return dict(part.split("=", 1) for part in text.split())

    def resolve(self, name: str) -> str:
        """Return what the DNS server of the network says of a name."""
        return self.run("busybox", "nslookup", "-type=a", name, "10.72.0.1", check=False)

    def store(self, image: str, text: str) -> None:
        """Make an image of a text."""
        raw = self.folder / f"{image}.img"
        make_disk_image(raw, self._trampoline, text)
        content = raw.read_bytes()
        raw.unlink()
        (self.site / "images" / f"{image}.gz").write_bytes(gzip.compress(content, 1, mtime=0))
        self.data["metal"]["images"][image] = {
            "file": f"images/{image}.gz",
            "sha256": hashlib.sha256(content).hexdigest(),
        }

    def use(self, name: str, template: str, system: str, address: str) -> None:
        """Want a system on a machine; none where `template` is empty."""
        mac, _ = MACHINES[name]
        power = {"kind": "command", "command": self.switch(name, "{action}")}
        said: dict[str, Any] = {"mac": mac, "power": power}
        if template:
            said |= {"template": template, "name": system, "address": address}
        self.data["metal"]["machines"][name] = said

    def apply(self) -> str:
        (self.site / "site.yml").write_text(yaml.safe_dump(self.data), encoding="utf-8")
        return self.cobweb("apply", "--yes")

    def consoles(self) -> str:
        """Return the last words of all machines."""
        logs = sorted((self.folder / "machines").glob("*.log"))
        return "".join(f"\n== {it.name}\n{it.read_text(errors='replace')[-3000:]}" for it in logs)

    @staticmethod
    def _data() -> dict[str, Any]:
        network = {"interface": "br0", "address": "10.72.0.1/24", "domain": "cod.test"}
        ready = {"tcp": 80}
        templates = {it: {"image": it, "ready": ready} for it in ("first", "second")}
        metal = {"network": network, "images": {}, "templates": templates, "machines": {}}
        return {"cobweb": 1, "name": "machines", "metal": metal}


@pytest.fixture(scope="module")
def trampoline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the trampoline, with the kernel for virtual machines."""
    out = tmp_path_factory.mktemp("trampoline")
    build(out, "linux-image-cloud-amd64")
    return out


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [it for it in PROGRAMS if shutil.which(it, path=path) is None]
    missing += [it for it in FILES if not Path(it).exists()]
    if os.geteuid() or missing:
        lack(f"not root, or not there: {', '.join(missing)}; run .ci/install-system as root")
    world = World(tmp_path, request.getfixturevalue("trampoline"))
    yield world
    world.end()


def test_machines_go_through_their_whole_life(world: World) -> None:
    """Off, trampoline, primed, active, another image, off, and active from what was primed."""
    world.store("first", "one")
    world.store("second", "two")
    world.use("m01", "first", "web1", "10.72.0.11")
    world.use("m02", "first", "web2", "10.72.0.12")
    world.apply()
    for number in (1, 2):
        address = f"10.72.0.1{number}"
        expected = {"name": f"web{number}", "address": address, "boots": "1", "text": "one"}
        assert world.page(address) == expected
        assert address in world.resolve(f"web{number}.cod.test")
    hardware = world.machine("m02")["hardware"]
    assert hardware["firmware"].startswith("UEFI ")
    assert [it["serial"] for it in hardware["disks"]] == ["m02-disk"]
    assert [it["mac"] for it in hardware["nics"]] == [MACHINES["m02"][0]]

    world.use("m01", "second", "web1", "10.72.0.11")
    world.use("m02", "", "", "")
    world.apply()
    assert world.page("10.72.0.11") == {
        "name": "web1",
        "address": "10.72.0.11",
        "boots": "1",
        "text": "two",
    }
    assert world.power("m02") == "off"

    # The disk still has the first image, so it is booted and not written.
    world.use("m02", "first", "web3", "10.72.0.13")
    world.apply()
    assert world.page("10.72.0.13") == {
        "name": "web3",
        "address": "10.72.0.13",
        "boots": "2",
        "text": "one",
    }
    console = (world.folder / "machines/m02.log").read_text(errors="replace")
    assert console.count("cobweb: priming") == 1
