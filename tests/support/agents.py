"""A site whose hosts are this machine, its agents as processes, and `cobweb` as a process.

Keys and the server are made once, by `cobweb agents up`; each test has its site in the same folder,
with the database as it was then, and agents, files and processes in a folder of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from cobweb.api import Site
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import graph_json
from cobweb_plugins.agents import Nats
from cobweb_plugins.agents._address import address_of
from cobweb_plugins.agents._part import COORDINATOR, canonical
from cobweb_plugins.agents._signature import signature
from tests.support.nats_server import free_port
from tests.support.supervised import end_supervised

__all__ = ["HOSTS", "SERVER", "Agent", "Apply", "Base", "Listener", "Owned", "owned", "until"]

HOSTS = ("db", "web1", "web2", "web3")
"""Those that may have agents; `web1` to `web3` are the group `web`."""

SERVER = "n1"
"""The host of the NATS server."""

_BOUND_S = 120
_LOOK_S = 0.02
_OLD = "of old"

Event = Mapping[str, Any]


def until(is_so: Callable[[], Any], what: str) -> None:
    """Wait for an event that nobody tells."""
    end = time.monotonic() + _BOUND_S
    while not is_so():
        assert time.monotonic() < end, f"not within {_BOUND_S} s: {what}"
        time.sleep(_LOOK_S)


class Process:
    """A process of this test, and the file that it writes to."""

    def __init__(self, words: Iterable[object], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cobweb", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def await_line(self, text: str) -> None:
        """Wait until it has said something."""

        def is_said() -> bool:
            has_ended = self.process.poll() is not None
            assert text in self.said or not has_ended, self.said
            return text in self.said

        until(is_said, f"{text}\n{self.log}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        return self.process.wait(_BOUND_S)


class Agent(Process):
    """The agent of one host, which can be started again after its end in the same folder."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name = name
        words = ("agent", "run", "--name", name, "--address", address, "--folder", folder / name)
        super().__init__(words, folder / f"{name}.log", {})


class Apply(Process):
    """One `cobweb apply`."""

    def __init__(self, site: Path, folder: Path, words: Iterable[str], environment: Any) -> None:
        self.file = folder / "events"
        folder.mkdir()
        given = ("-C", site, "apply", "--yes", "--events", self.file, *words)
        super().__init__(given, folder / "log", environment)

    def events(self) -> list[Event]:
        """Return what it has told so far."""
        if not self.file.exists():
            return []
        lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def of_type(self, kind: str) -> list[Event]:
        return [it for it in self.events() if it["type"] == kind]

    def moved(self) -> set[str]:
        """Return the objects of which a transition has begun."""
        return {it["cob"] for it in self.of_type("transition.start")}

    def await_event(self, kind: str, cob: str = "") -> Event:
        """Wait for the first event of a type, of an object."""
        found: list[Event] = []

        def is_told() -> bool:
            has_ended = self.process.poll() is not None
            found[:] = [it for it in self.of_type(kind) if not cob or it["cob"] == cob]
            assert found or not has_ended, self.said
            return bool(found)

        until(is_told, f"{kind} {cob}\n{self.log}")
        return found[0]

    def ends(self, code: int) -> None:
        """Have it end with an exit code."""
        assert self.end() == code, self.said


class Base:
    """The folder of the site, with keys, and a server that is at work."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.nats = folder / "site", folder / "nats"
        self.folder.mkdir()
        self.port = free_port()
        self.write({})
        said = self.call("agents", "up", "--yes", "-o", "json")
        assert said.returncode == 0, said.stderr
        self.address = json.loads(said.stdout)["address"]
        self._kept = folder / "kept"
        shutil.copytree(self.folder / ".cobweb", self._kept)

    def again(self) -> None:
        """Have the state database as it was when the server came up."""
        shutil.rmtree(self.folder / ".cobweb")
        shutil.copytree(self._kept, self.folder / ".cobweb")

    def write(
        self,
        cobs: Mapping[str, Any],
        *,
        agents: Sequence[str] = HOSTS,
        variables: Mapping[str, Mapping[str, Any]] | None = None,
        **sections: Any,
    ) -> None:
        """Write the site; `variables` are those of hosts."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        more = variables or {}
        hosts = {it: dict(more.get(it, {})) for it in (*HOSTS, SERVER)}
        web = {it: None for it in HOSTS if it.startswith("web")}
        site = {
            "cobweb": 1,
            "name": "outside",
            "inventory": {"all": {"hosts": hosts, "children": {"web": {"hosts": web}}}},
            "agents": {
                **({"on": ":".join(agents)} if agents else {"owners": ["nobody"]}),
                "nats": [{"url": f"nats://127.0.0.1:{self.port}", "on": SERVER}],
                "folder": str(self.nats),
                "listen": "127.0.0.1",
            },
            "cobs": dict(cobs),
            **sections,
        }
        site["inventory"]["all"]["vars"] = local
        (self.folder / "site.yml").write_text(json.dumps(site), encoding="utf-8")

    def call(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Call `cobweb` on the site, and wait for its end."""
        return subprocess.run(
            [sys.executable, "-m", "cobweb", "-C", str(self.folder), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_BOUND_S,
            env={**os.environ, **environment},
        )

    def server(self) -> psutil.Process:
        """Return the process of the server."""
        (status,) = self.nats.glob("state/process/*/status.json")
        child: int = json.loads(status.read_text(encoding="utf-8"))["child"][0]
        return psutil.Process(child)

    def take_down(self) -> None:
        end_supervised(self.nats)


class Listener:
    """Who hears what agents say to the coordinator, and can speak as that."""

    def __init__(self, address: str) -> None:
        self._link = Nats().connect(address, COORDINATOR, lambda: None)
        self._seed = address_of(address).keys / f"{COORDINATOR}.seed"
        self._reports: dict[str, Event] = {}

    def close(self) -> None:
        self._link.close()

    def await_report(self, name: str, **wanted: Any) -> None:
        """Wait for a report of an agent, said from now on, that has this in it."""
        self._take()
        self._reports.pop(name, None)

        def is_told() -> bool:
            self._take()
            last = self._reports.get(name, {})
            return all(last.get(key) == it for key, it in wanted.items())

        until(is_told, f"{name} says {wanted}, and not {self._reports.get(name)}")

    def await_reader(self, agent: Agent) -> None:
        """Wait until an agent has read all that was said to it so far: it refuses what is old."""
        seen = agent.said.count(_OLD)
        text = canonical({"epoch": 0, "number": 0, "run": _OLD, "open": False})
        order = {"order": text.decode(), "signature": signature(self._seed, text)}
        self._link.send(agent.name, json.dumps({"paper": "order", **order}).encode())
        until(lambda: agent.said.count(_OLD) > seen, f"{agent.name} reads\n{agent.log}")

    def _take(self) -> None:
        for sender, data in self._link.receive():
            paper = json.loads(data)
            if paper.get("paper") == "report":
                self._reports[sender] = paper


class Owned:
    """The site in one test, with its agents."""

    def __init__(self, base: Base, folder: Path) -> None:
        self.base, self.folder = base, folder
        self.agents: dict[str, Agent] = {}
        self.environment: dict[str, str] = {}
        self._applies: list[Apply] = []
        (folder / "agents").mkdir()
        (folder / "data").mkdir()
        base.again()

    # --- what the site has

    def file(self, host: str, name: str, content: str, **more: Any) -> dict[str, Any]:
        """Return an object that is a file, of one host."""
        spec = {"path": str(self.path(name)), "content": content, **self._state(host)}
        validate = more.pop("validate", None)
        spec |= {"validate": validate} if validate else {}
        return {"type": "file", "on": host, "spec": spec, **more}

    def process(self, on: str, version: str, **more: Any) -> dict[str, Any]:
        """Return objects that are processes, one of each host; they are what `version` says."""
        spec = {"command": ["sleep", "infinity"], "env": {"VERSION": version}, **self._state(on)}
        return {"type": "process", "on": on, "spec": spec, **more}

    def _state(self, on: str) -> dict[str, str]:
        return {"state_dir": str(self.folder / "data" / f"state-{on.replace(':', '-')}")}

    def path(self, name: str) -> Path:
        return self.folder / "data" / name

    def read(self, name: str) -> str | None:
        """Return what a file holds."""
        file = self.path(name)
        return file.read_text(encoding="utf-8") if file.exists() else None

    def gate(self, name: str) -> list[str]:
        """Return what holds a file back until it is opened, as its `validate`."""
        for kind in ("gate", "begun"):
            self.path(f"{name}.{kind}").unlink(missing_ok=True)
        begun, gate = self.path(f"{name}.begun"), self.path(f"{name}.gate")
        return ["sh", "-c", f"touch {begun}; until test -e {gate}; do sleep 0.05; done", "%s"]

    def await_gate(self, *names: str) -> str:
        """Wait until somebody stands at one of these, and return which; no apply ends before."""
        there: list[str] = []

        def is_there() -> bool:
            there[:] = [it for it in names if self.path(f"{it}.begun").exists()]
            last = self._applies[-1]
            assert there or last.process.poll() is None, last.said
            return bool(there)

        until(is_there, f"one of {names} begins")
        return there[0]

    def open_gate(self, name: str) -> None:
        self.path(f"{name}.gate").touch()

    def versions(self) -> dict[str, str]:
        """Return which version lives of each process, by its object."""
        found = {}
        for path in self.folder.glob("data/**/process/*/status.json"):
            pid = json.loads(path.read_text(encoding="utf-8"))["child"][0]
            with_it = psutil.Process(pid).environ()
            found[path.parent.name.replace("%2F", "/")] = with_it["VERSION"]
        return found

    # --- agents

    def start(self, *names: str) -> None:
        """Start agents, and wait until they are let in."""
        for name in names:
            self.agents[name] = Agent(name, self.base.address, self.folder / "agents")
        for name in names:
            self.agents[name].await_line(f"{name} is there")

    def restart(self, name: str) -> None:
        """Start an agent that was killed; wait until it is let in."""
        seen = self.agents[name].said.count("is there")
        agent = self.agents[name] = Agent(name, self.base.address, self.folder / "agents")
        until(lambda: agent.said.count("is there") > seen, f"{name} is there again")

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Hear what agents say to the coordinator."""
        made = Listener(self.base.address)
        try:
            yield made
        finally:
            made.close()

    # --- applies

    def apply(self, *words: str) -> Apply:
        """Begin an apply."""
        folder = self.folder / f"apply {len(self._applies)}"
        made = Apply(self.base.folder, folder, words, self.environment)
        self._applies.append(made)
        return made

    def applied(self, code: int = 0, *words: str) -> Apply:
        """Apply to the end, which has this exit code."""
        made = self.apply(*words)
        made.ends(code)
        return made

    def settles(self) -> None:
        """Have an apply with nothing to do: it ends well and moves nothing."""
        assert self.applied().moved() == set()

    def keeps_promises(self, apply: Apply) -> None:
        """Have the merged events of an apply keep P1 to P5."""
        with Site(self.base.folder) as site:
            assert check_promises(apply.events(), graph_json(site.graph())) == []

    def states(self) -> dict[str, str]:
        """Return what `cobweb status` says, without the server's objects."""
        said = self.base.call("status", "-o", "json", **self.environment)
        found = {it["id"]: it["state"] for it in json.loads(said.stdout)["cobs"]}
        return {cob: it for cob, it in found.items() if not cob.startswith(f"{SERVER}/")}

    def end(self) -> None:
        """End all that this test has started."""
        for it in (*self._applies, *self.agents.values()):
            if it.process.poll() is None:
                it.signal(signal.SIGCONT)
                it.kill()
        for name in self.path("").glob("*.begun"):
            self.open_gate(name.stem)
        end_supervised(self.path(""))
        until(lambda: not _of(self.folder), f"nothing is left of {self.folder}")


def _of(folder: Path) -> list[psutil.Process]:
    """Return the processes that have a folder in their command."""
    return [
        it for it in psutil.process_iter(["cmdline"]) if f"{folder}/" in str(it.info["cmdline"])
    ]


@contextmanager
def owned(base: Base, folder: Path) -> Iterator[Owned]:
    """Have a site for one test."""
    made = Owned(base, folder)
    try:
        yield made
    finally:
        made.end()
