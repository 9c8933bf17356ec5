"""A primary and two standbys on hosts made of namespaces, a client, and both tools."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.database import UNIT, Database, make_primary, make_standby
from tests.support.fabric import Fabric, FabricError

HERE = Path(__file__).parent
TOOLS = ("Cobweb", "Ansible")
_COMPLAINT = "insufficient parameter settings"
_CONFIG = """[defaults]
host_key_checking = True
internal_poll_interval = 0.001
timeout = 10
[ssh_connection]
pipelining = True
ssh_args = -C -o ControlMaster=auto -o ControlPersist=60s {}
"""
_ALIVE = "-o ServerAliveInterval=3 -o ServerAliveCountMax=2"
_RUN_S = 240
_WAIT_S = 60
_SETTLE_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a run of a tool ended, and what the client saw meanwhile."""

    code: int
    seconds: float
    output: str
    writes: int = 0
    broken: int = 0
    longest_s: float = 0.0


@dataclass(slots=True)
class Lab:
    """The servers, the primary first; `folder` has the site and the plays."""

    folder: Path
    fabric: Fabric
    servers: tuple[Database, ...]
    wrong_before: int = 0
    logged: dict[str, int] = field(default_factory=dict)

    def run(self, tool: str, connections: int, *options: str) -> Run:
        """Have a tool bring about a value, with a client at work."""
        self._set(connections)
        with self._client() as client:
            began = time.monotonic()
            done = self._start(tool, *options)
            output, _ = done.communicate(timeout=_RUN_S)
            seconds = time.monotonic() - began
            client.send_signal(signal.SIGTERM)
            told, _ = client.communicate(timeout=30)
        seen = json.loads(told.splitlines()[-1])
        return Run(code=done.returncode, seconds=seconds, output=output, **seen)

    def run_with_loss(
        self, tool: str, connections: int, lost: int, when: Callable[[], bool], *options: str
    ) -> Run:
        """Have a tool at work, and cut the power of a server as soon as `when` holds."""
        self._set(connections)
        began = time.monotonic()
        done = self._start(tool, *options)
        cut = threading.Thread(target=self._cut, args=(lost, when, done))
        cut.start()
        output, _ = done.communicate(timeout=_RUN_S)
        seconds = time.monotonic() - began
        cut.join()
        return Run(code=done.returncode, seconds=seconds, output=output)

    def values(self) -> list[str]:
        """Return max_connections of each server, the primary first; "-" where none answers."""
        return [_value(server) for server in self.servers]

    def value(self, number: int) -> str:
        """Return max_connections of one server; "-" while it does not answer."""
        return _value(self.servers[number])

    def complaints(self) -> int:
        """Return how often standbys have logged that they have less than the primary."""
        for server in self.servers[1:]:
            self.logged[server.host.name] = _complaints(
                server, self.logged.get(server.host.name, 0)
            )
        return sum(self.logged.values())

    def wrong_orders(self) -> int:
        """Return how often they said so since the last `heal`."""
        return self.complaints() - self.wrong_before

    def heal(self, connections: int) -> None:
        """Bring all servers to a value by hand, in an order that is always right."""
        standbys = self.servers[1:]
        most = max(connections, *(int(value) for value in self.values()))
        for standby in standbys:
            _set_by_hand(standby, most)
        _await(self.all_stream)
        for server in self.servers:
            _set_by_hand(server, connections)
            _await(self._all_follow)
        self.wrong_before = self.complaints()

    def start(self, number: int) -> None:
        """Give a server its power back, and start its unit as its boot would."""
        self.fabric.start(self.servers[number].host)
        self.servers[number].start()
        _await(lambda: _value(self.servers[number]) != "-")

    def settle(self) -> None:
        """Give standbys the time to replay what there is, as far as they can."""
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline and not self._all_follow():
            time.sleep(0.1)

    def _set(self, connections: int) -> None:
        hosts = {server.host.name: server.host for server in self.servers}
        first, *others = hosts.values()
        inventory = self.fabric.inventory({"primary": [first], "standbys": others})
        inventory["all"]["vars"]["max_connections"] = connections
        (self.folder / "hosts.yml").write_text(json.dumps(inventory, indent=1), encoding="utf-8")

    def _start(self, tool: str, *options: str) -> subprocess.Popen[str]:
        program = Path(sys.executable).with_name
        argv = {
            "Cobweb": [str(program("cobweb")), "-C", str(self.folder), "apply", "--yes"],
            "Ansible": [str(program("ansible-playbook")), "-i", "hosts.yml", "play.yml"],
        }[tool]
        kept = {key: it for key, it in os.environ.items() if not key.startswith("ANSIBLE_")}
        config = {"ANSIBLE_CONFIG": "expert.cfg"} if tool == "Ansible" else {}
        return subprocess.Popen(
            self.fabric.inside(*argv, *options),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**kept, "HOME": str(self.folder), "NO_COLOR": "1", **config},
        )

    @contextmanager
    def _client(self) -> Iterator[subprocess.Popen[str]]:
        program = [sys.executable, str(HERE / "_client.py"), self.servers[0].host.address]
        argv = self.fabric.inside(*program)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            try:
                if client.stdout.readline() != "at work\n":
                    raise RuntimeError("the client cannot write")
                yield client
            finally:
                if client.poll() is None:
                    client.kill()

    def _cut(self, lost: int, when: Callable[[], bool], tool: subprocess.Popen[str]) -> None:
        while tool.poll() is None:
            if when():
                self.fabric.kill(self.servers[lost].host)
                return

    def all_stream(self) -> bool:
        """Say whether the primary sends its log to all standbys."""
        return self._count("state = 'streaming'")

    def _all_follow(self) -> bool:
        """Say whether all standbys have replayed what the primary has written."""
        return self._count("replay_lsn >= pg_current_wal_flush_lsn()")

    def _count(self, what: str) -> bool:
        query = f"SELECT count(*) FROM pg_stat_replication WHERE {what}"  # noqa: S608 - our words
        return self.servers[0].sql(query) == str(len(self.servers) - 1)


@contextmanager
def opened_lab(folder: Path) -> Iterator[Lab]:
    """Set up the servers; `folder` is new and empty."""
    (folder / "fabric").mkdir()
    site = folder / "site"
    shutil.copytree(HERE / "database", site)
    (site / "expert.cfg").write_text(_CONFIG.format(_ALIVE), encoding="utf-8")
    with Fabric(folder / "fabric", plain=0, systemd=3) as fabric:
        primary = make_primary(fabric, fabric.systemd[0])
        primary.sql(
            "CREATE ROLE writer LOGIN; CREATE TABLE heartbeat (at timestamptz DEFAULT now())"
        )
        primary.sql("GRANT ALL ON heartbeat TO writer")
        standbys = (make_standby(primary, host) for host in fabric.systemd[1:])
        lab = Lab(folder=site, fabric=fabric, servers=(primary, *standbys))
        _await(lab.all_stream)
        yield lab


def _value(server: Database) -> str:
    try:
        return server.value()
    except (subprocess.SubprocessError, FabricError):
        return "-"


def _complaints(server: Database, before: int) -> int:
    """Return how often a standby has complained; of one without power, what is known."""
    argv = ("journalctl", "--no-pager", "-o", "cat", "-u", UNIT)
    try:
        text: str = server.fabric.run(server.host, *argv).stdout
    except FabricError:
        return before
    return text.count(_COMPLAINT)


def _set_by_hand(server: Database, value: int) -> None:
    if _value(server) != str(value):
        server.sql(f"ALTER SYSTEM SET max_connections = {value}")
        server.fabric.run(server.host, "systemctl", "reset-failed", UNIT, check=False)
        server.fabric.run(server.host, "systemctl", "restart", UNIT)


def _await(good: Callable[[], Any]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not good():
        if time.monotonic() > deadline:
            raise TimeoutError("the servers do not come back")
        time.sleep(0.1)
