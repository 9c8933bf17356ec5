"""Commands at an agent: what a coordinator has its host run beside all orders.

Theory of operation. Papers may be lost, so a coordinator says the same again until it is answered,
and each paper of a command names it by its id. A command is signed, for a number that its agent
gave out, which is good once: so it is begun once, whatever comes again. Its outputs go out when the
coordinator has said how much of them it has: a command that writes more than is taken waits. A
command ends, too, when nobody has asked for it for a while, and with its agent.

| paper to the agent | says |
|---|---|
| `ask` session | give out a number |
| `call` call, signature | begin it; as `read` of nothing |
| `read` id, at | so much of output and errors is here |
| `slice` id, offset, data | a piece of its input |
| `done` id | end it, and forget it |

| paper of the agent | says |
|---|---|
| `here` session, nonce | a number |
| `data` id, at, output, errors, code | what comes next; with a code it is the last |
| `want` id, offset | the next piece of its input |
| `unknown` id | it is none that this agent knows |
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from cobweb_plugins.agents._link import Room
from cobweb_plugins.agents._part import COORDINATOR
from cobweb_plugins.agents._signature import is_signed
from cobweb_plugins.agents._wire import NONSENSE

ROOM = "commands"
"""The room in which commands are spoken of."""

FORGET_S = 30.0
"""After how long without a paper for it a command is ended."""

_FULL = 2**18
"""How many bytes of each output are held for the coordinator."""

_LARGE = 2**16
"""How many bytes go out before the command has ended."""

_AGAIN_S = 1.0
"""After how long a piece of input is asked for again."""

_QUIET_S = 0.3
"""After how long a command that has ended counts as silent, whoever else holds its outputs."""

_KILL_S, _LOOK_S = 2.0, 0.05
"""How long a command may take to end by SIGTERM, and how often it is looked whether it has."""

_MOST_NONCES = 64
_MOST_RUNS = 64

_LOG = logging.getLogger(__name__)

Tell = Callable[..., None]
"""Sends a paper to the coordinator: its kind, and what it says."""


class Commands:
    """Runs commands in a thread of its own, until it is closed; `pinned` is who may sign them."""

    def __init__(self, pinned: str, room: Callable[[str, Callable[[], None]], Room]) -> None:
        self._pinned = pinned
        self._loop = asyncio.new_event_loop()
        self._stirred = asyncio.Event()
        self._nonces: deque[str] = deque(maxlen=_MOST_NONCES)
        self._runs: dict[str, _Run] = {}
        self._ends: set[asyncio.Future[None]] = set()
        self._is_closing = False
        self._room = room(ROOM, self._stir)
        self._thread = Thread(target=self._work, name=ROOM, daemon=True)
        self._thread.start()

    def is_idle(self) -> bool:
        """Say whether no command is at work."""
        return not self._runs

    def close(self) -> None:
        """End all commands."""
        self._is_closing = True
        self._stir()
        self._thread.join()

    def _stir(self) -> None:
        with suppress(RuntimeError):  # after its end
            self._loop.call_soon_threadsafe(self._stirred.set)

    # --- in the thread

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        while not self._is_closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), _AGAIN_S if self._runs else None)
            self._stirred.clear()
            for sender, data in self._room.receive():
                try:
                    if sender == COORDINATOR:
                        self._take(json.loads(data))
                except NONSENSE as error:
                    _LOG.warning("a paper of the coordinator is none: %r", error)
            for run in list(self._runs.values()):
                if time.monotonic() - run.heard_s > FORGET_S:
                    self._forget(run.id)
        for id_ in list(self._runs):
            self._forget(id_)
        await asyncio.gather(*self._ends)

    def _tell(self, paper: str, **data: Any) -> None:
        self._room.send(COORDINATOR, json.dumps({"paper": paper, **data}).encode())

    def _take(self, paper: Mapping[str, Any]) -> None:
        kind = paper["paper"]
        if kind == "ask":
            self._nonces.append(secrets.token_hex(16))
            self._tell("here", session=str(paper["session"]), nonce=self._nonces[-1])
        elif kind == "call":
            self._call(str(paper["call"]), paper["signature"])
        elif (run := self._runs.get(str(paper["id"]))) is None:
            if kind == "read":
                self._tell("unknown", id=str(paper["id"]))
        elif kind == "done":
            self._forget(run.id)
        else:
            run.take(kind, paper)

    def _call(self, text: str, signature: str) -> None:
        """Begin a command, unless it was begun or is none of now."""
        call = json.loads(text)
        if run := self._runs.get(str(call["id"])):
            run.read((0, 0))  # which anybody may ask for: it need not be signed
        elif not is_signed(self._pinned, text.encode(), signature):
            _LOG.warning("a command was not signed by the coordinator")
        elif call["nonce"] in self._nonces and len(self._runs) < _MOST_RUNS:
            self._nonces.remove(call["nonce"])
            self._runs[call["id"]] = _Run(call["id"], call["command"], call["stdin"], self._tell)
        else:
            self._tell("unknown", id=call["id"])

    def _forget(self, id_: str) -> None:
        end = asyncio.ensure_future(self._runs.pop(id_).end())
        self._ends.add(end)  # or it may be collected before its time
        end.add_done_callback(self._ends.discard)


class _Output:
    """What a command has written to one output and the coordinator has not got: from `start`."""

    def __init__(self) -> None:
        self.start = 0
        self.held = bytearray()
        self.has_room = asyncio.Event()
        self.has_room.set()

    def put(self, data: bytes) -> None:
        self.held += data
        if len(self.held) >= _FULL:
            self.has_room.clear()

    def drop(self, at: int) -> None:
        """Let go what is before a place."""
        del self.held[: max(0, at - self.start)]
        self.start = max(self.start, at)
        if len(self.held) < _FULL:
            self.has_room.set()


class _Run:
    """One command; `stdin` is how many bytes it reads, None for none."""

    def __init__(self, id_: str, command: str, stdin: int | None, tell: Tell) -> None:
        self.id, self._tell, self._stdin = id_, tell, stdin
        self.heard_s = time.monotonic()
        self._outputs = (_Output(), _Output())
        self._code: int | None = None
        self._wanted, self._last = True, (0, 0)
        self._piece: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._process: asyncio.subprocess.Process | None = None
        self._work = asyncio.ensure_future(self._run(command))

    def take(self, kind: str, paper: Mapping[str, Any]) -> None:
        """Take a paper of the coordinator for this command."""
        if kind == "read":
            self.read((int(paper["at"][0]), int(paper["at"][1])))
        elif kind == "slice":
            self.heard_s = time.monotonic()
            self._piece.put_nowait((int(paper["offset"]), base64.b64decode(paper["data"])))

    def read(self, at: tuple[int, int]) -> None:
        """Let go what the coordinator has; what it asks for again it gets at once."""
        self.heard_s = time.monotonic()
        for output, place in zip(self._outputs, at, strict=True):
            output.drop(place)
        is_again, self._last, self._wanted = at == self._last, at, True
        self._answer(now=is_again)

    def _answer(self, *, now: bool = False) -> None:
        """Send what comes next, if the coordinator waits for it and it is worth a paper."""
        output, errors = self._outputs
        is_large = max(len(output.held), len(errors.held)) >= _LARGE
        if self._wanted and (now or is_large or self._code is not None):
            # A mere sign of life is no answer.
            self._wanted = self._code is None and not (output.held or errors.held)
            self._tell(
                "data",
                id=self.id,
                at=[output.start, errors.start],
                output=base64.b64encode(output.held).decode(),
                errors=base64.b64encode(errors.held).decode(),
                code=self._code,
            )

    async def _run(self, command: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _Watched(limit=_LARGE, loop=loop),
                *("/bin/sh", "-c", command),
                cwd=_home(),
                stdin=asyncio.subprocess.DEVNULL
                if self._stdin is None
                else asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._outputs[1].put(f"{error}\n".encode())
            self._code = 127
            self._answer()
            return
        process = self._process = asyncio.subprocess.Process(transport, protocol, loop)
        streams = zip((process.stdout, process.stderr), self._outputs, strict=True)
        pumps = [asyncio.ensure_future(self._pump(*it)) for it in streams]
        feeder = asyncio.ensure_future(self._feed(process.stdin))
        try:
            await protocol.exited.wait()
            while left := [it for it in pumps if not it.done()]:
                done, _ = await asyncio.wait(left, timeout=_QUIET_S)
                if not done and all(it.has_room.is_set() for it in self._outputs):
                    break
        finally:
            for task in (*pumps, feeder):
                task.cancel()
            transport.close()  # pipes that a child holds
        code = transport.get_returncode() or 0
        self._code = code if code >= 0 else 128 - code
        self._answer()

    async def _pump(self, stream: asyncio.StreamReader | None, output: _Output) -> None:
        assert stream is not None
        while data := await stream.read(_LARGE):
            output.put(data)
            self._answer()
            await output.has_room.wait()

    async def _feed(self, stream: asyncio.StreamWriter | None) -> None:
        """Give a command its input, piece by piece as the coordinator sends it."""
        if stream is None or self._stdin is None:
            return
        offset = 0
        with suppress(OSError):  # it reads no more
            while offset < self._stdin:
                self._tell("want", id=self.id, offset=offset)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_AGAIN_S):
                        place, data = await self._piece.get()
                    if place == offset:
                        stream.write(data)
                        await stream.drain()
                        offset += len(data)
        stream.close()

    async def end(self) -> None:
        """End the command, and all that it has started in its session, if it is still at work."""
        if self._process is not None and not self._work.done():
            group, until_s = self._process.pid, time.monotonic() + _KILL_S
            _kill(group, signal.SIGTERM)
            # Nobody tells of the end of a group.
            while _kill(group, 0) and time.monotonic() < until_s:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
            _kill(group, signal.SIGKILL)
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)


class _Watched(asyncio.subprocess.SubprocessStreamProtocol):
    """Says when a process has ended; `Process.wait` waits for all who hold its outputs as well."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Note the end."""
        super().process_exited()
        self.exited.set()


def _home() -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - as it is where there is none
    return home if Path(home).is_dir() else "/"


def _kill(group: int, number: int) -> bool:
    """Send a signal to a group of processes; return whether there is one."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
