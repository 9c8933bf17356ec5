"""The DHCP server of a network: it looks whether there is another one, and becomes dnsmasq.

dnsmasq gives addresses and names to those machines that the boot server has told it of, sends their
firmware to the boot server, and answers for their names. It is not authoritative: to what it does
not know it says nothing.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import struct
import sys
import time
from pathlib import Path
from typing import NoReturn

from cobweb.errors import CobwebError
from cobweb_plugins.metal._network import Network
from cobweb_plugins.metal.server._network import DOMAINS, FOLDER, HOSTS, LEASE_S, LEASES, NAMES, PID

_LISTEN_S = 4.0
"""How long answers of other servers are awaited: some try for 3 s whether an address is free."""

_AGAIN_S = 1.5
_SERVER_PORT, _CLIENT_PORT = 67, 68
_TFTP, _SCRIPT_NAME = "tftp", "boot.ipxe"
_FIRMWARE = ("undionly.kpxe", "ipxe.efi")
_IPXE = "/usr/lib/ipxe"
"""Where Debian's package `ipxe` has what firmware loads that is no iPXE itself."""

_SCRIPT = """\
#!ipxe
:again
chain --replace {url}/boot?mac=${{netX/mac}} ||
echo cobweb: the boot server does not answer ||
sleep 2 ||
goto again
"""
"""What each firmware gets: it asks until the boot server answers.

If it had to ask that at once it would go on to its disk while the server is away for a moment; who
has answered DHCP hands this out as well.
"""

_COOKIE = b"\x63\x82\x53\x63"
_DISCOVER = b"\x35\x01\x01"
_LONGEST = 4096


def become_dnsmasq(network: Network, folder: Path, url: str) -> NoReturn:
    """Become the DHCP server of a network, for the boot server at `url` that has the folder.

    CobwebError where the network is not there, or has a DHCP server already.
    """
    program = shutil.which("dnsmasq") or shutil.which("dnsmasq", path="/usr/sbin:/sbin")
    if program is None:
        hint = "install it on the boot server's host: Debian's package `dnsmasq-base`"
        raise CobwebError("the program dnsmasq is missing", hint=hint)
    home = folder / FOLDER
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (HOSTS, NAMES, DOMAINS):
        (home / name).touch()
    # One that was killed leaves its pid: it was alone, and machines wait for it.
    if not (home / PID).exists() and (found := _others(network)):
        message = f"{', '.join(found)} gives out addresses at {network.interface} as well"
        hint = "end it there, or give machines a network of their own: two would contradict"
        raise CobwebError(message, hint=hint)
    _write_files(home / _TFTP, url)
    os.execv(program, [program, *_arguments(network, home)])  # noqa: S606 - it takes our pid


def _write_files(folder: Path, url: str) -> None:
    """Lay out what dnsmasq hands out; as root it does so with what all may read."""
    folder.mkdir(exist_ok=True)
    (folder / _SCRIPT_NAME).write_text(_SCRIPT.format(url=url), encoding="ascii")
    (folder / _SCRIPT_NAME).chmod(0o644)
    for name in _FIRMWARE:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(Path(_IPXE) / name)
        if not (folder / name).exists():
            sys.stderr.write(f"no {_IPXE}/{name}: firmware that is no iPXE cannot boot\n")


def _arguments(network: Network, home: Path) -> list[str]:
    """Return how dnsmasq is called: there is no file of settings."""
    interface, mask = network.interface, network.own.netmask
    found = {
        "conf-file": "/dev/null",
        "user": "root",
        "interface": interface,
        "except-interface": "lo",
        "pid-file": str(home / PID),
        "dhcp-leasefile": str(home / LEASES),
        "dhcp-hostsfile": str(home / HOSTS),
        "addn-hosts": str(home / NAMES),
        "servers-file": str(home / DOMAINS),
        "dhcp-range": f"{network.first},{network.last},{mask},{LEASE_S}",
        "dhcp-option": f"option:router{',' if network.router else ''}{network.router}",
        "tftp-root": str(home / _TFTP),
        "log-facility": "-",
    }
    if network.domain:
        found |= {"domain": network.domain, "local": f"/{network.domain}/"}
    return [
        *("--keep-in-foreground", "--bind-interfaces", "--no-resolv", "--no-hosts", "--no-ping"),
        *(f"--{key}={it}" for key, it in found.items()),
        *(f"--server={it}" for it in network.dns),
        # Who has no line gets no answer. The MAC alone says whose it is, and only it has a name.
        *("--dhcp-ignore=tag:!known", "--dhcp-ignore-clid", "--dhcp-ignore-names"),
        *("--dhcp-userclass=set:ipxe,iPXE", "--dhcp-match=set:bios,option:client-arch,0"),
        # Both are what firmware of UEFI on x86-64 says that it is.
        *(f"--dhcp-match=set:efi,option:client-arch,{it}" for it in (7, 9)),
        f"--dhcp-boot=tag:ipxe,{_SCRIPT_NAME}",
        f"--dhcp-boot=tag:!ipxe,tag:bios,{_FIRMWARE[0]}",
        f"--dhcp-boot=tag:!ipxe,tag:efi,{_FIRMWARE[1]}",
        f"--enable-tftp={interface}",
        # iPXE waits 12 s for a router of IPv6. This one says that it is none.
        *("--enable-ra", f"--dhcp-range=::,constructor:{interface},ra-only"),
        f"--ra-param={interface},0,0",
    ]


def _others(network: Network) -> list[str]:
    """Return the addresses of DHCP servers that answer a machine which nobody knows."""
    number = secrets.token_bytes(4)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        try:
            name = network.interface.encode()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            line.bind(("", _CLIENT_PORT))
            return _answers(line, number)
        except OSError as error:
            message = f"the interface {network.interface}: {error.strerror or error}"
            hint = f"it must be there and up, with the address {network.own}, and root asks"
            raise CobwebError(message, hint=hint) from error


def _answers(line: socket.socket, number: bytes) -> list[str]:
    """Ask for an address and return who offers one."""
    packet = _discover(number)
    found, start, asked = set(), time.monotonic(), 0
    while (passed_s := time.monotonic() - start) < _LISTEN_S:
        if passed_s >= asked * _AGAIN_S:
            asked += 1
            line.sendto(packet, ("255.255.255.255", _SERVER_PORT))
        line.settimeout(max(0.01, min(asked * _AGAIN_S, _LISTEN_S) - passed_s))
        try:
            answer, (address, _) = line.recvfrom(_LONGEST)
        except TimeoutError:
            continue
        if answer[:1] == b"\2" and answer[4:8] == number:
            found.add(address)
    return sorted(found)


def _discover(number: bytes) -> bytes:
    """Return a DHCPDISCOVER of a MAC that nobody has, to be answered to all."""
    mac = b"\2" + secrets.token_bytes(5)
    head = struct.pack(">4B4s2H16s16s192x", 1, 1, 6, 0, number, 0, 0x8000, b"", mac)
    return (head + _COOKIE + _DISCOVER + b"\xff").ljust(300, b"\0")
