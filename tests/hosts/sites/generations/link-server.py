#!/usr/bin/python3
"""link-server PORT CONFIG [HOST:PORT ...]: a server that tells what it lives on, and notes harm.

It reads CONFIG (a path, or - for none) once, connects to the others, which must be there, and keeps
these links for as long as it lives. Whoever connects is told in a line of JSON what it has read and
which others it is linked to. One that says `hold` is linked to it: who is stopped while somebody
holds it, or loses one it is linked to, writes so into its ledger, as real services end up in a log.
The ledger has a line for each start and stop too, with the machine's own clock.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

LEDGER = "/var/lib/link-server.ledger"


def note(what: str) -> None:
    line = f"{time.monotonic_ns()} {sys.argv[1]} {what}\n"
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def place(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


class Server:
    """One server: its door, its guests, those of them that hold it, and its own links."""

    def __init__(self, port: int, config: str, others: list[str]) -> None:
        text = None if config == "-" else Path(config).read_text(encoding="utf-8")
        self.line = (json.dumps({"config": text, "others": others}) + "\n").encode()
        self.links = [socket.create_connection(place(other), timeout=5) for other in others]
        for link in self.links:
            link.sendall(b"hold\n")
            link.settimeout(None)
        self.guests: set[socket.socket] = set()
        self.held: set[socket.socket] = set()
        self.door = socket.create_server(("", port), backlog=64)
        self.stopped, self.bell = socket.socketpair()
        self.bell.settimeout(0)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(self.bell.fileno())

    def serve(self) -> None:
        note("start")
        while not self.round(None):
            pass
        while self.round(0):
            pass  # what came before the signal is heard before it is judged
        note(f"cut {len(self.held)}" if self.held else "stop")

    def round(self, wait_s: float | None) -> bool:
        """Serve who is there; say whether there was somebody, or a signal where this waits."""
        bells = [self.stopped] if wait_s is None else []
        sources = [*bells, self.door, *self.guests, *self.links]
        ready, _, _ = select.select(sources, [], [], wait_s)
        for source in ready:
            if source is self.door:
                self.welcome()
            elif source in self.links:
                self.hear_link(source)
            elif source in self.guests:
                self.hear_guest(source)
        return self.stopped in ready if bells else bool(ready)

    def welcome(self) -> None:
        guest, _ = self.door.accept()
        try:
            guest.sendall(self.line)
        except OSError:
            guest.close()
        else:
            self.guests.add(guest)

    def hear_guest(self, guest: socket.socket) -> None:
        try:
            heard = guest.recv(64)
        except OSError:
            heard = b""
        if heard.startswith(b"hold"):
            self.held.add(guest)
        elif not heard:
            self.held.discard(guest)
            self.guests.discard(guest)
            guest.close()

    def hear_link(self, link: socket.socket) -> None:
        try:
            heard = link.recv(4096)
        except OSError:
            heard = b""
        if not heard:
            note("lost a link")
            self.links.remove(link)


Server(int(sys.argv[1]), sys.argv[2], sys.argv[3:]).serve()
