"""Agents of hosts that are all this machine, and the server over which they speak."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks._agents_proc import Memory, cpu_s, memory, named
from benchmarks._tasks_places import Place, tool
from benchmarks._tasks_tools import write_json

THERE_S = 300
"""How long agents may take to be there, or to be at rest again."""

END_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """CPU seconds so far of all agents, and of the server."""

    agents_s: float
    server_s: float

    def since(self, before: Used) -> Used:
        """Return what was used after an earlier look."""
        return Used(
            agents_s=self.agents_s - before.agents_s, server_s=self.server_s - before.server_s
        )


class Agents:
    """Running agents, one for each of the hosts `names`."""

    def __init__(self, place: Place, names: Sequence[str], address: str) -> None:
        self._names, self._lines = names, queue.SimpleQueue[str]()
        self._server = named(str(server_folder(place)))
        self._processes: list[subprocess.Popen[bytes]] = []
        for name in names:
            where = ["--folder", str(place.folder / "homes" / name)]
            process = subprocess.Popen(
                [tool("cobweb"), "agent", "run", "--name", name, "--address", address, *where],
                cwd=place.folder,
                env=place.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            threading.Thread(target=self._hear, args=(process,), daemon=True).start()
            self._processes.append(process)

    def wait(self, hosts: Sequence[str]) -> None:
        """Wait until each agent of some hosts has said once more that it is there.

        An agent that has done something says so when it begins anew, some time later.
        """
        left, until = set(hosts), time.monotonic() + THERE_S
        said: list[str] = []
        while left:
            try:
                line = self._lines.get(timeout=until - time.monotonic())
            except (queue.Empty, ValueError):
                raise RuntimeError(f"not there: {sorted(left)}; said: {said[-5:]}") from None
            left.discard(line.removesuffix(" is there"))
            said.append(line)

    def forget(self) -> None:
        """Pass over what agents have said so far."""
        while not self._lines.empty():
            self._lines.get_nowait()

    def used(self) -> Used:
        """Return what agents and server have used so far."""
        agents = [process.pid for process in self._processes]
        return Used(agents_s=cpu_s(agents), server_s=cpu_s(self._server))

    def memory(self, hosts: Sequence[str]) -> Memory:
        """Return what an agent of some hosts keeps, at the median."""
        pairs = zip(self._names, self._processes, strict=True)
        found = [memory(process.pid) for name, process in pairs if name in hosts]
        return Memory(
            resident=median(it.resident for it in found),
            shared_out=median(it.shared_out for it in found),
        )

    def end(self) -> None:
        """End all agents: by SIGTERM, and those that do not heed it by SIGKILL."""
        for process in self._processes:
            process.terminate()
        until = time.monotonic() + END_S
        for process in self._processes:
            try:
                process.wait(timeout=max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        """Take the lines of one agent; those of several would be mixed in one pipe."""
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put(line.decode(errors="replace").rstrip("\n"))


@contextmanager
def company(place: Place, site: Path) -> Iterator[Agents]:
    """Start the server and the agents of a site; all of that is ended and removed afterwards."""
    with server(place, site) as address:
        agents = Agents(place, sorted(place.hosts), address)
        try:
            agents.wait(sorted(place.hosts))
            yield agents
        finally:
            agents.end()


@contextmanager
def server(place: Place, site: Path) -> Iterator[str]:
    """Give owners keys and start the server of a site; yield the address where they meet.

    The server is ended and removed afterwards.
    """
    cobweb = [tool("cobweb"), "-C", str(site)]
    try:
        told = place.run([*cobweb, "agents", "up", "--yes"], cwd=site).output
        (address,) = [it for it in told.splitlines() if it.startswith("address: ")]
        try:
            yield address.removeprefix("address: ")
        finally:
            written = json.loads((site / "site.yml").read_text(encoding="utf-8"))
            left = {key: it for key, it in written.items() if key not in ("agents", "cobs")}
            write_json(site / "site.yml", left)
            place.run([*cobweb, "apply", "--yes", "--max-removals", "100%"], cwd=site)
    finally:
        for pid in named(str(server_folder(place))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def server_folder(place: Place) -> Path:
    """Return what the server keeps its files in; no other process has it in its command line."""
    return place.folder / "nats"
