"""A site whose machines boot over a network: namespaces, a bridge, the real dnsmasq.

The boot host and each machine have a network namespace of their own. A namespace lives as long as
the process that holds it, and that ends with the test run, however that ends.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from tests.plugins.metal.live import PORT, LiveSite, kill, until
from tests.support.fabric import in_namespace
from tests.support.needed import lack

COBWEB = Path(sys.executable).with_name("cobweb")
BRIDGE, ADDRESS, DOMAIN = "br0", "10.72.0.1", "cod.test"
CARD = "eth0"

_PROGRAMS = ("busybox", "dnsmasq", "ip", "nsenter", "unshare")
_LIMIT_S = 100


def need_network() -> None:
    """Skip where this machine cannot have networks of its own, and say what it lacks."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        lack(f"not installed: {', '.join(missing)}; run .ci/install-system as root")
    if os.geteuid() != 0:
        lack("networks need root; run the tests as root")


class Namespace:
    """A network namespace, with the loopback interface up."""

    def __init__(self) -> None:
        holder = "ip link set lo up && echo && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--", "sh", "-c", holder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"\n"
        self.pid = self._holder.pid
        self._started: list[subprocess.Popen[bytes]] = []

    def inside(self, *words: str | Path) -> list[str]:
        """Return a command that runs another one in here."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *map(str, words)]

    def ran(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command in here; return what came of it."""
        return subprocess.run(
            self.inside(*words), check=False, capture_output=True, text=True, timeout=_LIMIT_S
        )

    def do(self, words: str) -> None:
        """Run a command in here, which must succeed."""
        done = self.ran(*words.split())
        assert done.returncode == 0, f"{words}: {done.stderr}"

    def start(self, *words: str | Path) -> subprocess.Popen[bytes]:
        """Start a command in here; it ends with the namespace."""
        none = subprocess.DEVNULL
        self._started.append(subprocess.Popen(self.inside(*words), stdout=none, stderr=none))
        return self._started[-1]

    def end(self) -> None:
        """End all that runs in here, and the namespace."""
        inode = Path(f"/proc/{self.pid}/ns/net").stat().st_ino

        def is_empty() -> bool:
            found = {int(it.name) for it in in_namespace("net", inode)} - {self.pid}
            kill(*found)
            return not found

        until(is_empty)
        for each in self._started:
            each.wait()
        self._holder.communicate()


class Network:
    """A bridge in the namespace of the boot host, which others are plugged into."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.boot_host = Namespace()
        self.others: list[Namespace] = []
        self.boot_host.do(f"ip link add {BRIDGE} type bridge")
        self.boot_host.do(f"ip address add {ADDRESS}/24 dev {BRIDGE}")
        self.boot_host.do(f"ip link set {BRIDGE} up")

    def plug(self, mac: str) -> Namespace:
        """Return a new namespace whose only card has this MAC; its link is down."""
        made = Namespace()
        self.others.append(made)
        port = f"port{next(self._numbers)}"
        card = f"{CARD} address {mac} netns {made.pid}"
        self.boot_host.do(f"ip link add {port} type veth peer name {card}")
        self.boot_host.do(f"ip link set {port} master {BRIDGE} up")
        return made

    def end(self) -> None:
        """End all that runs in it, and remove it."""
        for each in (*self.others, self.boot_host):
            each.end()


class NetworkSite(LiveSite):
    """The example on a network, with machines m01, m02, ..."""

    def __init__(self, base: Path, network: Network, *, machines: int = 2) -> None:
        super().__init__(base, machines=machines)
        self.network = network
        said = {"interface": BRIDGE, "address": f"{ADDRESS}/24", "domain": DOMAIN}
        self.metal["network"] = said
        self.hosts = {name: network.plug(mac) for name, mac in self.macs.items()}
        for number, name in enumerate(self.names, 11):
            self.metal["machines"][name] |= {
                "address": f"10.72.0.{number}",
                "power": {"kind": "command", "command": self.plug_command(self.hosts[name])},
            }
        for name in ("vmlinuz", "initrd.gz"):
            file = self.server / "trampoline" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(name.encode())
        # As one that was killed leaves it: dnsmasq starts at once, and asks for no other server.
        pid = self.server / "dhcp" / "pid"
        pid.parent.mkdir()
        pid.touch()
        self.write()

    def plug_command(self, host: Namespace) -> Sequence[str]:
        """Return the power command of a machine that has a namespace."""
        words = ("{name}", "{action}", "--server={server}", "--mac={mac}", f"--interface={CARD}")
        return host.inside(COBWEB, "metal", "simulate", *words, f"--folder={self.machines}")

    # --- what is said

    def ran(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Cobweb on the boot host; return what came of it."""
        return self.network.boot_host.ran(COBWEB, "-C", self.folder, *words)

    def view(self, name: str) -> dict[str, Any]:
        """Return what the boot server knows of a machine."""
        said = self.ran("metal", "show", name, "-o", "json")
        assert said.returncode == 0, said.stderr
        (view,) = json.loads(said.stdout)["machines"]
        return dict(view)

    # --- what is seen from outside

    def switch(self, name: str, action: str) -> str:
        """Switch a machine as a person at it does."""
        values = {"name": name, "action": action, "server": self.url, "mac": self.macs[name]}
        words = [it.format_map(values) for it in self.plug_command(self.hosts[name])]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    def answer(self, name: str) -> str:
        """Return what is served at the address that a machine is to have, "" for nothing."""
        url = f"http://{self.metal['machines'][name]['address']}:{PORT}/"
        wget = ("timeout", "5", "busybox", "wget", "-q", "-O", "-", url)
        return self.network.boot_host.ran(*wget).stdout

    def named(self, name: str, domain: str = DOMAIN) -> list[str]:
        """Return the addresses that the DNS server of the boot host knows of a name."""
        said = self.network.boot_host.ran("busybox", "nslookup", f"{name}.{domain}", ADDRESS)
        return re.findall(r"^Address: ([\d.]+)$", said.stdout, re.MULTILINE)

    def names_of(self, address: str) -> list[str]:
        """Return the names that it knows of an address."""
        said = self.network.boot_host.ran("busybox", "nslookup", address, ADDRESS)
        return re.findall(r"name = (\S+)$", said.stdout, re.MULTILINE)

    def lease(self, host: Namespace) -> tuple[str, str] | None:
        """Ask DHCP who a card is, as a system that renews: address and name, None for nobody."""
        script = self.folder / "said"
        script.write_text('#!/bin/sh\n[ "$1" = bound ] && echo "$ip ${hostname:--}"; exit 0\n')
        script.chmod(0o755)
        client = f"timeout 10 busybox udhcpc -f -q -n -t 2 -T 1 -i {CARD} -s"
        found = host.ran(*client.split(), script).stdout.split()
        return (found[0], found[1]) if found else None

    def dhcp_pid(self) -> int:
        """Return the pid of dnsmasq."""
        return int((self.server / "dhcp" / "pid").read_text())
