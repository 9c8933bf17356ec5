"""Commands at an agent over papers that get lost, come twice or late: begun once, told whole."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from cobweb.errors import CobwebError
from cobweb_plugins.agents import _command_channel, _commands
from cobweb_plugins.agents._address import Address
from cobweb_plugins.agents._command_channel import AgentChannel
from cobweb_plugins.agents._commands import Commands
from cobweb_plugins.agents._keys import public_key
from cobweb_plugins.agents._part import COORDINATOR
from cobweb_plugins.agents._signature import signature
from tests.support.agents import until

HOST = "web1"


class Network:
    """Two ends between which messages are lost, doubled and kept back, by a seed."""

    def __init__(self, seed: int, loss: float) -> None:
        self._random, self._loss = random.Random(seed), loss
        self._lock = threading.Lock()
        self._late: list[tuple[str, str, bytes]] = []
        self.ends: dict[str, End] = {}
        self.sent: list[tuple[str, bytes]] = []
        self.is_cut = False

    def send(self, sender: str, to: str, message: bytes) -> None:
        with self._lock:
            self.sent.append((sender, message))
            waiting, self._late = self._late, []
            for each in (*waiting, (sender, to, message)):
                chance = self._random.random()
                if self.is_cut or chance < self._loss:
                    continue
                if chance > 1 - self._loss / 2:
                    self._late.append(each)
                for _ in range(1 + (chance > 1 - self._loss)):
                    self.ends[each[1]].put(each[0], each[2])


class End:
    """The link of one owner."""

    def __init__(self, network: Network, owner: str, wake: Callable[[], None]) -> None:
        self._network, self._owner, self._wake = network, owner, wake
        self._came: list[tuple[str, bytes]] = []
        network.ends[owner] = self

    def put(self, sender: str, message: bytes) -> None:
        self._came.append((sender, message))
        self._wake()

    def send(self, owner: str, message: bytes) -> None:
        self._network.send(self._owner, owner, message)

    def receive(self) -> Sequence[tuple[str, bytes]]:
        came, self._came = self._came, []
        return came

    def close(self) -> None:
        pass


Maker = Callable[..., tuple[Network, Commands]]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Return a folder with the coordinator's key."""
    public_key(tmp_path / "keys" / f"{COORDINATOR}.seed")
    return tmp_path / "keys"


@pytest.fixture
def made(keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    """Return what makes a network with the commands of one agent, and short pauses."""
    monkeypatch.setattr(_command_channel, "_AGAIN_S", (0.01, 0.05))
    monkeypatch.setattr(_commands, "_AGAIN_S", 0.02)
    all_made: list[Commands] = []

    def make(seed: int = 1, loss: float = 0.0) -> tuple[Network, Commands]:
        network = Network(seed, loss)
        monkeypatch.setattr(
            _command_channel, "connect", lambda _at, who, wake, _s: End(network, who, wake)
        )
        pinned = public_key(keys / f"{COORDINATOR}.seed")
        room: Any = partial(_end, network)
        all_made.append(Commands(pinned, room))
        return network, all_made[-1]

    yield make
    for each in all_made:
        each.close()


def _end(network: Network, _room: str, wake: Callable[[], None]) -> End:
    return End(network, HOST, wake)


async def opened(keys: Path) -> AgentChannel:
    channel = AgentChannel([HOST], Address(servers=("127.0.0.1:1",), keys=keys))
    await channel.open()
    return channel


async def called(
    channel: AgentChannel, command: str, stdin: Path | None = None
) -> tuple[int, bytes]:
    output = bytearray()
    while await channel.obstacle(HOST):
        pass
    take: Callable[[bytes], None] = output.extend
    code = await channel.call(HOST, command, stdin=stdin, output=take, errors=take)
    return code, bytes(output)


@pytest.mark.parametrize("seed", range(6))
def test_a_command_is_begun_once_and_its_answer_is_whole_whatever_gets_lost(
    made: Maker, keys: Path, tmp_path: Path, seed: int
) -> None:
    made(seed, loss=0.3)
    source, runs = tmp_path / "source", tmp_path / "runs"
    source.write_bytes(os.urandom(1_200_000))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()

    async def both() -> list[tuple[int, bytes]]:
        channel = await opened(keys)
        first = await called(channel, f"echo one >> {runs}; head -c 700000 /dev/zero; exit 3")
        return [first, await called(channel, f"echo two >> {runs}; sha256sum", source)]

    first, second = asyncio.run(both())
    assert (first[0], len(first[1]), set(first[1])) == (3, 700_000, {0})
    assert second == (0, f"{digest}  -\n".encode())
    assert runs.read_text(encoding="utf-8").split() == ["one", "two"]


def test_several_commands_at_once_do_not_mix(made: Maker, keys: Path) -> None:
    made(seed=7, loss=0.2)

    async def many() -> list[tuple[int, bytes]]:
        channel = await opened(keys)
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                return [await called(channel, f"echo {it}; exit {it}") for it in range(9)]
        return []

    assert asyncio.run(many()) == [(it, f"{it}\n".encode()) for it in range(9)]


def alive(pid_file: Path) -> bool:
    with suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int(pid_file.read_text(encoding="utf-8")))
        return process.status() != psutil.STATUS_ZOMBIE
    return False


async def begun(pid_file: Path) -> None:
    """Wait until a command has written its process."""
    await asyncio.to_thread(until, lambda: alive(pid_file), "the begin of the command")


@pytest.mark.parametrize("how", ["given up", "forgotten", "agent ended"])
def test_a_command_ends_with_who_wants_it(
    made: Maker,
    keys: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    monkeypatch.setattr(_commands, "FORGET_S", 0.2 if how == "forgotten" else 30.0)
    (network, commands), pid = made(), tmp_path / "pid"

    async def ended() -> None:
        channel = await opened(keys)
        call = asyncio.ensure_future(called(channel, f"sleep 600 & echo $! > {pid}; wait"))
        await begun(pid)
        network.is_cut = how == "forgotten"
        if how == "agent ended":
            commands.close()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(ended())
    until(lambda: not alive(pid), "the end of the command")


def test_a_call_that_comes_again_later_or_is_signed_by_nobody_begins_nothing(
    made: Maker, keys: Path, tmp_path: Path
) -> None:
    (network, _), runs = made(), tmp_path / "runs"

    async def one() -> None:
        assert await called(await opened(keys), f"echo x >> {runs}") == (0, b"")

    asyncio.run(one())
    calls = [it for _, it in network.sent if json.loads(it)["paper"] == "call"]
    forged = json.loads(calls[0])
    forged["call"] = forged["call"].replace("echo x", "echo y")
    seed = tmp_path / "other" / "x.seed"
    public_key(seed)
    signed = {**forged, "signature": signature(seed, forged["call"].encode())}
    for each in (calls[0], json.dumps(forged).encode(), json.dumps(signed).encode(), b"[]", b"{"):
        network.send(COORDINATOR, HOST, each)
    network.send("web2", HOST, calls[0])

    async def after() -> None:  # what was sent before has been taken when this one is answered
        assert await called(await opened(keys), "true") == (0, b"")

    asyncio.run(after())
    assert runs.read_text(encoding="utf-8") == "x\n"


def test_an_agent_that_falls_silent_or_forgets_is_told(
    made: Maker, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_command_channel, "_SILENT_S", 0.3)
    monkeypatch.setattr(_command_channel, "_FOUND_S", 0.2)
    (network, _), pid = made(), tmp_path / "pid"

    async def silent() -> str:
        channel = await opened(keys)
        call = asyncio.ensure_future(called(channel, f"echo $$ > {pid}; exec sleep 600"))
        await begun(pid)
        network.is_cut = True
        with pytest.raises(CobwebError, match="silent"):
            await call
        return await channel.obstacle(HOST)

    assert asyncio.run(silent()) == "its agent is silent"


def test_a_command_is_over_though_its_child_holds_its_output(
    made: Maker, keys: Path, tmp_path: Path
) -> None:
    made()
    pid = tmp_path / "pid"

    async def called_once() -> tuple[int, bytes]:
        return await called(await opened(keys), f"sleep 600 & echo $! > {pid}; echo started")

    try:
        assert asyncio.run(called_once()) == (0, b"started\n")
        assert alive(pid)
    finally:
        os.kill(int(pid.read_text(encoding="utf-8")), 9)


def test_what_does_not_heed_sigterm_is_killed_though_its_parent_does(
    made: Maker, keys: Path, tmp_path: Path
) -> None:
    made()
    pid = tmp_path / "pid"
    deaf = f"sh -c 'trap \"\" TERM; echo $$ > {pid}; sleep 600; sleep 600'; :"

    async def given_up() -> None:
        call = asyncio.ensure_future(called(await opened(keys), deaf))
        await begun(pid)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(given_up())
    until(lambda: not alive(pid), "the end of the command")


@pytest.mark.parametrize(
    ("paper", "said"),
    [
        ({"paper": "want", "offset": -1}, "has not"),
        ({"paper": "want", "offset": 10**9}, "has not"),
        ({"paper": "want", "offset": "x"}, "nonsense"),
        ({"paper": "want"}, "nonsense"),
        ({"paper": "data", "at": [0, 0], "output": "", "errors": "", "code": 256}, "nonsense"),
        ({"paper": "data", "at": [0, 0], "output": "", "errors": "", "code": 1e999}, "nonsense"),
        ({"paper": "data", "at": [0, 0], "output": 7, "errors": "", "code": 0}, "nonsense"),
        ({"paper": "data"}, "nonsense"),
        ({}, "nonsense"),
    ],
    ids=str,
)
def test_an_agent_whose_key_was_stolen_ends_its_own_call_alone(
    made: Maker, keys: Path, tmp_path: Path, paper: dict[str, Any], said: str
) -> None:
    (network, _), pid, source = made(), tmp_path / "pid", tmp_path / "source"
    source.write_bytes(b"x")

    async def stolen() -> None:
        channel = await opened(keys)
        call = asyncio.ensure_future(called(channel, f"echo $$ > {pid}; exec sleep 600", source))
        await begun(pid)
        (text,) = {json.loads(it).get("call") for _, it in network.sent} - {None}
        thief = json.dumps({"id": json.loads(text)["id"], **paper}).encode()
        network.send(HOST, COORDINATOR, thief)
        with pytest.raises(CobwebError, match=said):
            await call

    asyncio.run(stolen())
    until(lambda: not alive(pid), "the end of the command")


def test_a_time_limit_holds_though_papers_come_all_the_time(
    made: Maker, keys: Path, tmp_path: Path
) -> None:
    (network, _), pid, source = made(), tmp_path / "pid", tmp_path / "source"
    source.write_bytes(b"x")

    async def flooded() -> None:
        channel = await opened(keys)
        call = asyncio.ensure_future(called(channel, f"echo $$ > {pid}; exec sleep 600", source))
        await begun(pid)
        (text,) = {json.loads(it).get("call") for _, it in network.sent} - {None}
        want = {"paper": "want", "id": json.loads(text)["id"], "offset": 0}
        flood = json.dumps(want).encode()
        for number in range(300):
            network.send(HOST, COORDINATOR, flood)
            if number % 3 == 0:
                await asyncio.sleep(0)
        call.cancel()  # while there is more to take
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(flooded())
