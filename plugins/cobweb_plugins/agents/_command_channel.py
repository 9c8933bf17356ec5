"""The command channel `agents`: commands over the link of agents; `_commands` has its papers."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError
from cobweb_plugins.agents._address import Address
from cobweb_plugins.agents._commands import ROOM
from cobweb_plugins.agents._company import hosts_with_keys, place_of
from cobweb_plugins.agents._link import NatsLink, connect
from cobweb_plugins.agents._part import COORDINATOR
from cobweb_plugins.agents._signature import signature
from cobweb_plugins.agents._wire import NONSENSE

Sink = Callable[[bytes], None]
"""Takes output as it comes."""

SLICE = 2**19
"""How many bytes of a command's input go in one paper."""

_FOUND_S = 3.0
"""How long a server may take to let the coordinator in, and an agent to say that it is there."""

_SILENT_S = 15.0
"""After how long without a paper of it an agent counts as silent."""

_MOST_CODE = 255

_AGAIN_S = (1.0, 5.0)
"""After how long a paper is sent again, at first and at last."""


class _Exchange:
    """One question to one agent, which is sent until there is an answer, and what comes of it."""

    def __init__(self, host: str, send: Callable[[bytes], None]) -> None:
        self.host, self._send = host, send
        self._came: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._question, self._pause_s = b"", _AGAIN_S[0]

    def say(self, paper: str, **data: Any) -> None:
        """Send a paper once."""
        self._send(json.dumps({"paper": paper, **data}).encode())

    def ask(self, paper: str, **data: Any) -> None:
        """Send a paper, from now on again and again."""
        self._question, self._pause_s = json.dumps({"paper": paper, **data}).encode(), _AGAIN_S[0]
        self._send(self._question)

    def take(self, paper: Mapping[str, Any]) -> None:
        """Take a paper of the agent."""
        self._came.put_nowait(paper)

    async def answer(
        self, silent_s: float, others_s: Callable[[], float] = lambda: 0.0
    ) -> Mapping[str, Any]:
        """Return the next paper; TimeoutError where there is none for so long.

        While others answer, of whom `others_s` says when one was heard last, there may be much to
        do for all: then it may take longer, though not for ever.
        """
        begun_s = time.monotonic()
        while self._came.empty():
            since_s = max(begun_s, min(others_s(), begun_s + _SILENT_S))
            left_s = since_s + silent_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, self._pause_s)):
                    return await self._came.get()
            self._pause_s = min(2 * self._pause_s, _AGAIN_S[1])
            self._send(self._question)
        return self._came.get_nowait()


class AgentChannel:
    """The way to agents, which are `hosts`, over a link that is theirs alone once it is `open`."""

    def __init__(self, hosts: Collection[str], place: Address) -> None:
        self.hosts = hosts
        self._place = replace(place, room=ROOM)
        self._seed = place.keys / f"{COORDINATOR}.seed"
        self._link: NatsLink | None = None
        self._exchanges: dict[str, _Exchange] = {}
        self._nonces: dict[str, str] = {}
        self._heard_s = 0.0

    async def open(self) -> None:
        """Open the link; CobwebError where no server lets the coordinator in."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # after the loop's end
                loop.call_soon_threadsafe(self._take)

        where = (str(self._place), COORDINATOR)
        self._link = await asyncio.to_thread(connect, *where, wake, _FOUND_S)

    async def close(self) -> None:
        """Close the link."""
        if self._link is not None:
            await asyncio.to_thread(self._link.close)

    async def obstacle(self, host: str) -> str:
        """Return "" if an agent says that it is there."""
        session = secrets.token_hex(8)
        exchange = self._exchanges[session] = _Exchange(host, partial(self._send, host))
        try:
            exchange.ask("ask", session=session)
            paper = await exchange.answer(_FOUND_S, lambda: self._heard_s)
            self._nonces[host] = str(paper["nonce"])
        except (TimeoutError, *NONSENSE):
            return "its agent is silent"
        finally:
            del self._exchanges[session]
        return ""

    async def call(
        self, host: str, command: str, *, stdin: Path | None, output: Sink, errors: Sink
    ) -> int:
        """Run a command at an agent, and return its exit code; CobwebError where it is unknown."""
        id_, nonce = secrets.token_hex(16), self._nonces.pop(host)
        size = None if stdin is None else _size(stdin)
        text = json.dumps({"id": id_, "nonce": nonce, "command": command, "stdin": size})
        exchange = self._exchanges[id_] = _Exchange(host, partial(self._send, host))
        try:
            exchange.ask("call", call=text, signature=signature(self._seed, text.encode()))
            return await _ended(exchange, id_, stdin, (output, errors))
        except TimeoutError:
            message = f"its agent has been silent for {_SILENT_S:g} s; how it ended is not known"
            raise CobwebError(message) from None
        except NONSENSE as error:
            raise CobwebError(f"its agent has sent nonsense: {error!r}") from error
        finally:
            del self._exchanges[id_]
            exchange.say("done", id=id_)

    def _send(self, host: str, message: bytes) -> None:
        assert self._link is not None
        self._link.send(host, message)

    def _take(self) -> None:
        """Take what agents have sent; what is no paper, or another coordinator's, is left alone."""
        for sender, data in () if self._link is None else self._link.receive():
            with suppress(*NONSENSE):
                paper = json.loads(data)
                exchange = self._exchanges.get(paper.get("id") or paper.get("session"))
                if exchange is not None and exchange.host == sender:
                    exchange.take(paper)
                    self._heard_s = time.monotonic()


async def _ended(
    exchange: _Exchange, id_: str, stdin: Path | None, sinks: tuple[Sink, Sink]
) -> int:
    """Go along with a command until it has ended; return its exit code."""
    at = [0, 0]
    while True:
        paper = await exchange.answer(_SILENT_S)
        if paper["paper"] == "unknown":
            raise CobwebError("its agent was started again, or has too much to do")
        if paper["paper"] == "want" and stdin is not None:
            offset = int(paper["offset"])
            exchange.say("slice", id=id_, offset=offset, data=_slice(stdin, offset))
        elif paper["paper"] == "data" and paper["at"] == at:
            pieces = [base64.b64decode(paper[name]) for name in ("output", "errors")]
            for place, (sink, piece) in enumerate(zip(sinks, pieces, strict=True)):
                sink(piece)
                at[place] += len(piece)
            if paper["code"] is not None:
                return _checked(int(paper["code"]))
            if any(pieces):
                exchange.ask("read", id=id_, at=at)


def _size(path: Path) -> int:
    return path.stat().st_size


def _slice(path: Path, offset: int) -> str:
    """Return the piece of a file from a place that is in it, as text."""
    if not 0 <= offset < _size(path):
        raise CobwebError(f"its agent wants what {path} has not, or has not any more")
    with path.open("rb") as file:
        file.seek(offset)
        return base64.b64encode(file.read(SLICE)).decode()


def _checked(code: int) -> int:
    """Return an exit code; ValueError for what is none."""
    if not 0 <= code <= _MOST_CODE:
        raise ValueError("exit code")
    return code


@asynccontextmanager
async def channel(site: Any) -> AsyncIterator[AgentChannel | None]:
    """Open the channel to the agents of a site; None where it has none."""
    if not (hosts := hosts_with_keys(site)):
        yield None
        return
    made = AgentChannel(hosts, place_of(site))
    await made.open()
    try:
        yield made
    finally:
        await made.close()
