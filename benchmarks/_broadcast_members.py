"""A site whose hosts have lightweight members for agents, and questions to all of them."""

from __future__ import annotations

import asyncio
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._agents_company import server, server_folder
from benchmarks._agents_proc import cpu_s, named
from benchmarks._agents_work import SERVER, section
from benchmarks._tasks_places import HERE, Place
from benchmarks._tasks_tools import write_json
from cobweb.api import Site
from cobweb.errors import CobwebError
from cobweb_plugins.agents import AgentKind
from cobweb_plugins.applications._broadcast import Answer, Broadcast, Call, Limits

COMMAND = "hostname"
PROCESSES = 16
"""Threads of one Python wait for each other: a few dozen members in each are no crowd yet."""

THERE_S = 300.0
"""How long members may take to be there, at first or again."""

ASK_S = 0.5
"""How often a member that has been killed is asked whether it is there again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """CPU seconds so far of all members with their commands, and of the server."""

    members_s: float
    server_s: float


class Members:
    """Members of all hosts of a place, in PROCESSES processes, and their site."""

    def __init__(self, place: Place, site: Path, address: str) -> None:
        self.site, self._place, self._address = site, place, address
        names = list(place.hosts)
        self._parts = [names[number::PROCESSES] for number in range(PROCESSES)]
        self.quarter = [it for part in self._parts[: PROCESSES // 4] for it in part]
        self._lines = queue.SimpleQueue[str]()
        self._server = named(str(server_folder(place)))
        self._processes = [self._start(part) for part in self._parts]

    def wait(self) -> None:
        """Wait until each member has said that it is there."""
        left, until = set(self._place.hosts), time.monotonic() + THERE_S
        said: list[str] = []
        while left:
            try:
                line = self._lines.get(timeout=until - time.monotonic())
            except (queue.Empty, ValueError):
                raise RuntimeError(f"{len(left)} members not there; said: {said[-5:]}") from None
            left.discard(line.removesuffix(" is there"))
            said.append(line)

    def used(self) -> Used:
        """Return what members and server have used so far."""
        pids = [process.pid for process in self._processes]
        return Used(members_s=cpu_s(pids), server_s=cpu_s(self._server))

    def renew_quarter(self) -> None:
        """Kill the processes of a quarter of the members, and start them again."""
        for process in self._processes[: PROCESSES // 4]:
            process.send_signal(signal.SIGKILL)
            process.wait()
        for number in range(PROCESSES // 4):
            self._processes[number] = self._start(self._parts[number])

    def end(self) -> None:
        """End all members."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, names: Sequence[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._broadcast_member", self._address, *names],
            cwd=HERE,
            env=self._place.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        threading.Thread(target=self._hear, args=(process,), daemon=True).start()
        return process

    def _hear(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put(line.rstrip("\n"))


@contextmanager
def members(place: Place) -> Iterator[Members]:
    """Start members of all hosts of a local place; they and their server are ended afterwards."""
    site = place.folder / "members"
    # Nothing but the member answers for a host: no other way that Cobweb knows leads there.
    hosts: dict[str, Any] = {name: {"ansible_connection": "docker"} for name in place.hosts}
    inventory = {"all": {"vars": dict(place.variables), "hosts": {**hosts, SERVER: {}}}}
    write_json(site / "hosts.yml", inventory)
    written = {"cobweb": 1, "name": "bench", "inventory": "hosts.yml", "agents": section(place)}
    write_json(site / "site.yml", written)
    with server(place, site) as address:
        made = Members(place, site, address)
        try:
            made.wait()
            yield made
        finally:
            made.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """Seconds from the open link until each host had answered, in their order; `failed` did not."""

    answered_s: Sequence[float]
    failed: Sequence[str]


class _TimedAgents(AgentKind):
    """The command channel `agents`, which notes when its link was open."""

    def __init__(self) -> None:
        self.open_s = 0.0

    @asynccontextmanager
    async def open(self, site: Any) -> AsyncIterator[Any]:
        async with super().open(site) as channel:
            self.open_s = time.perf_counter()
            yield channel


def round_trip(folder: Path, hosts: Sequence[str]) -> Trip:
    """Ask hosts of a site at once, as `cobweb run` does, in this process."""
    agents, ends = _TimedAgents(), list[float]()

    def hear(answer: Answer) -> None:
        if answer.code == 0:
            ends.append(time.perf_counter())

    with Site(folder) as site:
        broadcast = Broadcast(site, [agents], Limits(), note=_refuse, hear=hear)
        answers = broadcast.run(dict.fromkeys(hosts, Call(command=COMMAND)))
    failed = [f"{it.host}: {it.reason or it.code}" for it in answers if it.code != 0]
    return Trip(answered_s=[it - agents.open_s for it in ends], failed=failed)


def _refuse(text: str) -> None:
    raise RuntimeError(text)


def until_back(made: Members) -> Sequence[float]:
    """Kill a quarter of the members and start it again; return when each answered, in their order.

    The seconds are from the kill; each is asked every ASK_S seconds.
    """
    with Site(made.site) as site:
        return sorted(asyncio.run(_until_back(site, made)).values())


async def _until_back(site: Site, made: Members) -> Mapping[str, float]:
    hosts = made.quarter
    async with AgentKind().open(site) as channel, asyncio.timeout(THERE_S):
        killed_s = time.perf_counter()
        await asyncio.to_thread(made.renew_quarter)
        ends = await asyncio.gather(*(_answered_s(channel, host) for host in hosts))
    return {host: end - killed_s for host, end in zip(hosts, ends, strict=True)}


async def _answered_s(channel: Any, host: str) -> float:
    """Ask a host again and again; return the time at which its command has ended well."""
    while True:
        try:
            async with asyncio.timeout(ASK_S):
                if await channel.obstacle(host):
                    continue
            if not await channel.call(host, COMMAND, stdin=None, output=_drop, errors=_drop):
                return time.perf_counter()
        except (TimeoutError, CobwebError):
            continue


def _drop(_data: bytes) -> None:
    pass
