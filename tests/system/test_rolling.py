"""A change of the thing itself takes down no more than it says: four web servers, one at a time.

Seen from outside: an observer knocks at all four ports, again and again, while Cobweb works. The
stories follow each other on one site.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.support.nursery import NEVER, Ended, Nursery
from tests.support.ports import free_ports

HOSTS = ("w1", "w2", "w3", "w4")
ALL_APPS = {f"{host}/app" for host in HOSTS}
FIRST_MOMENT, STEP, LEAST_DEATHS = 11, 14, 4
SERVER = """
import os, socketserver, sys, threading
port, conf, release = sys.argv[1:]
text = open(conf).read()
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(f"release={release} {text}".encode())
        heard.append(1)
        if dies and len(heard) == 2:  # the start has found it up, and so has the check after that
            threading.Timer(0.5, os._exit, [3]).start()
heard = []
if release.startswith("bad"):
    sys.exit("this release does not start")
with open(conf + ".starts", "a+") as ledger:
    ledger.write(f"{release}\\n")
    ledger.seek(0)
    dies = release.startswith("dies") and ledger.read().split().count(release) == 1
socketserver.TCPServer.allow_reuse_address = True
socketserver.TCPServer(("127.0.0.1", int(port)), Handler).serve_forever()
"""

pytestmark = [
    pytest.mark.full(
        "eight changes of four web servers; the gate has a rolling change and a canary"
    ),
    pytest.mark.timeout(900),
]


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


def _heard(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as door:
        return door.recv(1000).decode().strip()


class Site:
    """Four local web servers with a configuration, at most one of them out at a time."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self.folder = folder
        self._nursery = nursery
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
            "limits": {"rolling": {"on": "app", "cob": "app", "max": 1}},
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

    def cobweb(self, *words: str, moment: int = NEVER) -> Ended:
        """Run a command on the site, which dies at this moment if it comes to it."""
        return self._nursery.run(moment, ("-C", str(self.folder), *words))

    def plan(self, *words: str) -> dict[str, Any]:
        """Return the plan of what is written."""
        result = self.cobweb("plan", "-o", "json", *words)
        assert result.code == 0, result.err
        found: dict[str, Any] = json.loads(result.out)
        return found

    def change(self, *words: str, code: int = 0) -> tuple[Observer, dict[str, Any]]:
        """Plan and apply what is written, watched from outside; return what was seen, and planned.

        Whoever was seen out must have been named.
        """
        self.write()
        plan = self.plan(*words)
        named = {cob.partition("/")[0] for cob in [*plan["downtime"], *plan["restarts"]]}
        before = frozenset(h for h in self.ports if not _answers(self.ports[h]))
        with Observer(self.ports) as seen:
            result = self.cobweb("apply", "--yes", *words)
        assert result.code == code, result.out + result.err
        assert seen.seen_out - before <= named
        return seen, plan

    def rename(self, old: str, new: str, **more: str) -> None:
        """Give the servers' object another name."""
        body = self.data["cobs"].pop(old)
        body.pop("was", None)
        self.data["cobs"][new] = body | more
        self.data["cobs"]["conf"]["stops"] = [new]
        self.data["limits"]["rolling"]["cob"] = new

    def said(self) -> dict[str, str]:
        """Return what each server says that it lives on."""
        return {host: _heard(port) for host, port in self.ports.items()}

    def starts(self, release: str) -> dict[str, int]:
        """Return how often each server was started with a release."""
        ledgers = {host: self.folder / f"{host}.conf.starts" for host in self.ports}
        return {host: it.read_text().split().count(release) for host, it in ledgers.items()}

    def bytes_of(self, hosts: tuple[str, ...]) -> dict[str, object]:
        """Return what the hosts have: files, processes, what the journal says."""
        with closing(sqlite3.connect(self.folder / ".cobweb" / "state.db")) as database:
            records = [
                database.execute(query, [like]).fetchall()
                for host in hosts
                for query, like in (
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the site with all four servers up; they are ended at the end."""
    folder = tmp_path_factory.mktemp("roll")
    nursery = Nursery(folder, {"NO_COLOR": "1"})
    made = Site(folder, nursery)
    try:
        first = made.cobweb("apply", "--yes")
        assert first.code == 0, first.err
        yield made
    finally:
        made.data["present"] = False
        made.data["limits"] = {}
        made.write()
        made.cobweb("apply", "--yes", "--refresh", "all")
        nursery.close()


@pytest.mark.gate("the story of a rolling change")
def test_a_new_release_takes_down_one_after_the_other(site: Site) -> None:
    site.variables["release"] = "2"
    seen, plan = site.change()
    assert seen.most_out <= 1
    assert {*plan["downtime"], *plan["restarts"]} == ALL_APPS
    assert set(site.said().values()) == {"release=2 level=1"}


def test_a_configuration_that_stops_them_takes_down_one_after_the_other(site: Site) -> None:
    site.variables["level"] = 2
    seen, plan = site.change()
    assert seen.most_out == 1
    assert set(plan["downtime"]) == ALL_APPS
    assert set(site.said().values()) == {"release=2 level=2"}


def test_both_at_once_take_down_one_after_the_other_also_when_killed_and_taken_up(
    site: Site,
) -> None:
    """`kill -9` at some of the writes of the journal: nobody is started twice with a release."""
    deaths = 0
    for moment in range(FIRST_MOMENT, NEVER, STEP):
        level = 10 + deaths
        site.variables.update({"release": f"r{level}", "level": level})
        site.write()
        named = site.plan()["downtime"].keys() if not deaths else ALL_APPS
        assert named == ALL_APPS
        with Observer(site.ports) as seen:
            first = site.cobweb("apply", "--yes", moment=moment)
            last = site.cobweb("apply", "--yes") if first.code else first
        assert first.code in (0, -signal.SIGKILL), (moment, first.err)
        assert last.code == 0, (moment, last.err)
        assert (seen.most_out, seen.seen_out) == (1, frozenset(HOSTS)), moment
        assert set(site.said().values()) == {f"release=r{level} level={level}"}, moment
        assert site.starts(f"r{level}") == dict.fromkeys(HOSTS, 1), moment
        if first.code == 0:
            break
        deaths += 1
    assert deaths >= LEAST_DEATHS


def test_a_member_that_died_unnoticed_is_counted(site: Site) -> None:
    """It is found before anything goes out, repaired first, and nobody else is out meanwhile."""
    site.kill("w3")
    site.data["limits"]["rolling"]["trust"] = "1s"
    site.variables["level"] = 3
    seen, _ = site.change()
    del site.data["limits"]["rolling"]["trust"]
    assert seen.most_out == 1
    assert site.plan()["stages"] == []


@pytest.mark.gate("the story of a canary")
def test_a_canary_that_fails_leaves_all_others_as_they_are(site: Site) -> None:
    """Byte for byte: files, processes, journal; tried again, the same one goes first."""
    site.data["limits"]["rolling"] |= {"first": 1, "pause": "1s"}
    site.variables.update({"release": "bad", "level": 4})
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
    assert set(site.said().values()) == {"release=4 level=4"}
    assert site.plan()["stages"] == []


def test_a_canary_that_dies_in_its_pause_and_is_started_again_is_not_let_through(
    site: Site,
) -> None:
    """It serves when the pause is over, by its supervisor's doing; the release did not last."""
    site.data["limits"]["rolling"] |= {"first": 1, "pause": "4s"}
    site.variables["release"] = "dies"
    others = HOSTS[1:]
    before = site.bytes_of(others)
    site.write()
    result = site.cobweb("apply", "--yes")
    assert result.code == 1, result.err
    assert "was started again by its supervisor" in " ".join(result.err.split())
    assert site.bytes_of(others) == before
    assert site.starts("dies")["w1"] == 2

    site.variables["release"] = "5"
    site.data["limits"]["rolling"]["pause"] = "1s"
    seen, _ = site.change()
    assert seen.most_out == 1
    assert {said.split()[0] for said in site.said().values()} == {"release=5"}


def test_a_restart_restarts_all_one_after_the_other(site: Site) -> None:
    site.write()
    release = str(site.variables["release"])
    before, starts = {host: site.pid(host) for host in HOSTS}, site.starts(release)
    said = site.said()
    with Observer(site.ports) as seen:
        result = site.cobweb("restart", *sorted(ALL_APPS), "--yes")
    assert result.code == 0, result.err
    assert seen.most_out <= 1
    assert not {site.pid(host) for host in HOSTS} & set(before.values())
    assert site.starts(release) == {host: count + 1 for host, count in starts.items()}
    assert site.said() == said


def test_a_name_that_is_told_moves_nothing_and_an_untold_one_one_after_the_other(
    site: Site,
) -> None:
    del site.data["limits"]["rolling"]["first"], site.data["limits"]["rolling"]["pause"]
    before = {host: site.pid(host) for host in HOSTS}
    site.rename("app", "web", was="app")
    seen, _ = site.change()
    assert seen.most_out == 0
    assert {host: site.pid(host) for host in HOSTS} == before

    site.rename("web", "api")
    seen, _ = site.change("--max-removals", "4")
    assert (seen.most_out, seen.seen_out) == (1, frozenset(HOSTS))
    assert site.plan()["stages"] == []


def test_a_removal_takes_down_no_other(site: Site) -> None:
    del site.data["inventory"]["all"]["children"]["app"]["hosts"]["w4"]
    gone = site.ports.pop("w4")
    seen, plan = site.change("--max-removals", "2")
    assert plan["downtime"].keys() == {"w4/api", "w4/conf"}
    assert seen.most_out == 0
    assert not _answers(gone)
