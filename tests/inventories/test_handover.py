"""The group of Redis servers, for real: its primary moves, and at most one server is ever out."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import pytest
import yaml

from tests.support.needed import need_redis
from tests.support.ports import free_ports
from tests.support.supervised import end_supervised, supervisors

COBWEB = str(Path(sys.executable).with_name("cobweb"))
SITE = Path(__file__).parents[2] / "inventories" / "handover"
STEP_S = 200
ANSWER_S = 2.0
PAUSE_S = 0.02

pytestmark = [
    pytest.mark.full("Redis that hands over: minutes; the gate simulates it"),
    pytest.mark.timeout(3 * STEP_S),
]


class Group:
    """A copy of the site with ports of its own, and the servers as seen from outside."""

    def __init__(self, folder: Path, redis: Path) -> None:
        self.folder = folder / "site"
        self.home = folder / "home"
        shutil.copytree(SITE, self.folder)
        hosts = self._read("hosts.yml")
        self._hosts: dict[str, Any] = hosts["all"]["children"]["redis"]["hosts"]
        self.ports = dict(zip(self._hosts, free_ports(len(self._hosts)), strict=True))
        self._inventory = hosts
        self._write_hosts()
        self.set(redis_home=str(self.home), redis_bin=str(redis))

    def set(self, **variables: Any) -> None:
        """Change variables of all hosts."""
        self._write("group_vars/all.yml", self._read("group_vars/all.yml") | variables)

    def remove(self, host: str) -> None:
        """Take a host out of the inventory."""
        del self._hosts[host]
        self._write_hosts()

    def empty(self) -> None:
        """Take all objects down."""
        site = self.folder / "site.yml"
        site.write_text(f"present: false\n{site.read_text()}", encoding="utf-8")

    def kill(self, host: str) -> None:
        """Kill the server of a host, and what would start it again."""
        (path,) = self.home.glob(f"**/process/{host}%2Fserver/status.json")
        supervisor = psutil.Process(json.loads(path.read_text())["supervisor"][0])
        for process in [supervisor, *supervisor.children(recursive=True)]:
            process.kill()

    def apply(self, *options: str) -> list[dict[str, Any]]:
        """Apply the site, which must end well, and return the events."""
        events = self.folder / "events.jsonl"
        self._cobweb("apply", "--yes", "--events", str(events), *options)
        return [json.loads(line) for line in events.read_text().splitlines()]

    def is_settled(self) -> bool:
        """Say whether a check of everything finds all as it should be."""
        ended = [e for e in self.apply("--refresh", "all") if e["type"] == "transition.end"]
        return ended == []

    def replication(self) -> dict[str, str]:
        """Return `master`, or whose replica a server is, by host; those that answer."""
        names = {str(port): host for host, port in self.ports.items()}
        found = {}
        for host, port in self.ports.items():
            try:
                said = _ask(port, "INFO", "replication")
            except OSError:
                continue
            info = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
            is_primary = info["role"] == "master"
            found[host] = "master" if is_primary else names[info["master_port"]]
        return found

    def _cobweb(self, *arguments: str) -> None:
        done = subprocess.run(
            [COBWEB, "-C", str(self.folder), *arguments],
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _write_hosts(self) -> None:
        for host, variables in self._hosts.items():
            variables["redis_port"] = self.ports[host]
        self._write("hosts.yml", self._inventory)

    def _read(self, name: str) -> dict[str, Any]:
        data: dict[str, Any] = yaml.safe_load((self.folder / name).read_text(encoding="utf-8"))
        return data

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        (self.folder / name).write_text(yaml.safe_dump(dict(data)), encoding="utf-8")


class Observer:
    """Asks all servers again and again, and writes one number after the other to the primary.

    `out` has what was seen out, without repeats; `written` the numbers that were acknowledged;
    `longest_s` is the longest time between two of these.
    """

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = dict(ports)
        self.out: list[frozenset[str]] = []
        self.written: list[int] = []
        self.longest_s = 0.0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=it) for it in (self._look_on, self._write_on)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _look_on(self) -> None:
        while not self._stop.wait(PAUSE_S):
            seen = frozenset(host for host, port in self._ports.items() if not _serves(port))
            if not self.out or self.out[-1] != seen:
                self.out.append(seen)

    def _write_on(self) -> None:
        last = time.monotonic()
        ports = itertools.cycle(self._ports.values())
        port, number = next(ports), 0
        while not self._stop.wait(PAUSE_S):
            try:
                ok = _ask(port, "RPUSH", "numbers", str(number)).startswith(":")
            except OSError:
                ok = False
            if not ok:
                port = next(ports)
                continue
            self.written.append(number)
            number += 1
            self.longest_s = max(self.longest_s, time.monotonic() - last)
            last = time.monotonic()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    """Return the site before its first apply; no server is left after the test."""
    made = Group(tmp_path, need_redis())
    yield made
    end_supervised(made.home)


def test_the_first_installation_goes_side_by_side(group: Group) -> None:
    """No server has served yet, so none takes up room; then the group has one primary."""
    events = group.apply()
    servers = [e for e in events if e.get("cob", "").endswith("/server")]
    kinds = [e["type"] for e in servers if e["type"].startswith("transition.")]
    assert kinds[:2] == ["transition.start", "transition.start"]
    assert group.replication() == {"r1": "master", "r2": "r1", "r3": "r1"}
    assert group.is_settled()


def test_another_primary_is_wished_and_no_server_stops(group: Group) -> None:
    group.apply()
    group.set(redis_primary="r3")
    with Observer(group.ports) as observer:
        group.apply()
    assert observer.out == [frozenset()]
    assert group.replication() == {"r1": "r3", "r2": "r3", "r3": "master"}
    assert _kept(group.ports["r3"], observer.written)
    assert group.is_settled()


def test_a_new_setting_goes_through_the_servers_one_by_one(group: Group) -> None:
    """The primary's server is the last, and its part has moved away before that stops."""
    group.apply()
    with Observer(group.ports) as observer:
        group.set(redis_maxmemory="65mb")
        events = group.apply()
    assert max(map(len, observer.out)) == 1
    assert set().union(*observer.out) == set(group.ports)
    stopped = [e["cob"] for e in events if e["type"] == "transition.start" and e["to"] == "down"]
    assert stopped[-2:] == ["r1/role", "r1/server"]
    assert group.replication() == {"r1": "master", "r2": "r1", "r3": "r1"}
    assert _kept(group.ports["r1"], observer.written)
    memory = [_ask(port, "INFO", "memory") for port in group.ports.values()]
    assert all(f"maxmemory:{65 << 20}\r\n" in said for said in memory)
    assert group.is_settled()


def test_the_primary_moves_to_another_host_and_its_own_is_given_up(group: Group) -> None:
    """With a new setting for those that stay, all in one apply."""
    group.apply()
    with Observer(group.ports) as observer:
        group.set(redis_primary="r2", redis_maxmemory="65mb")
        group.remove("r1")
        group.apply("--max-removals", "5")
        before_end = list(observer.written)
    assert max(len(seen - {"r1"}) for seen in observer.out) == 1
    assert _gone_before_others_go("r1", observer.out)
    assert group.replication() == {"r2": "master", "r3": "r2"}
    assert _kept(group.ports["r2"], before_end)
    assert group.is_settled()


def test_a_primary_that_died_is_replaced_and_comes_back_as_a_replica(group: Group) -> None:
    group.apply()
    with Observer(group.ports) as observer:
        while len(observer.written) < 10:
            time.sleep(PAUSE_S)
    group.kill("r1")
    group.set(redis_primary="r2")
    group.apply("--refresh", "all")
    assert group.replication() == {"r1": "r2", "r2": "master", "r3": "r2"}
    assert _kept(group.ports["r2"], observer.written)
    assert group.is_settled()


def test_the_whole_group_can_be_taken_down(group: Group) -> None:
    group.apply()
    group.empty()
    group.apply()
    assert group.replication() == {}
    assert supervisors(group.home) == []


def _gone_before_others_go(leaving: str, seen: list[frozenset[str]]) -> bool:
    """Say whether nobody else was out until the server that leaves was gone for good."""
    gone = next((n for n, out in enumerate(seen) if leaving in out), len(seen))
    return all(leaving in out for out in seen[gone:])


def _serves(port: int) -> bool:
    try:
        return _ask(port, "PING") == "+PONG"
    except OSError:
        return False


def _kept(port: int, written: list[int]) -> bool:
    """Say whether a server has all numbers that were acknowledged, in their order."""
    assert written
    with _connected(port) as link:
        link.sendall(_command("LRANGE", "numbers", "0", "-1"))
        with link.makefile("rb") as answers:
            count = int(answers.readline()[1:])
            lines = [answers.readline() and answers.readline().strip() for _ in range(count)]
    found = [int(line) for line in lines]
    return found == written or set(written) <= set(found)


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), ANSWER_S)


def _ask(port: int, *words: str) -> str:
    """Send a command and return the answer: a line, or a text."""
    with _connected(port) as link, link.makefile("rb") as answers:
        link.sendall(_command(*words))
        line = answers.readline().decode().strip()
        if not line:
            raise ConnectionResetError
        return answers.read(int(line[1:])).decode() if line.startswith("$") else line


def _command(*words: str) -> bytes:
    parts = [f"*{len(words)}", *(it for word in words for it in (f"${len(word)}", word)), ""]
    return "\r\n".join(parts).encode()
