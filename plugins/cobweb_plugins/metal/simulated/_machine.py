"""One simulated machine: a process that is firmware, trampoline and system in turn.

It is run by its path and loads the standard library only. What it runs is of its process group and
has not its lock, so SIGKILL of the group is its power. Firmware asks the boot server what to boot
and does so. The trampoline says hello and carries out orders; it outlives the server. The system is
a list of commands at the beginning of the disk. A reset replaces the program of the process: the
pid and the lock stay, and nothing else.

With an interface it is alone in its network namespace. Firmware and system ask DHCP who they are,
firmware also for the URL that it boots. As real firmware it goes on to its disk where nobody
answers, whatever is on that.

The rule for the disk: its lock is held, and the ledger has `write-begin`, before the first byte is
written; the ledger has `write-end` after the last one, also where writing was given up.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socketserver
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlencode, urlsplit

PAUSE_S = 1.0
"""How long firmware waits after no answer, and where there is no boot device."""
FIRST_PAUSE_S, LAST_PAUSE_S = 0.2, 2.0
"""How long a trampoline waits before it repeats what failed: each time twice as long as before."""
ANSWER_LIMIT_S = 60.0
"""How long an answer may be silent; an order is held for 20 s."""
CHUNK_BYTES = 32 << 10
"""What is read at once; unpacked it is a thousand times as large at most."""
SYSTEM_BYTES = 64 << 10
"""How much of the disk is looked at for commands."""
DHCP_TRIES = 10
"""How often DHCP is asked, a second apart, before it counts as silent; iPXE takes 15 s or so."""
RENEWAL_S = 30
"""After how long a system renews its lease."""

_SYSTEM = "#!simulated-system"
_IDENTITY = re.compile(r"^# cobweb name=(\S+) address=(\S+)$", re.MULTILINE)
_BOOT = re.compile(r"^(kernel|sanboot|poweroff)\b(.*)$", re.MULTILINE)
_CHAIN = re.compile(r"^chain --replace (\S+)", re.MULTILINE)
_MAC = re.compile(r"\$\{net(?:X|\d+)/mac\}")
_FIRMWARE = ("-V", "PXEClient:Arch:00000:UNDI:002001", "-x", "0x4d:69505845", "-O", "bootfile")
"""How iPXE asks DHCP: vendor class, user class `iPXE`, and for a file."""
_DHCP = """\
#!/bin/sh
# Called by udhcpc: the interface gets what DHCP says, and the machine reads the rest.
case $1 in
  deconfig) busybox ip link set "$interface" up ;;
  bound)
    busybox ip address show dev "$interface" | grep -qF " $ip/$mask " || {
      busybox ip address flush dev "$interface"
      busybox ip address add "$ip/$mask" dev "$interface"
    }
    [ -z "$router" ] || busybox ip route replace default via "${router%% *}"
    printf '%s\\n' "$ip" "$hostname" "$serverid" "$bootfile" ;;
esac
"""


class _PowerOffError(Exception):
    """The machine switches itself off; the text says why."""


class _ImageError(Exception):
    """The image cannot be written on this disk; the text is the server's to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """Whose files, boot server and power lock these are; `hardware` is what it says in hello."""

    name: str
    folder: Path
    server: str
    mac: str
    interface: str
    lock: int
    hardware: Mapping[str, Any]

    @property
    def disk(self) -> Path:
        return self.folder / f"{self.name}.disk"

    @property
    def reset_mark(self) -> Path:
        """There since the system of this disk did its `reset-once`."""
        return self.folder / f"{self.name}.reset"

    def check_power(self) -> None:
        """Raise where the lock's file was removed, for then no switch reaches this machine."""
        if not os.fstat(self.lock).st_nlink:
            raise _PowerOffError("its files are gone")

    def record(self, event: str, **details: object) -> None:
        record(self.folder, self.name, os.getpid(), event, **details)


def record(folder: Path, machine: str, pid: int, event: str, **details: object) -> None:
    """Append an event to the ledger of a folder, as one line in one write."""
    now = time.time()  # for people, who compare it with other logs
    line = {"time": now, "machine": machine, "pid": pid, "event": event, **details}
    file = os.open(folder / "ledger.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def unplug(interface: str) -> None:
    """Take link and addresses from an interface, as the end of the power does; "" is none."""
    for words in (("link", "set", interface, "down"), ("address", "flush", "dev", interface)):
        if interface:
            command = ["busybox", "ip", *words]
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def main(arguments: list[str]) -> None:
    """Be a machine until its power ends.

    The arguments are NAME FOLDER SERVER MAC INTERFACE and the descriptor of its lock.
    """
    name, folder, server, mac, interface, lock = arguments
    machine = _Machine(
        name=name,
        folder=Path(folder),
        server=server,
        mac=mac,
        interface=interface,
        lock=int(lock),
        hardware=_hardware(Path(folder), name, mac),
    )
    if os.pread(machine.lock, 20, 0) != _pid_line():  # else this is a reset
        _switch_on(machine)
    try:
        while True:
            _boot(machine)
            time.sleep(PAUSE_S)
    except _PowerOffError as error:
        _log(f"power off: {error}")
    unplug(interface)
    machine.record("power-off")
    os.truncate(machine.lock, 0)


def _hardware(folder: Path, name: str, mac: str) -> dict[str, Any]:
    """Return invented hardware, the same each time; keys of FOLDER/NAME.json go before."""
    serial = hashlib.sha256(name.encode()).hexdigest()[:12].upper()
    settings = folder / f"{name}.json"
    changes = json.loads(settings.read_bytes()) if settings.exists() else {}
    invented = {
        "cores": 4,
        "memory_mb": 8192,
        "disks": [{"name": "sda", "bytes": 8 << 30, "serial": serial}],
        "nics": [{"name": "eth0", "mac": mac}],
        "firmware": "simulated",
        "vendor": "Cobweb",
        "product": "simulated machine",
    }
    return {**invented, **changes}


def _pid_line() -> bytes:
    return f"{os.getpid()}\n".encode()


def _switch_on(machine: _Machine) -> None:
    """Go on in a child with a session of its own; this process ends when the power is on."""
    ready, done = os.pipe()
    if os.fork():
        os.close(done)
        os._exit(not os.read(ready, 1))
    os.setsid()
    os.pwrite(machine.lock, _pid_line(), 0)
    machine.record("power-on")
    os.write(done, b"+")
    os.close(ready)
    os.close(done)


def _log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
    sys.stderr.flush()


def _reset() -> NoReturn:
    """Start again as firmware: threads and sockets end here."""
    _log("reset")
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606  # the command this process runs already


@contextmanager
def _answer(
    server: str, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Iterator[HTTPResponse]:
    """Send a request to a boot server; OSError or HTTPException where there is no answer."""
    url = urlsplit(server)
    # What a token is issued to is the address: on loopback a machine has none of its own.
    source = ("127.0.0.1", 0) if (url.hostname or "").startswith("127.") else None
    connection = HTTPConnection(
        url.hostname or "", url.port or 80, timeout=ANSWER_LIMIT_S, source_address=source
    )
    with closing(connection):
        connection.request(method, path, body, dict(headers or {}))
        yield connection.getresponse()


def _boot(machine: _Machine) -> None:
    """Be firmware: ask what to boot and do so; return where that cannot be."""
    machine.check_power()
    script = _script(machine)
    command = _BOOT.search(script)
    if command is None:
        if machine.interface:
            _run_system(machine, script)
        return
    machine.record("boot", command=command[1])
    _log(f"boot: {command[1]}")  # not the rest, which has a token
    if command[1] == "poweroff":
        raise _PowerOffError("so says the boot script")
    if command[1] == "sanboot":
        _run_system(machine, script)
        return
    options = dict(re.findall(r"\bcobweb\.(\w+)=(\S+)", command[2]))
    if options.keys() >= {"server", "token"}:
        _Trampoline(machine, options["server"], options["token"]).run()


def _script(machine: _Machine) -> str:
    """Return what the boot server says to boot, "" where that or DHCP does not answer."""
    if not machine.interface:
        return _fetched(f"{machine.server}/boot?mac={quote(machine.mac, safe=':')}")
    unplug(machine.interface)
    url = _chained(machine)
    while url and not (script := _fetched(url)):
        machine.check_power()
        time.sleep(PAUSE_S)
    return script if url else ""


def _fetched(url: str) -> str:
    """Return a text, "" where there is no answer."""
    parts = urlsplit(url)
    with (
        suppress(OSError, HTTPException),
        _answer(url, "GET", f"{parts.path}?{parts.query}") as response,
    ):
        if response.status == HTTPStatus.OK:
            return response.read().decode(errors="replace")
    return ""


def _chained(machine: _Machine) -> str:
    """Return the URL that the file of DHCP's answer asks again and again, "" without one."""
    *_, server, file = _leased(machine, *_FIRMWARE)
    command = ["busybox", "tftp", "-g", "-l", "-", "-r", file, server]
    if not file:
        return ""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    found = _CHAIN.search(done.stdout)
    return _MAC.sub(machine.mac, found[1]) if found else ""


def _leased(machine: _Machine, *options: str) -> tuple[str, str, str, str]:
    """Return address and name of the interface by DHCP, its server, and the file to boot.

    What it does not say is "".
    """
    script = machine.folder / f"{machine.name}.dhcp"
    script.write_text(_DHCP, encoding="utf-8")
    script.chmod(0o700)
    # Without a link it would try for ever.
    command = ["busybox", "timeout", str(2 * DHCP_TRIES), "busybox", "udhcpc", "-f", "-q", "-n"]
    command += ["-T", "1", "-t", str(DHCP_TRIES), "-i", machine.interface, "-s", str(script)]
    command += options
    done = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    address, name, server, file = (*done.stdout.split("\n"), "", "", "", "")[:4]
    return address, name, server, file


class _Trampoline:
    """What carries out the boot server's orders, for as long as its token is valid."""

    def __init__(self, machine: _Machine, server: str, token: str) -> None:
        self._machine = machine
        self._server = server
        self._token = token

    def run(self) -> NoReturn:
        """Say hello and carry out orders; ends by reset or power off."""
        self._ask("POST", "hello", json.dumps(self._machine.hardware).encode())
        while True:
            order = self._ask("GET", "order").split()
            self._machine.check_power()
            if order != ["wait"]:
                _log(f"order: {' '.join(order)}")
            match order:
                case ["prime", digest, size, "gzip" | "raw", _, _] if size.isdecimal():
                    self._prime(digest, int(size), *order[3:])
                case ["boot"]:
                    _reset()
                case ["off"]:
                    raise _PowerOffError("so says the order")
                case _:  # `wait`; a server that does not hold its answer is not asked all the time
                    time.sleep(FIRST_PAUSE_S)

    def _prime(self, digest: str, size: int, *how: str) -> None:
        """Write the image and read it back; tell the server what came of it."""
        form, disk, wipe = how
        try:
            self._check_disk(disk, size)
            self._word("priming", "" if wipe == "none" else f"wiping {disk} ({wipe})")
            self._write(size, form, wipe)
            self._read_back(digest, size)
        except (_ImageError, OSError) as error:  # no OSError of the network gets here
            self._word("failed", str(error))
        else:
            self._word("primed", digest)

    def _check_disk(self, name: str, size: int) -> None:
        """Raise where there is no such disk; of several the first one is real."""
        disks = self._machine.hardware["disks"][:1]
        if not any(disk["name"] == name and disk["bytes"] >= size for disk in disks):
            raise _ImageError(f"there is no disk {name} that has room for {size} bytes")

    def _write(self, size: int, form: str, wipe: str) -> None:
        """Write the unpacked image over the disk, which gets its size; zeros before where asked."""
        machine = self._machine
        file = os.open(machine.disk, os.O_RDWR | os.O_CREAT, 0o600)
        with open(file, "r+b", buffering=0) as disk:  # noqa: PTH123  # a descriptor
            try:
                fcntl.flock(disk, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                machine.record("two-writers", disk=machine.disk.name)
                raise _PowerOffError("another process writes on the disk") from None
            machine.record("write-begin", disk=machine.disk.name)
            written = 0
            try:
                machine.reset_mark.unlink(missing_ok=True)
                if wipe != "none":
                    old = os.fstat(file).st_size
                    disk.truncate(0)
                    disk.truncate(old)  # with zeros, as after a discard
                    machine.record("wipe", disk=machine.disk.name, how=wipe, bytes=old)
                for piece in _unpacked(self._image()) if form == "gzip" else self._image():
                    written += len(piece)
                    if written > size:
                        raise _ImageError(f"the image is longer than {size} bytes")
                    if disk.write(piece) != len(piece):
                        raise _ImageError("the disk took a part of what was written only")
                if written < size:
                    raise _ImageError(f"the image has {written} bytes, not {size}")
                disk.truncate(size)
                os.fsync(disk)
            finally:
                machine.record("write-end", disk=machine.disk.name, bytes=written)

    def _read_back(self, expected: str, size: int) -> None:
        """Raise where the beginning of the disk is not what was to be written."""
        digest = hashlib.sha256()
        with self._machine.disk.open("rb") as disk:
            while size and (piece := disk.read(min(size, CHUNK_BYTES))):
                digest.update(piece)
                size -= len(piece)
        if digest.hexdigest() != expected:
            raise _ImageError(f"the disk has sha256 {digest.hexdigest()}, not {expected}")

    def _image(self) -> Iterator[bytes]:
        """Yield the image as it is stored, from where a broken connection has left off."""
        offset, pause = 0, FIRST_PAUSE_S
        while True:
            headers = {"Range": f"bytes={offset}-"} if offset else {}
            good = HTTPStatus.PARTIAL_CONTENT if offset else HTTPStatus.OK
            with (
                suppress(OSError, HTTPException),
                self._answer("GET", "image", headers=headers) as response,
            ):
                if response.status == good:
                    # A connection that breaks looks like the end, but for the length.
                    end = None if response.length is None else offset + response.length
                    while piece := response.read(CHUNK_BYTES):
                        offset, pause = offset + len(piece), FIRST_PAUSE_S
                        yield piece
                    if end in {None, offset}:
                        return
            _log(f"the image stopped at byte {offset}")
            pause = _wait(pause)

    def _word(self, word: str, text: str = "") -> None:
        _log(f"word: {word} {text}")
        self._ask("POST", "word", text.encode(), word=word)

    def _ask(self, method: str, path: str, body: bytes = b"", **query: str) -> str:
        """Return the text of an answer; ask until there is one."""
        pause = FIRST_PAUSE_S
        while True:
            with (
                suppress(OSError, HTTPException),
                self._answer(method, path, body, query) as response,
            ):
                if response.status == HTTPStatus.OK:
                    return response.read().decode(errors="replace")
            pause = _wait(pause)

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[HTTPResponse]:
        """Send a request with the token; a token that is refused is the end of this boot."""
        target = f"/trampoline/{path}?{urlencode({'token': self._token, **(query or {})})}"
        with _answer(self._server, method, target, body, headers) as response:
            if response.status == HTTPStatus.FORBIDDEN:
                raise _PowerOffError("the server has ended this boot")
            yield response


def _wait(pause: float) -> float:
    """Sleep; return how long to sleep the next time."""
    time.sleep(pause)
    return min(2 * pause, LAST_PAUSE_S)


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what gzip has packed, in one or several members."""
    member = zlib.decompressobj(wbits=31)
    whole = True
    try:
        for piece in pieces:
            rest = piece
            while rest:
                yield member.decompress(rest)
                rest, whole = member.unused_data, member.eof
                if member.eof:
                    member = zlib.decompressobj(wbits=31)
    except zlib.error as error:
        raise _ImageError(f"the image cannot be unpacked: {error}") from None
    if not whole:
        raise _ImageError("the image cannot be unpacked: its end is missing")


def _run_system(machine: _Machine, script: str) -> None:
    """Run the commands of the disk for ever; return where the disk has none."""
    with suppress(FileNotFoundError), machine.disk.open("rb") as disk:
        text = disk.read(SYSTEM_BYTES).split(b"\0", 1)[0].decode(errors="replace")
        first, *lines = text.splitlines() or [""]
        if first == _SYSTEM and (identity := _identity(machine, script)):
            name, address = identity
            _run_commands(machine, [line.replace("{name}", name) for line in lines], address)
    _log("no boot device")


def _identity(machine: _Machine, script: str) -> tuple[str, str] | None:
    """Return name and address of a system that starts: it waits until DHCP says them."""
    if not machine.interface:
        found = _IDENTITY.search(script)
        if found is not None:
            machine.record("system", name=found[1], address=found[2])
        return None if found is None else (found[1], found[2])
    machine.record("system")
    while not (address := _renewed(machine))[1]:
        machine.check_power()
    return address


def _renewed(machine: _Machine) -> tuple[str, str]:
    """Have a system ask DHCP for its name and address, and the ledger say what it got."""
    address, name, *_ = _leased(machine)
    if address:
        machine.record("lease", name=name, address=address)
    return name, address


def _run_commands(machine: _Machine, lines: list[str], address: str) -> NoReturn:
    for line in lines:
        match line.split(maxsplit=2):
            case ["serve", port, text] if port.isdecimal():
                _serve(address, int(port), text)
            case ["reset"]:
                _reset()
            case ["reset-once"]:
                if not machine.reset_mark.exists():
                    machine.reset_mark.touch()
                    _reset()
            case ["hang"]:
                break
            case [word, *_] if not word.startswith("#"):
                _log(f"panic: {line}")
                break
            case _:
                pass
    renewal = time.monotonic() + RENEWAL_S
    while True:
        machine.check_power()
        time.sleep(PAUSE_S)
        if machine.interface and time.monotonic() > renewal:
            _renewed(machine)
            renewal = time.monotonic() + RENEWAL_S


def _serve(address: str, port: int, text: str) -> None:
    """Answer HTTP requests with a text from now on; log where the port is not free."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"{text}\n".encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: the log is for what the machine does."""

    class Server(socketserver.ThreadingTCPServer):  # HTTPServer would ask the DNS for a name
        allow_reuse_address = True
        daemon_threads = True

    try:
        server = Server((address, port), Handler)
    except (OSError, OverflowError) as error:
        _log(f"cannot serve on {address}:{port}: {error}")
        return
    _log(f"serves on {address}:{port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1:])
