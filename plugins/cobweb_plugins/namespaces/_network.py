"""The network of the machines: a bridge on this machine, and a cable from it to each of them."""

from __future__ import annotations

import ipaddress
import json
import shutil
import socket
import subprocess

from cobweb.errors import ProviderError

_CONNECT_S = 1.0
_BANNER = b"SSH-"


def run_ip(*commands: str) -> None:
    """Carry out commands of `ip` in one go; CalledProcessError where one fails."""
    text = "".join(f"{command}\n" for command in commands)
    subprocess.run([_ip(), "-batch", "-"], input=text, text=True, check=True, capture_output=True)


def ensure_bridge(bridge: str, network: ipaddress.IPv4Network) -> None:
    """Make the bridge where there is none; ProviderError where its addresses are in use."""
    for interface in json.loads(_said("-json", "-4", "address")):
        for it in interface["addr_info"]:
            if interface["ifname"] == bridge:
                return
            if ipaddress.IPv4Address(it["local"]) in network:
                raise ProviderError(
                    f"{network} cannot be the machines' network: {interface['ifname']} of this"
                    f" machine has {it['local']}",
                    hint="give the provider another `network`",
                )
    run_ip(
        f"link add {bridge} type bridge forward_delay 0 stp_state 0 mcast_snooping 0",
        f"addr add {network[1]}/{network.prefixlen} brd + dev {bridge}",
        f"link set {bridge} up",
    )


def drop_bridge(bridge: str) -> None:
    """Take the bridge away; harmless where there is none."""
    if _there(bridge):
        run_ip(f"link del {bridge}")


def connect(port: str, bridge: str, pid: int) -> None:
    """Lay a cable from the bridge to `eth0` of a process's network."""
    run_ip(
        f"link add {port} type veth peer name eth0 netns {pid}",
        f"link set {port} master {bridge} up",
    )


def cut(port: str) -> None:
    """Take a cable away; the kernel does so too when the network at its other end goes."""
    if _there(port):
        subprocess.run([_ip(), "link", "del", port], check=False, capture_output=True)


def says_ssh(address: str) -> bool:
    """Say whether an SSH server answers."""
    try:
        with socket.create_connection((address, 22), _CONNECT_S) as connection:
            return connection.recv(len(_BANNER)) == _BANNER
    except OSError:
        return False


def _there(interface: str) -> bool:
    done = subprocess.run(
        [_ip(), "link", "show", "dev", interface], check=False, capture_output=True
    )
    return done.returncode == 0


def _said(*arguments: str) -> str:
    done = subprocess.run([_ip(), *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def _ip() -> str:
    return shutil.which("ip") or "/usr/sbin/ip"
