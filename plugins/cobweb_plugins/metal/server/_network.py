"""What the network is told of machines: the lines of dnsmasq, and the host keys of systems.

dnsmasq is another process, which its supervisor starts again. The boot server writes a line for
each machine and has it read them. A machine keeps the name and address that it was lent while it
may run: nobody gets another one by renewing his lease.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from cobweb_plugins.metal.server._records import OFF, Record
from cobweb_plugins.metal.trampoline import FILES

FOLDER = "dhcp"
HOSTS, LEASES, PID = "hosts", "leases", "pid"
"""The files of dnsmasq in its folder: what machines get, what was lent, its process."""

NAMES, DOMAINS = "names", "domains"
"""What DNS answers for besides: names in domains of their own, and that it alone knows those."""

KNOWN_HOSTS = "known_hosts"
TRAMPOLINE = "trampoline"

LEASE_S = 120
"""The shortest that dnsmasq knows: so long a name and an address wait for their next machine."""

_ANYBODY = f"*:*:*:*:*:*,{LEASE_S}"
_DNS = 53
_SSH = 22
_ANSWER_S = 2.0
_BANNER_S = 0.3
_KEYSCAN_S = 10.0
# The version of the server, which dnsmasq answers itself: an identifier, one question, TXT CHAOS.
_QUESTION = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + b"\7version\4bind\0\0\x10\0\3"


class Network:
    """dnsmasq at `address`, where `folder` is the boot server's; `domain` may be ""."""

    def __init__(self, folder: Path, address: str, domain: str) -> None:
        self._known_hosts = folder / KNOWN_HOSTS
        self._folder = folder / FOLDER
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._trampoline = folder / TRAMPOLINE
        self._address = address
        self._domain = domain

    def tell(self, records: Iterable[Record], *, is_open: bool) -> None:
        """Have dnsmasq know what machines get; `is_open`: those that nobody knows get something.

        It comes to know it within moments; where it is not there, when it starts.
        """
        found = list(records)
        lines = [_line(it) for it in found] + [_ANYBODY] * is_open
        names = [line for it in found for line in _names(it)]
        domains = {it.goal.domain for it in found} | {(it.lent or {}).get("domain") for it in found}
        local = [f"server=/{it}/" for it in domains if it]
        told = ((HOSTS, lines), (NAMES, names), (DOMAINS, local))
        if sum(_written(self._folder / name, each) for name, each in told):
            self._signal()
        _written(self._known_hosts, [line for it in found for line in self._keys(it)])

    def missing(self) -> list[Path]:
        """Return the files of the trampoline that are not there."""
        return [it for name in FILES if not (it := self._trampoline / name).exists()]

    def process(self) -> str:
        """Return what tells one dnsmasq from the next, "" while there is none."""
        with suppress(OSError, ValueError):
            pid = int((self._folder / PID).read_text(encoding="ascii"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if f"--dhcp-hostsfile={self._folder / HOSTS}".encode() in words:
                started = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")")[-1]
                return f"{pid} {started.split()[19]}"
        return ""

    async def answers(self) -> bool:
        """Say whether dnsmasq answers one of two questions: the first may be lost."""
        return await self._answers() or await self._answers()

    async def _answers(self) -> bool:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.setblocking(False)  # noqa: FBT003 - the name of the standard library
            try:
                await loop.sock_connect(line, (self._address, _DNS))
                async with asyncio.timeout(_ANSWER_S):
                    await loop.sock_sendall(line, _QUESTION)
                    return bool(await loop.sock_recv(line, 512))
            except (OSError, TimeoutError):
                return False

    def lent_until(self, mac: str, address: str) -> float:
        """Return when the lease of an address ends, in seconds since the epoch; 0 for none."""
        with suppress(OSError, ValueError):
            for line in (self._folder / LEASES).read_text(encoding="utf-8").splitlines():
                until, *owner = line.split()[:3]
                if owner == [mac, address] and until.isdecimal():
                    return float(until)
        return 0.0

    def _signal(self) -> None:
        pid = self.process().partition(" ")[0]
        if pid:
            with suppress(OSError):
                number = os.pidfd_open(int(pid))
                try:
                    if self.process().partition(" ")[0] == pid:  # not one that has its number now
                        signal.pidfd_send_signal(number, signal.SIGHUP)
                finally:
                    os.close(number)

    def _keys(self, record: Record) -> Iterator[str]:
        """Yield the lines of known_hosts of a system."""
        goal = record.runs
        if record.lent is None or goal is None:
            return
        names = [record.lent["name"], record.lent["address"]]
        domains = dict.fromkeys((self._domain, record.lent.get("domain")))
        names += [f"{names[0]}.{it}" for it in domains if it]
        if goal.port != _SSH:
            names = [f"[{it}]:{goal.port}" for it in names]
        for key in record.host_keys:
            yield f"{','.join(names)} {key}"


async def host_keys(address: str, port: int, limit_s: float) -> tuple[str, ...] | None:
    """Return the host keys of a system that accepts connections in time, None while it does not.

    They are `TYPE KEY`, sorted; there are none where it speaks no SSH.
    """
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError):
        return None
    banner = b""
    with suppress(OSError, EOFError, TimeoutError):  # some say nothing, or hang up at once
        async with asyncio.timeout(_BANNER_S):
            banner = await reader.readexactly(4)
    writer.close()
    return await _scanned(address, port) if banner == b"SSH-" else ()


async def _scanned(address: str, port: int) -> tuple[str, ...] | None:
    """Return what ssh-keyscan finds, None where that is nothing (yet)."""
    command = ("ssh-keyscan", "-T", "5", "-p", str(port), address)
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=none, stdout=pipe, stderr=none
        )
    except FileNotFoundError:  # without openssh-client no keys are pinned
        return ()
    try:
        async with asyncio.timeout(_KEYSCAN_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        return None
    lines = [it.partition(" ")[2] for it in output.decode(errors="replace").splitlines()]
    return tuple(sorted(it for it in lines if it)) or None


def _line(record: Record) -> str:
    """Return what dnsmasq is told of a machine; never with `set:`, at which 2.90 may crash.

    While it boots it has no name: another one's system may be called as this machine is.
    """
    lent = record.lent
    words = (lent["address"], lent["name"]) if lent else ()
    return ",".join((record.mac, *words, str(LEASE_S)))


def _names(record: Record) -> Iterator[str]:
    """Yield the line of a name in a domain of its own; it goes as soon as the machine is off."""
    lent = record.lent
    if lent and lent.get("domain") and record.phase != OFF:
        yield f"{lent['address']} {lent['name']}.{lent['domain']}"


def _written(path: Path, lines: Iterable[str]) -> bool:
    """Write a file as a whole; say whether it is another one now."""
    text = "".join(f"{it}\n" for it in sorted(lines)).encode()
    if path.exists() and path.read_bytes() == text:
        return False
    fresh = path.with_name(f".{path.name}")
    fresh.write_bytes(text)
    fresh.replace(path)
    return True
