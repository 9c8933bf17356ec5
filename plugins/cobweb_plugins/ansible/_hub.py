"""The coordinator's sockets: who connects, what came, what is left to send; one thread, no waiting.

A connection is known by its first message, the hello. `wake` writes to a pipe and so may be called
from a signal handler or another thread.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobweb_plugins.ansible._wire import LineBuffer, encode

RECEIVE_BYTES = 1 << 16
BACKLOG = 512


class Connection:
    """A non-blocking connection; `lost` once the other end is gone."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003  # the socket's own interface
        self._socket = sock
        self._incoming = LineBuffer()
        self._outgoing = bytearray()
        self._inbox: list[dict[str, Any]] = []
        self.lost = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send now what fits, the rest in later rounds; a lost peer shows when one listens."""
        self._outgoing += encode(message)
        self.flush()

    def flush(self) -> None:
        """Send what is left, as far as it fits."""
        with contextlib.suppress(OSError):
            while self._outgoing:
                del self._outgoing[: self._socket.send(self._outgoing)]

    @property
    def pending(self) -> bool:
        """Whether something is left to send."""
        return bool(self._outgoing)

    def receive(self) -> None:
        """Read what is there."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._inbox += self._incoming.feed(data)
        else:
            self.lost = True

    def take(self) -> list[dict[str, Any]]:
        """Return the messages that came since the last call."""
        messages, self._inbox = self._inbox, []
        return messages

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Hub:
    """The selector with all that it looks at."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake_seen = False
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._listener: socket.socket | None = None
        self._connections: set[Connection] = set()
        self._strangers: list[Connection] = []
        self._closed = False

    def listen(self, path: Path) -> None:
        """Take connections at `path` from now on."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)  # noqa: FBT003  # the socket's own interface
        self._selector.register(self._listener, selectors.EVENT_READ)

    def deafen(self) -> None:
        """Take no more connections; what tries to connect fails."""
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def wake(self) -> None:
        """End the round that is waiting, or the next; safe in a signal handler."""
        self._write(b"w")

    def ping(self) -> None:
        """End the round that is waiting without counting as a wake of the caller."""
        self._write(b".")

    def _write(self, byte: bytes) -> None:
        if not self._closed:
            with contextlib.suppress(OSError):
                os.write(self._waker, byte)

    def take_wake(self) -> bool:
        """Say whether there was a wake since the last call."""
        seen, self._wake_seen = self._wake_seen, False
        return seen

    def watch(self, fd: int) -> None:
        """End a round when `fd` becomes readable."""
        self._selector.register(fd, selectors.EVENT_READ)

    def unwatch(self, fd: int) -> None:
        """Take `fd` back."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(fd)

    def serve(self, timeout_s: float | None) -> None:
        """Wait for one event, at most `timeout_s`, and read, send and accept what there is."""
        for connection in self._connections:
            want = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.pending else 0)
            if not connection.lost and self._selector.get_key(connection).events != want:
                self._selector.modify(connection, want)
        for key, events in self._selector.select(timeout_s):
            self._act(key.fileobj, events)

    def _act(self, what: object, events: int) -> None:
        if what is self._listener:
            self._accept()
        elif what == self._woken:
            self._wake_seen = b"w" in os.read(self._woken, RECEIVE_BYTES) or self._wake_seen
        elif isinstance(what, Connection):
            if events & selectors.EVENT_WRITE:
                what.flush()
            if events & selectors.EVENT_READ:
                what.receive()
            if what.lost:
                self._selector.unregister(what)
        elif isinstance(what, int):
            self._selector.unregister(what)

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                connection = Connection(self._listener.accept()[0])
                self._selector.register(connection, selectors.EVENT_READ)
                self._connections.add(connection)
                self._strangers.append(connection)

    def take_hellos(self) -> list[tuple[Connection, dict[str, Any]]]:
        """Return the connections that have said who they are since the last call."""
        hellos = []
        for stranger in tuple(self._strangers):
            if messages := stranger.take():
                self._strangers.remove(stranger)
                hellos.append((stranger, messages[0]))
            elif stranger.lost:
                self._strangers.remove(stranger)
                self.remove(stranger)
        return hellos

    def read(self, connection: Connection) -> None:
        """Read what a connection holds, without waiting."""
        if not connection.lost:
            self._act(connection, selectors.EVENT_READ)

    def remove(self, connection: Connection) -> None:
        """Close a connection."""
        if not connection.lost:
            self._selector.unregister(connection)
        self._connections.discard(connection)
        connection.close()

    def close(self) -> None:
        """Close all."""
        if self._closed:
            return
        self._closed = True
        self.deafen()
        for connection in tuple(self._connections):
            self.remove(connection)
        self._selector.close()
        for fd in (self._woken, self._waker):
            os.close(fd)
