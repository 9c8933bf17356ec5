"""Module servers as a lane sees them: those of this machine are its own, others are a broker's.

A module that Ansible would pipe into a new Python goes to a server (`_module_server`) instead.
Whatever is not exactly such a call is none of ours: the callers then do what Ansible does.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import json
import os
import re
import select
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import IO, Any

from cobweb_plugins.ansible._job_marks import MARK_VARIABLE, unguarded
from cobweb_plugins.ansible._wire import Messages, RubbishError, encode

Answer = tuple[int, bytes, bytes]

MAGIC = b"cobweb module server 1\n"
MARK_ROOM = "-" * 64
END_S = 2.0
SSH_FAILED = 255
RECEIVE_BYTES = 1 << 16
NOISE_BYTES = 1 << 16
"""What a login may print before the server speaks."""
LINE_BYTES = 1 << 12
"""The longest line of a message of a server."""
RESULT_BYTES = 16 << 20
"""What a module may write to both of its outputs together."""
ERROR_BYTES = 1 << 16
"""What is kept of the complaints of a server, or of the way to it."""
SHOWN = 60
OPS = ("begun", "ended", "cancelled", "stale")
BOOT = "import os;b=b''\nwhile len(b)<{size}:b+=os.read(0,{size}-len(b)) or exit(1)\nexec(b)"
WRAPPER_CALL = b'\nif __name__ == "__main__":\n    _ansiballz_main(\n'
ARGUMENTS = re.compile(
    rb"ansible_module='[\w.]+',\nmodule_fqn='(?P<module>[\w.]+)',\nprofile='(?P<profile>\w+)',\n"
    rb"date_time=[^\n]*,\nrlimit_nofile=0,\nparams=(?P<params>[^\n]*),\nextensions=\{\},\n"
    rb"zip_data='(?P<zip>[A-Za-z0-9+/=]*)',\n\)\n"
)
PYTHON = re.compile(r"/[\w./+-]*/python[\d.]*", re.ASCII)
THEN = " && sleep 0"


class Lost(Exception):  # noqa: N818  # what it means is for the caller to say
    """The server ended in the middle of a call; `code` is its own, or that of ssh."""

    def __init__(self, code: int, said: bytes) -> None:
        super().__init__(code, said)
        self.code = code
        self.said = said


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a module: its code as base64 of a zip file, its arguments as JSON."""

    module: str
    profile: str
    params: str
    code: bytes
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What would run a module: the interpreter, and the mark of the job."""

    python: str
    mark: str


def call_of(script: bytes) -> Call | None:
    """Return the call that a script of Ansible's wrapper makes; None for any other script."""
    start = script.find(WRAPPER_CALL)
    found = ARGUMENTS.fullmatch(script, start + len(WRAPPER_CALL)) if start >= 0 else None
    if found is None:
        return None
    return Call(
        module=found["module"].decode(),
        profile=found["profile"].decode(),
        params=str(ast.literal_eval(found["params"].decode())),
        code=found["zip"],
        digest=hashlib.sha256(found["zip"]).hexdigest()[:32],
    )


def place_of(command: str) -> Place | None:
    """Return interpreter and mark of `/bin/sh -c 'PYTHON && sleep 0'`, guarded, else None."""
    try:
        shell, option, line = shlex.split(command)
        *words, _, _, _ = shlex.split(line)
    except ValueError:
        return None
    if (shell, option) != ("/bin/sh", "-c") or not line.endswith(THEN):
        return None
    python, mark = unguarded(words) or (words[0] if len(words) == 1 else "", "")
    if len(mark) > len(MARK_ROOM) or not PYTHON.fullmatch(python):
        return None
    return Place(python=python, mark=mark)


def met_at(place: Place, way: Sequence[str], cwd: str) -> dict[str, Any]:
    """Return what leads to a server: its interpreter, the way, and the folder of its modules."""
    return {"python": place.python, "way": list(way), "cwd": cwd}


def start_command(way: Sequence[str], python: str) -> tuple[list[str], bytes]:
    """Return what starts a server, and what is sent to it first."""
    source = (files("cobweb_plugins.ansible") / "_module_server.py").read_bytes()
    boot = BOOT.format(size=len(source))
    command = f"exec env {MARK_VARIABLE}={MARK_ROOM} {python} -c {shlex.quote(boot)}"
    shell = ["/bin/sh", "-c", command]
    return [*way, shlex.join(shell)] if way else shell, source


def message_of(call: Call, *, mark: str, cwd: str) -> dict[str, Any]:
    """Return what a server is told of a call; what it is not told is the code and its `size`."""
    return {
        "module": call.module,
        "profile": call.profile,
        "params": call.params,
        "digest": call.digest,
        "mark": mark,
        "cwd": cwd,
    }


def answers() -> Messages:
    """Return what cuts the words of a server into messages; RubbishError for what is none."""
    return Messages("out", "err", check=_answer, longest=LINE_BYTES)


def _answer(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if (
        not isinstance(message, dict)
        or message.get("op") not in OPS
        or not _is_number(message, "id")
    ):
        raise RubbishError(f"what is no message: {line[:SHOWN]!r}")
    if message["op"] != "ended":
        return {"id": message["id"], "op": message["op"]}
    if not all(_is_number(message, name) for name in ("code", "out", "err")):
        raise RubbishError(f"an end without code and sizes: {line[:SHOWN]!r}")
    size = message["out"] + message["err"]
    if size > RESULT_BYTES:
        raise RubbishError(f"a result of {size} bytes; a module may write {RESULT_BYTES}")
    return message


def _is_number(message: dict[str, Any], name: str) -> bool:
    return type(message.get(name)) is int and message[name] >= 0


class Servers:
    """The servers that a lane can ask: its own on this machine, by a broker those on others.

    `in_doubt` is set once the broker has ended in the middle of a call: nobody knows how that went.
    `met` is what led to the last server that has answered: its interpreter, way and folder.
    `direct` is the call that stands for that of the same module which Ansible has made ready.
    """

    def __init__(self, broker: str = "") -> None:
        self._broker = broker
        self.in_doubt = False
        self.met: dict[str, Any] | None = None
        self.direct: Call | None = None
        self._link: socket.socket | None = None
        self._running: dict[str, _Server] = {}
        self._unfit: set[str] = set()

    def run(
        self, call: Call, place: Place, *, way: Sequence[str] = (), cwd: str = ""
    ) -> Answer | None:
        """Run a module; return exit code and output, None if it has to be run in another way.

        `way` is what stands before the command for another host (ssh ...). Lost where the server
        ended after it had begun, or the host cannot be reached at all.
        """
        if self.direct is not None and self.direct.module == call.module.rpartition(".")[2]:
            call = self.direct
        answer = self._run_there(call, place, way) if way else self._run_here(call, place, cwd)
        self.met = answer and met_at(place, way, cwd)
        return answer

    def _run_there(self, call: Call, place: Place, way: Sequence[str]) -> Answer | None:
        try:
            link = self._link = self._link or _connect(self._broker)
        except OSError:
            return None
        message = message_of(call, mark=place.mark, cwd="")
        asked = {"way": way, "python": place.python, "message": message, "size": len(call.code)}
        try:
            return _ask_broker(link, encode(asked) + call.code)
        except OSError as error:
            self._unlink()
            self.in_doubt = True
            raise Lost(1, f"the broker of module servers is gone: {error}".encode()) from error
        except Lost:
            raise
        except BaseException:  # the broker takes that for our end
            self._unlink()
            raise

    def close(self) -> None:
        """End all servers of this lane."""
        self._unlink()
        for server in self._running.values():
            server.close_input()
        while self._running:
            self._running.popitem()[1].end()

    def _unlink(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _run_here(self, call: Call, place: Place, cwd: str) -> Answer | None:
        key = place.python
        if key in self._unfit:
            return None
        for _ in range(2):  # one that has ended meanwhile, or is stale, and then a new one
            server = self._running.pop(key, None) or _Server(*start_command((), place.python))
            try:
                answer = server.ask(call, mark=place.mark, cwd=cwd)
            except BaseException:  # also that the time of a task is over
                server.end()
                raise
            if answer is not None:
                self._running[key] = server
                return answer
            server.end()
            if server.is_new:
                break
        self._unfit.add(key)
        return None


def _connect(path: str) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect(path)
    except OSError:
        link.close()
        raise
    return link


def _ask_broker(link: socket.socket, data: bytes) -> Answer | None:
    """Send a request and wait for its answer; OSError where the broker ends before."""
    link.sendall(data)
    with link.makefile("rb") as answers:
        line = answers.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError("it ended")
        answer = json.loads(line)
        match answer["op"]:
            case "refused":
                return None
            case "lost":
                raise Lost(answer["code"], answer["said"].encode())
            case _:
                out, err = answers.read(answer["out"]), answers.read(answer["err"])
                return int(answer["code"]), out, err


class _Server:
    """One server; `is_new` until it has answered."""

    def __init__(self, argv: Sequence[str], source: bytes) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the server
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        self._end = os.pidfd_open(self._process.pid)
        self._known: set[str] = set()
        self._buffer = bytearray()
        self._unsent = source
        self._lost: Lost | None = None
        self.is_new = True

    def ask(self, call: Call, *, mark: str, cwd: str) -> Answer | None:
        """Run a module; None where the server did not begin with it, Lost where it did not end."""
        archive = b"" if call.digest in self._known else base64.b64decode(call.code)
        message = {**message_of(call, mark=mark, cwd=cwd), "id": 0, "size": len(archive)}
        begun = self._send(encode(message) + archive) and self._begins()
        if not begun:
            return None
        self.is_new = False
        self._known.add(call.digest)
        ended = self._message()
        if ended is None:
            raise self.end()
        out, err = self._read(ended["out"]), self._read(ended["err"])
        if out is None or err is None:
            raise self.end()
        return int(ended["code"]), out, err

    def close_input(self) -> None:
        """Let the server end once it has nothing to do."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def end(self) -> Lost:
        """End the server (what it runs may end first); return how, and what it said."""
        if self._lost is None:
            self._lost = self._ended()
        return self._lost

    def _ended(self) -> Lost:
        self.close_input()
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        os.close(self._end)
        self._errors.seek(0)
        with self._errors:
            return Lost(code, self._errors.read())

    def _send(self, data: bytes) -> bool:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(self._unsent + data)
            self._process.stdin.flush()
        except OSError:
            return False
        self._unsent = b""
        return True

    def _begins(self) -> bool:
        if self.is_new:
            while MAGIC not in self._buffer:
                if len(self._buffer) > NOISE_BYTES or not self._receive():
                    return False
            self._buffer = self._buffer.partition(MAGIC)[2]
        message = self._message()
        return message is not None and message["op"] == "begun"

    def _message(self) -> dict[str, Any] | None:
        while b"\n" not in self._buffer:
            if not self._receive():
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))

    def _read(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            if not self._receive():
                return None
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _receive(self) -> bool:
        """Read what there is, or wait; say no at the end of the process or of its output."""
        assert self._process.stdout is not None
        stdout = self._process.stdout.fileno()
        if stdout not in select.select([stdout, self._end], [], [])[0]:
            return False
        data = os.read(stdout, RECEIVE_BYTES)
        self._buffer += data
        return bool(data)
