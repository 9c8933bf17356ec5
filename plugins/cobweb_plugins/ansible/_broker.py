"""The broker of module servers on other hosts: one process beside the lanes, one server per way.

Theory of operation. A server on a host takes some time to start, and any lane may have the next job
there. So the servers belong to none of the lanes: a lane connects to the broker, says how the host
is reached and what is to be run, and waits for the answer. A server runs calls of several lanes
side by side. The broker is forked by the zygote, and ends when that and all lanes are gone.

What has begun on a host, or may have when the connection to it broke, is never begun again: when
its server is lost the call is lost. What has not begun goes to a new server; where a new one does
not begin with anything, all that is asked on this way is refused. A server that is stale begins
nothing more: what it has not begun moves on at once. When a lane ends whose call has not begun, it
must not begin any more: what is not sent yet is dropped; what is sent in part stays so, and that
server gets nothing more; what is on its way is cancelled, which the server looks for before it
begins. Where no other lane has a call there, or the server has not said anything yet, the way
there is cut.

A server is a host's word, and may say anything. What is no answer to a call that it has ends this
server alone: what had begun there is lost, all else on this way is refused.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import socket
import subprocess
from dataclasses import dataclass
from itertools import count
from typing import Any

from cobweb_plugins.ansible._warm import (
    ERROR_BYTES,
    MAGIC,
    NOISE_BYTES,
    SSH_FAILED,
    answers,
    start_command,
)
from cobweb_plugins.ansible._wire import Messages, RubbishError, encode

RECEIVE_BYTES = 1 << 18
MOST_SERVERS = 100
"""Servers that are kept; of more, those that have nothing to do are ended."""
END_S = 2.0

Key = tuple[str, ...]


def serve(listener: socket.socket, parent: int) -> None:
    """Serve lanes that connect, until `parent` ends: a pipe that those hold who may connect."""
    _Broker(listener, parent).serve()


class _Lane:
    """A lane's connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.messages = Messages("size", check=json.loads)

    def answer(self, message: dict[str, Any], data: bytes = b"") -> None:
        """Send an answer; the lane waits for it, unless it has ended meanwhile."""
        with contextlib.suppress(OSError):
            self.connection.sendall(encode(message) + data)


@dataclass(slots=True, kw_only=True)
class _Request:
    """What a lane asks for; `begun` once a server has said so."""

    lane: _Lane
    key: Key
    python: str
    message: dict[str, Any]
    code: bytes
    begun: bool = False


class _Errors:
    """What a server, or the way to it, complains of: the end of it, however much there is."""

    def __init__(self, source: int) -> None:
        self.source = source
        self.said = b""
        os.set_blocking(source, False)  # the interface of os

    def read(self) -> bool:
        """Take what has come; say no at the end, or where there is nothing."""
        try:
            data = os.read(self.source, RECEIVE_BYTES)
        except OSError:  # nothing is there, or it has been closed meanwhile
            return False
        self.said = (self.said + data)[-ERROR_BYTES:]
        return bool(data)


class _Server:
    """A server on a host; `has_spoken` once it has begun with a call, `rubbish` its last word."""

    def __init__(self, key: Key, python: str) -> None:
        self.key = key
        self.has_spoken = self.is_cut = False
        self.rubbish = ""
        self.requests: dict[int, _Request] = {}
        argv, source = start_command(key[:-1], python)
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.errors = _Errors(self.process.stderr.fileno())
        os.set_blocking(self.stdin, False)  # the interface of os
        self.unsent = bytearray(source)
        self._sending = 0
        self._waiting: list[int] = []
        self._cancels = b""
        self._cancelled: set[int] = set()
        self._known: set[str] = set()
        self._noise: bytes | None = b""
        self.messages = answers()

    def ask(self, number: int, request: _Request) -> None:
        """Put a call into the queue of what is to be sent."""
        self.requests[number] = request
        self._waiting.append(number)

    def send(self) -> None:
        """Send what fits; that the server is gone shows when one listens."""
        while self.unsent or self._cancels or self._waiting:
            if not self.unsent and self._cancels:
                self._sending, self.unsent, self._cancels = 0, bytearray(self._cancels), b""
            elif not self.unsent:
                self._sending = self._waiting.pop(0)
                self.unsent += self._encode(self._sending)
            try:
                del self.unsent[: os.write(self.stdin, self.unsent)]
            except BlockingIOError:
                return
            except OSError:  # also that the input is closed
                self.unsent.clear()
                self._cancels = b""
                self._waiting.clear()

    def _encode(self, number: int) -> bytes:
        """Return a call as it is sent, with its code unless the server has that."""
        request = self.requests[number]
        digest = request.message["digest"]
        archive = b"" if digest in self._known else base64.b64decode(request.code)
        self._known.add(digest)
        return encode({**request.message, "id": number, "size": len(archive)}) + archive

    def cancel(self, number: int) -> bool:
        """Let a call not begin that has not; say no where the input must end for that."""
        if number in self._waiting:
            self._waiting.remove(number)
            del self.requests[number]
            return True
        if self.unsent and self._sending == number:
            return False
        self._cancels += encode({"cancel": number})
        self._cancelled.add(number)
        return True

    def check(self, message: dict[str, Any]) -> None:
        """Raise RubbishError where a message is no answer to a call that is to be answered so."""
        number, op = message["id"], message["op"]
        request = self.requests.get(number)
        fits = request is not None and (op == "ended") == request.begun
        if not fits or (op == "cancelled" and number not in self._cancelled):
            raise RubbishError(f"`{op}` of a call of which it cannot say that")

    def take_back(self, numbers: list[int]) -> list[_Request]:
        """Forget calls that it does not begin."""
        self._waiting = [number for number in self._waiting if number not in numbers]
        return [self.requests.pop(number) for number in numbers]

    def unbegun(self) -> list[int]:
        """Return the calls that it has not begun."""
        return [number for number, request in self.requests.items() if not request.begun]

    def unsent_calls(self) -> list[int]:
        """Return the calls that it cannot begin once its input ends: not or not wholly sent."""
        return [*([self._sending] if self.unsent else []), *self._waiting]

    @property
    def is_silent(self) -> bool:
        """Say whether nothing is known of it yet."""
        return self._noise is not None

    def receive(self) -> bytes | None:
        """Return what has come of messages; None at the end of the server."""
        data = os.read(self.stdout, RECEIVE_BYTES)
        if self._noise is not None:
            self._noise += data
            if MAGIC not in self._noise:
                return b"" if data and len(self._noise) < NOISE_BYTES else None
            data, self._noise = self._noise.partition(MAGIC)[2], None
        elif not data:
            return None
        return data

    def close_input(self) -> None:
        """Let the server end once it has nothing to do."""
        assert self.process.stdin is not None
        self.stdin = -1
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def cut(self) -> None:
        """End the connection at once."""
        self.is_cut = True
        self.process.kill()

    def end(self) -> tuple[int, str]:
        """End the server; return its exit code, and what it complained of."""
        self.close_input()
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.errors.read()  # a pipe holds less than one reads at once
        self.errors.source = -1
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        said = self.errors.said.decode(errors="replace")
        return code, f"the module server there said {self.rubbish}" if self.rubbish else said


class _Broker:
    def __init__(self, listener: socket.socket, parent: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = listener
        self._goes_on = True
        self._lanes: set[_Lane] = set()
        self._servers: dict[Key, _Server] = {}
        self._leaving: list[_Server] = []
        self._unfit: set[Key] = set()
        self._numbers = count(1)
        self._selector.register(listener, selectors.EVENT_READ, listener)
        self._selector.register(parent, selectors.EVENT_READ, parent)

    def serve(self) -> None:
        """Serve until nobody can ask any more."""
        while self._goes_on:
            for key, events in self._selector.select():
                self._act(key.data, events)
        remaining = [*self._servers.values(), *self._leaving]
        for server in remaining:
            server.close_input()
        for server in remaining:
            server.end()

    def _act(self, what: object, events: int) -> None:
        if what is self._listener:
            lane = _Lane(self._listener.accept()[0])
            self._lanes.add(lane)
            self._selector.register(lane.connection, selectors.EVENT_READ, lane)
        elif isinstance(what, _Lane):
            self._hear_lane(what)
        elif isinstance(what, _Server) and events & selectors.EVENT_WRITE:
            self._send(what)
        elif isinstance(what, _Server):
            self._hear_server(what)
        elif isinstance(what, _Errors):
            if not what.read():
                self._forget_errors(what)
        else:
            self._goes_on = False

    def _hear_lane(self, lane: _Lane) -> None:
        try:
            data = lane.connection.recv(RECEIVE_BYTES)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(lane.connection)
            self._lanes.remove(lane)
            lane.connection.close()
            for server in (*self._servers.values(), *self._leaving):
                self._forsake(server, lane)
        for asked, code in lane.messages.feed(data):
            key = (*asked["way"], asked["python"])
            message = asked["message"]
            self._ask(
                _Request(lane=lane, key=key, python=asked["python"], message=message, code=code)
            )

    def _forsake(self, server: _Server, lane: _Lane) -> None:
        """Let nothing begin that a lane has asked for which has ended."""
        numbers = [number for number in server.unbegun() if server.requests[number].lane is lane]
        others = any(request.lane in self._lanes for request in server.requests.values())
        if numbers and (server.is_silent or not others):
            server.cut()
            return
        for number in numbers:
            if not server.cancel(number):
                self._move_on(server, server.unsent_calls())
                return
            if server.stdin >= 0:
                self._send(server)

    def _move_on(self, server: _Server, numbers: list[int]) -> None:
        """Ask a new server for what this one cannot begin, as it gets nothing more."""
        self._let_go(server)
        for request in server.take_back(numbers):
            if request.lane in self._lanes:
                self._ask(request)

    def _ask(self, request: _Request) -> None:
        if request.key in self._unfit:
            request.lane.answer({"op": "refused"})
            return
        server = self._servers.get(request.key)
        if server is None:
            server = self._servers[request.key] = _Server(request.key, request.python)
            self._selector.register(server.stdout, selectors.EVENT_READ, server)
            self._selector.register(server.errors.source, selectors.EVENT_READ, server.errors)
            self._limit()
        server.ask(next(self._numbers), request)
        self._send(server)

    def _limit(self) -> None:
        """Let servers go that have nothing to do, the first that were started before others."""
        idle = [server for server in self._servers.values() if not server.requests]
        for server in idle[: max(0, len(self._servers) - MOST_SERVERS)]:
            self._let_go(server)

    def _let_go(self, server: _Server) -> None:
        if self._servers.get(server.key) is server:
            del self._servers[server.key]
            self._leaving.append(server)
        self._forget_input(server)
        server.close_input()

    def _send(self, server: _Server) -> None:
        server.send()
        self._forget_input(server)
        if server.unsent:
            self._selector.register(server.stdin, selectors.EVENT_WRITE, server)

    def _forget_input(self, server: _Server) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(server.stdin)

    def _forget_errors(self, errors: _Errors) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(errors.source)

    def _hear_server(self, server: _Server) -> None:
        try:
            data = server.receive()
            for message, more in server.messages.feed(data or b""):
                self._hear(server, message, more)
        except RubbishError as error:
            server.rubbish, data = str(error), None
            server.cut()
            self._unfit.add(server.key)
        if data is None:
            self._ended(server)

    def _hear(self, server: _Server, message: dict[str, Any], data: bytes) -> None:
        server.check(message)
        match message["op"]:
            case "begun":
                server.has_spoken = True
                server.requests[message["id"]].begun = True
            case "ended":
                server.requests.pop(message["id"]).lane.answer(message, data)
            case "cancelled":
                del server.requests[message["id"]]
            case _:
                if not server.has_spoken:
                    self._unfit.add(server.key)
                self._move_on(server, server.unbegun())

    def _ended(self, server: _Server) -> None:
        """Answer the calls of a server that has ended, or hand them to the next."""
        self._selector.unregister(server.stdout)
        self._forget_errors(server.errors)
        self._forget_input(server)
        if self._servers.get(server.key) is server:
            del self._servers[server.key]
        else:
            self._leaving.remove(server)
        code, said = server.end()
        lost = {"op": "lost", "code": code, "said": said}
        is_new = not server.has_spoken and not server.is_cut
        if is_new and code != SSH_FAILED:
            self._unfit.add(server.key)
        unsent = server.unsent_calls()
        for number, request in server.requests.items():
            # Where the connection broke, the word that a call has begun may be lost with it.
            if request.begun or (code == SSH_FAILED and (is_new or number not in unsent)):
                request.lane.answer(lost)
            elif request.lane in self._lanes:
                self._ask(request)
