"""Calls to the process in which deciders look and decide, each bounded in time and in size."""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_BEAT_S = 1.0
"""How often it is said, while the process is at work, that the controller lives."""

MOST_ANSWER_BYTES = 16 << 20
"""How long an answer may be."""

_READ_BYTES = 1 << 16
_KEPT_BYTES = 2000
"""How much is kept of what the process has printed."""


class CallError(Exception):
    """A call was not answered, or with an error; says why as what a decider did."""


class Worker:
    """The process, which is there as soon as it is called, and again after it was killed.

    `beat` is called while it is at work.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._process: subprocess.Popen[bytes] | None = None
        self._requests = self._answers = self._noise = -1
        self._printed, self._rest, self._unsent = b"", bytearray(), b""

    def call(self, request: Mapping[str, Any], limit_s: float) -> Mapping[str, Any]:
        """Return the answer to a request; CallError where there is none in this time."""
        token = secrets.token_hex(8)
        try:
            process = self._started()
            self._unsent = f"{json.dumps({**request, 'token': token})}\n".encode()
            end_s = time.monotonic() + limit_s
            answer = self._answer(process, token, end_s, limit_s)
        except BaseException:
            self.end()
            raise
        if "error" in answer:
            raise CallError(answer["error"])
        return dict(answer)

    def _answer(
        self, process: subprocess.Popen[bytes], token: str, end_s: float, limit_s: float
    ) -> dict[str, Any]:
        """Return the answer to the request with a token; errors say in which step there is none."""
        step = ""
        while True:
            try:
                answer = _read(self._line(process, end_s, limit_s))
            except CallError as error:
                raise CallError(f"{error}{step and f', in {step}'}") from error
            if answer.pop("token", "") != token:  # a decider has written there, or has forked
                continue
            if "step" not in answer:
                return answer
            step = answer["step"]

    def end(self) -> None:
        """Kill the process with all that it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        for pid in (process.pid, *_started_by(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # those whose parent has ended before
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (self._requests, self._answers, self._noise):
            os.close(pipe)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.end()  # somebody has ended it between two calls
        if self._process is None:
            requests, self._requests = os.pipe()
            self._answers, answers = os.pipe()
            self._noise, noise = os.pipe()
            self._printed, self._rest = b"", bytearray()
            os.set_blocking(self._requests, False)
            words = [str(it) for it in (requests, answers, os.getpid())]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cobweb_plugins.controller.deciders._worker", *words],
                stdin=subprocess.DEVNULL,
                stdout=noise,
                stderr=noise,
                pass_fds=(requests, answers),
                start_new_session=True,
                env={**os.environ, "NO_COLOR": "1"},
            )
            for pipe in (requests, answers, noise):
                os.close(pipe)
        return self._process

    def _line(self, process: subprocess.Popen[bytes], end_s: float, limit_s: float) -> bytes:
        """Return the line of an answer, after sending the request."""
        beaten_s = 0.0
        with selectors.DefaultSelector() as ready:
            ready.register(self._answers, selectors.EVENT_READ, self._receive)
            ready.register(self._noise, selectors.EVENT_READ, self._hear)
            ready.register(self._requests, selectors.EVENT_WRITE, self._send)
            while (end := self._rest.find(b"\n") + 1) == 0:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    raise CallError(f"took longer than {limit_s:g} s")
                for key, _ in ready.select(min(left_s, _BEAT_S)):
                    if not key.data():
                        ready.unregister(key.fd)
                if self._answers not in ready.get_map():
                    raise CallError(self._ended(process))
                if time.monotonic() >= beaten_s + _BEAT_S:
                    beaten_s = time.monotonic()
                    self._beat()
        line, self._rest = bytes(self._rest[:end]), self._rest[end:]
        return line

    def _send(self) -> bool:
        """Send some of the request; say whether there is more of it that can be sent."""
        with suppress(BlockingIOError):
            try:
                self._unsent = self._unsent[os.write(self._requests, self._unsent) :]
            except BrokenPipeError:  # how it ended is read where an answer would be
                return False
        return bool(self._unsent)

    def _receive(self) -> bool:
        """Take some of an answer; say whether there may be more."""
        data = os.read(self._answers, _READ_BYTES)
        self._rest += data
        if len(self._rest) > MOST_ANSWER_BYTES:
            raise CallError(f"answered more than {MOST_ANSWER_BYTES >> 20} MiB")
        return bool(data)

    def _hear(self) -> bool:
        """Take some of what is printed; say whether there may be more."""
        data = os.read(self._noise, _READ_BYTES)
        self._printed = (self._printed + data)[-_KEPT_BYTES:]
        return bool(data)

    def _ended(self, process: subprocess.Popen[bytes]) -> str:
        try:
            code = process.wait(_BEAT_S)
        except subprocess.TimeoutExpired:
            return "its process has closed the pipe for answers"
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with {code}"
        lines = self._printed.decode(errors="replace").strip().splitlines()
        return f"its process ended {how}{f': {lines[-1]}' if lines else ''}"


def _started_by(pid: int) -> list[int]:
    """Return the processes that one has started, and these in turn, in whichever session."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = path.read_text(errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(path.parent.name))
    found = list(children.get(pid, ()))
    for each in found:
        found += children.get(each, ())
    return found


def _read(line: bytes) -> dict[str, Any]:
    """Return the answer in a line; nothing where there is none."""
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
