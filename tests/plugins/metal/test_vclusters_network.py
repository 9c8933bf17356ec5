"""Virtual clusters on a network, from outside: names in DNS, and nodes that SSH gets onto."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from cobweb_plugins.metal.simulated import two_writers
from tests.plugins.metal.network import Namespace, Network, NetworkSite, need_network

pytestmark = [pytest.mark.netns, pytest.mark.timeout(300)]

DOMAIN = "shop.cod.test"
SUBNET = "10.72.0.16/28"


@pytest.fixture
def network() -> Iterator[Network]:
    """Return a network, of which nothing is left in the end."""
    need_network()
    made = Network()
    yield made
    made.end()


@pytest.fixture
def live(tmp_path: Path, network: Network) -> Iterator[NetworkSite]:
    """Return a site with two machines that are pinned to nothing, and all servers."""
    made = NetworkSite(tmp_path, network, machines=2)
    made.free()
    nodes = [{"template": "shop", "count": 2}]
    made.metal["vclusters"] = {"shop": {"nodes": nodes, "domain": DOMAIN, "subnet": SUBNET}}
    made.write()
    ran(made, "apply", "--yes")
    yield made
    made.end()


def ran(live: NetworkSite, *words: str) -> str:
    """Run a command of the site, which must end well; return what it said."""
    done = live.ran(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def nodes(live: NetworkSite) -> dict[str, dict[str, Any]]:
    """Return the nodes of all virtual clusters by name."""
    known = json.loads(ran(live, "vcluster", "list", "-o", "json"))["vclusters"]
    return {node["host"]: node for it in known for node in it["nodes"]}


@pytest.mark.gate("names of nodes, as the real DNS server says them")
def test_nodes_have_names_in_their_domain_until_they_go(live: NetworkSite) -> None:
    ran(live, "vcluster", "create", "shop", "--yes")
    found = nodes(live)
    assert {host: it["address"] for host, it in found.items()} == {
        "shop-1": "10.72.0.17",
        "shop-2": "10.72.0.18",
    }
    for host, it in found.items():
        assert live.named(host, DOMAIN) == [it["address"]]
        assert live.names_of(it["address"]) == [f"{host}.{DOMAIN}"]
        assert live.lease(live.hosts[it["machine"]]) == (it["address"], host)
        assert heard(live, it["address"]).startswith(f"Hello from {host}.")
    ran(live, "vcluster", "resize", "shop", "--count", "1", "--yes")
    assert live.named("shop-1", DOMAIN) == ["10.72.0.17"]
    assert live.named("shop-2", DOMAIN) == []
    assert f"shop-2.{DOMAIN}" not in live.names_of("10.72.0.18")
    ran(live, "vcluster", "release", "shop", "--yes")
    assert live.named("shop-1", DOMAIN) == []
    assert f"shop-1.{DOMAIN}" not in live.names_of("10.72.0.17")
    assert {live.switch(it, "status") for it in live.names} == {"off"}
    assert two_writers(live.ledger) == []


def heard(live: NetworkSite, address: str) -> str:
    """Return what is served at an address, "" for nothing."""
    wget = ("timeout", "5", "busybox", "wget", "-q", "-O", "-", f"http://{address}:8080/")
    return live.network.boot_host.ran(*wget).stdout


# Nodes that SSH gets onto.

SSHD = """
set -e
: >{folder}/hostname
mount --bind {folder}/hostname /etc/hostname
for it in /root /run /var/lib; do mount -t tmpfs none $it; done
mkdir /run/sshd
hostname unnamed
exec /usr/sbin/sshd -D -f {folder}/sshd_config
"""
"""What the bootstrap of a node changes is this machine's own, and here a copy."""

CONFIG = """
HostKey {folder}/host
AuthorizedKeysFile {folder}/login.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""


def new_key(path: Path) -> str:
    """Make a key; return its public part."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(words, check=True)
    return path.with_suffix(".pub").read_text().strip()


def start_sshd(host: Namespace, folder: Path) -> subprocess.Popen[bytes]:
    """Start what answers SSH for the system of a machine, with a name and files of its own."""
    (folder / "sshd_config").write_text(CONFIG.format(folder=folder))
    script = SSHD.format(folder=folder)
    return host.start("unshare", "--uts", "--mount", "sh", "-c", script)


def inside(sshd: subprocess.Popen[bytes], *words: str) -> str:
    """Return what a command says among the files of the system."""
    enter = ["nsenter", "-t", str(sshd.pid), "--mount", "--uts", "--", *words]
    return subprocess.run(enter, check=False, capture_output=True, text=True).stdout


@pytest.mark.gate("a node that gets its name, and has objects of the site on it until it goes")
def test_objects_are_on_nodes_by_ssh_until_they_go(live: NetworkSite, tmp_path: Path) -> None:
    own = gethostname(), Path("/etc/hostname").read_text()
    folder = tmp_path / "system"
    folder.mkdir()
    host_key, _ = new_key(folder / "host"), new_key(folder / "login")
    login = {"user": "root", "key": str(folder / "login")}
    live.metal["templates"]["shop"] |= {"login": login, "ready": {"tcp": 22}}
    live.metal["vclusters"]["shop"]["nodes"] = [{"template": "shop", "count": 1}]
    write_notes(live, "note")
    sshd = start_sshd(live.hosts["m01"], folder)
    seen = at_power_off(live, f"ls /proc/{sshd.pid}/root/var/lib")
    ran(live, "vcluster", "create", "shop", "--yes")
    (node,) = nodes(live).values()
    assert (node["machine"], node["ready"], node["node_state"]) == ("m01", True, "bootstrapped")
    assert inside(sshd, "hostname") == "shop-1\n"
    assert inside(sshd, "cat", "/etc/hostname") == "shop-1\n"
    assert inside(sshd, "cat", "/var/lib/note") == "of m01\n"
    known = (live.server / "known_hosts").read_text()
    assert known == f"shop-1,10.72.0.17,shop-1.cod.test,shop-1.{DOMAIN} {host_key}\n"
    check_ssh(live, node["address"], folder / "login")
    begun = live.history()
    write_notes(live, "note", "late")
    ran(live, "apply", "--yes")
    assert inside(sshd, "cat", "/var/lib/late") == "of m01\n"
    assert live.history() == begun
    seen.write_text("note late")
    ran(live, "vcluster", "release", "shop", "--yes")
    assert {"note", "late"}.intersection(seen.read_text().split()) == set()
    assert (nodes(live), live.switch("m01", "status")) == ({}, "off")
    assert (gethostname(), Path("/etc/hostname").read_text()) == own


def write_notes(live: NetworkSite, *names: str) -> None:
    """Have these files on all nodes."""
    live.data["cobs"] = {
        name: {
            "type": "file",
            "on": "vcluster_shop",
            "machine": "node",
            "requires": ["node"],
            "spec": {"path": f"/var/lib/{name}", "content": "of {{ vcluster.machine }}\n"},
        }
        for name in names
    }
    live.write()


def check_ssh(live: NetworkSite, address: str, key: Path) -> None:
    """Check that a node is reached as Ansible reaches it, by the host key that is pinned."""
    known = f"GlobalKnownHostsFile={live.server}/known_hosts"
    options = ("BatchMode=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=none", known)
    words = [word for it in options for word in ("-o", it)]
    done = live.network.boot_host.ran(
        "ssh", "-F", "none", "-i", key, *words, f"root@{address}", "hostname"
    )
    assert (done.returncode, done.stdout) == (0, "shop-1\n"), done.stderr


def at_power_off(live: NetworkSite, command: str) -> Path:
    """Have a command run just before m01 is switched off; return the file of what it says."""
    seen = live.folder / "at-off"
    switch = f'test "$0" != off || {command} >{seen}; exec "$@"'
    words = ["sh", "-c", switch, "{action}", *live.plug_command(live.hosts["m01"])]
    live.metal["machines"]["m01"]["power"]["command"] = words
    live.write()
    return seen
