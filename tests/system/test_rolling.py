"""A change of the thing itself takes down no more than it says: four web servers, one at a time.

Seen from outside: an observer knocks at all four ports, again and again, while Cobweb works.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.support.ports import free_ports

COBWEB = str(Path(sys.executable).with_name("cobweb"))
HOSTS = ("w1", "w2", "w3", "w4")
SERVER = """
import socketserver, sys
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(open(sys.argv[2]).read().encode())
if sys.argv[3].startswith("bad"):
    sys.exit("this release does not start")
socketserver.TCPServer.allow_reuse_address = True
socketserver.TCPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Observer:
    """Knocks at all ports in rounds; a round that took long is not kept: it saw no one moment."""

    _LONGEST_ROUND_S = 0.05

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self._stop = threading.Event()
        self.out: list[frozenset[str]] = []
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def most_out(self) -> int:
        """How many were out at once, at most."""
        assert len(self.out) > 20
        return max(map(len, self.out))

    @property
    def seen_out(self) -> frozenset[str]:
        """All that were out at some time."""
        return frozenset().union(*self.out)

    def _look_on(self) -> None:
        while not self._stop.wait(0.005):
            begin = time.monotonic()
            silent = frozenset(host for host, port in self._ports.items() if not _answers(port))
            if time.monotonic() - begin < self._LONGEST_ROUND_S:
                self.out.append(silent)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5):
            return True
    except OSError:
        return False


class Site:
    """Four local web servers with a configuration, at most one of them out at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip(HOSTS, free_ports(len(HOSTS)), strict=True))
        (folder / "server.py").write_text(SERVER, encoding="utf-8")
        state = str(folder / "state")
        conf = f"{folder}/{{{{ inventory_hostname }}}}.conf"
        command = [sys.executable, f"{folder}/server.py", "{{ port }}", conf, "{{ release }}"]
        self.data: dict[str, Any] = {
            "cobweb": 1,
            "name": "roll",
            "inventory": {
                "all": {
                    "vars": {
                        "ansible_connection": "local",
                        "ansible_python_interpreter": sys.executable,
                        "release": "1",
                        "level": 1,
                    },
                    "children": {
                        "app": {"hosts": {h: {"port": self.ports[h]} for h in HOSTS}},
                    },
                }
            },
            "cobs": {
                "conf": {
                    "type": "file",
                    "on": "app",
                    "spec": {"path": conf, "content": "level={{ level }}\n", "state_dir": state},
                    "stops": ["app"],
                },
                "app": {
                    "type": "process",
                    "on": "app",
                    "spec": {
                        "command": command,
                        "listen": "127.0.0.1:{{ port }}",
                        "start_timeout": 5,
                        "state_dir": state,
                    },
                },
            },
            "limits": {"rolling": {"on": "app", "cob": "app", "max": 1, "trust": "1s"}},
        }
        self.write()

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of all hosts."""
        found: dict[str, Any] = self.data["inventory"]["all"]["vars"]
        return found

    def write(self) -> None:
        """Write the site as it is now."""
        text = yaml.safe_dump(self.data, sort_keys=False)
        (self.folder / "site.yml").write_text(text, encoding="utf-8")

    def cobweb(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the site."""
        env = {**os.environ, "NO_COLOR": "1"}
        return subprocess.run(
            [COBWEB, "-C", str(self.folder), *words],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def plan(self) -> dict[str, Any]:
        """Return the plan of what is written."""
        result = self.cobweb("plan", "-o", "json")
        assert result.returncode == 0, result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def change(self, *words: str, code: int = 0) -> tuple[Observer, dict[str, Any]]:
        """Plan and apply what is written, watched from outside; return what was seen, and planned.

        Whoever was seen out must have been named.
        """
        self.write()
        plan = self.plan()
        named = {cob.partition("/")[0] for cob in [*plan["downtime"], *plan["restarts"]]}
        before = frozenset(h for h in self.ports if not _answers(self.ports[h]))
        with Observer(self.ports) as seen:
            result = self.cobweb("apply", "--yes", *words)
        assert result.returncode == code, result.stdout + result.stderr
        assert seen.seen_out - before <= named
        return seen, plan

    def bytes_of(self, hosts: tuple[str, ...]) -> dict[str, object]:
        """Return what the hosts have: files, processes, what the journal says."""
        with closing(sqlite3.connect(self.folder / ".cobweb" / "state.db")) as database:
            records = [
                database.execute(select, [like]).fetchall()
                for host in hosts
                for select, like in (
                    ("SELECT * FROM cobweb_cobs WHERE id LIKE ?", f"{host}/%"),
                    ("SELECT * FROM cobweb_hosts WHERE name = ?", host),
                )
            ]
        files = {host: (self.folder / f"{host}.conf").read_bytes() for host in hosts}
        return {"files": files, "processes": {h: self.pid(h) for h in hosts}, "journal": records}

    def pid(self, host: str) -> int:
        """Return the process that serves on the port of a host."""
        found = [pid for pid, words in _processes() if f" {self.ports[host]} " in f" {words} "]
        served = [pid for pid in found if "server.py" in Path(f"/proc/{pid}/cmdline").read_text()]
        return min(served)

    def kill(self, host: str) -> None:
        """End the server of a host and its supervisor, past Cobweb."""
        home = self.folder / "state" / "process"
        for pid, _ in _processes():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            if str(home) in words and f"{host}%2Fapp" in words:
                os.kill(pid, signal.SIGKILL)
        os.kill(self.pid(host), signal.SIGKILL)


def _processes() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            yield int(folder.name), words.decode(errors="replace")


@contextmanager
def applied(folder: Path) -> Iterator[Site]:
    """Yield the site with all four servers up; they are ended at the end."""
    site = Site(folder)
    try:
        first = site.cobweb("apply", "--yes")
        assert first.returncode == 0, first.stderr
        yield site
    finally:
        site.data["present"] = False
        site.data["limits"] = {}
        site.write()
        site.cobweb("apply", "--yes", "--refresh", "all")


def test_no_change_takes_down_more_than_one(tmp_path: Path) -> None:
    """A release, a configuration, both at once, a rename, a removal: never fewer than three."""
    with applied(tmp_path) as site:
        site.variables["release"] = "2"
        seen, plan = site.change()
        assert seen.most_out <= 1
        assert {*plan["downtime"], *plan["restarts"]} == {f"{host}/app" for host in HOSTS}

        site.variables["level"] = 2
        seen, plan = site.change()
        assert seen.most_out == 1
        assert set(plan["downtime"]) == {f"{host}/app" for host in HOSTS}
        assert (tmp_path / "w3.conf").read_text() == "level=2\n"

        site.variables.update({"release": "3", "level": 3})
        seen, _ = site.change()
        assert seen.most_out == 1
        assert seen.seen_out == set(HOSTS)

        site.data["cobs"]["api"] = site.data["cobs"].pop("app")
        site.data["cobs"]["conf"]["stops"] = ["api"]
        site.data["limits"]["rolling"]["cob"] = "api"
        seen, _ = site.change("--max-removals", "4")
        assert seen.most_out == 1

        del site.data["inventory"]["all"]["children"]["app"]["hosts"]["w4"]
        gone = site.ports.pop("w4")
        seen, plan = site.change("--max-removals", "2")
        assert plan["downtime"].keys() == {"w4/api"}
        assert seen.most_out == 0
        assert not _answers(gone)


def test_a_member_that_died_unnoticed_is_counted(tmp_path: Path) -> None:
    """It is found before anything goes out, repaired first, and nobody else is out meanwhile."""
    with applied(tmp_path) as site:
        site.kill("w3")
        site.variables["level"] = 2
        seen, _ = site.change()
        assert seen.most_out == 1
        assert site.plan()["stages"] == []


def test_a_canary_that_fails_leaves_all_others_as_they_are(tmp_path: Path) -> None:
    """Byte for byte: files, processes, journal; tried again, the same one goes first."""
    with applied(tmp_path) as site:
        site.data["limits"]["rolling"] |= {"first": 1, "pause": "1s"}
        site.variables.update({"release": "bad", "level": 2})
        others = HOSTS[1:]
        before = site.bytes_of(others)
        seen, _ = site.change(code=1)
        assert seen.seen_out == {"w1"}
        assert site.bytes_of(others) == before
        seen, _ = site.change(code=1)
        assert seen.seen_out == {"w1"}
        assert site.bytes_of(others) == before

        site.variables["release"] = "4"
        seen, _ = site.change()
        assert seen.most_out == 1
        assert (tmp_path / "w4.conf").read_text() == "level=2\n"
        assert site.plan()["stages"] == []
