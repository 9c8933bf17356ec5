"""A site with simulated machines and a real boot server, and what goes wrong with them."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import yaml

from cobweb.cli import main
from cobweb.cli.init import site_files
from cobweb_plugins.metal._client import Client
from cobweb_plugins.metal.simulated import simulate
from tests.support.pool_members import in_child

PORT = 8080
PATIENCE_S = 90.0
SERVES = f"serve {PORT} Hello from {{name}}."


def system(*lines: str, size: int = 0) -> bytes:
    """Return the image of a system with these commands, filled up with empty lines to a size."""
    return "\n".join(["#!simulated-system", *lines, ""]).encode().ljust(size, b"\n")


def until(holds: Callable[[], object]) -> None:
    """Wait until something holds that nobody tells."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class LiveSite:
    """The example in a folder of its own, with machines m01, m02, ...; `data` is its site.yml."""

    def __init__(self, base: Path, *, machines: int = 2) -> None:
        self.folder = base / "site"
        self.machines = base / "machines"
        self.ledger = self.machines / "ledger.jsonl"
        self.events = base / "events-0.jsonl"
        self.sessions: set[int] = set()
        texts = site_files(self.folder, "none", "metal")
        text = re.sub(r"/tmp/cobweb-site-\w+", str(self.machines), texts["site.yml"])  # noqa: S108
        self.data: dict[str, Any] = yaml.safe_load(text)
        self.metal: dict[str, Any] = self.data["metal"]
        kept = sorted(self.metal["machines"])[:machines]
        self.metal["machines"] = {name: dict(self.metal["machines"][name]) for name in kept}
        self.macs = {name: it["mac"] for name, it in self.metal["machines"].items()}
        (self.folder / "images").mkdir(parents=True)
        self.store("web", system(SERVES))

    # --- the site

    @property
    def names(self) -> list[str]:
        """The machines, by id."""
        return sorted(self.metal["machines"])

    @property
    def server(self) -> Path:
        """The folder of the boot server."""
        return self.folder / ".cobweb" / "metal"

    @property
    def url(self) -> str:
        """Where the boot server listens."""
        return f"http://{self.metal['network']['address'].partition('/')[0]}:7480"

    def client(self) -> Client:
        """Return a client of the boot server, as another coordinator has it.

        Its patience is for a server that has written its key and does not listen yet.
        """
        return Client(self.url, str(self.server), patience_s=PATIENCE_S)

    def store(self, image: str, content: bytes) -> str:
        """Make the content of an image, packed; return its digest."""
        digest = hashlib.sha256(content).hexdigest()
        file = f"images/{image}-{digest[:8]}.gz"
        (self.folder / file).write_bytes(gzip.compress(content, 1, mtime=0))
        self.metal["images"][image] = {"file": file, "sha256": digest}
        self.write()
        return digest

    def free(self) -> None:
        """Have machines that are pinned to nothing, which virtual clusters may get."""
        for said in self.metal["machines"].values():
            for key in ("template", "name", "address"):
                del said[key]
        self.write()

    def write(self) -> None:
        """Write site.yml anew."""
        text = yaml.safe_dump(self.data, sort_keys=False)
        (self.folder / "site.yml").write_text(text, encoding="utf-8")

    def begin(self, *arguments: str) -> int:
        """Begin `cobweb apply` as a process with a session of its own; return its pid."""
        self.events = self.folder.parent / f"events-{len(self.sessions) + 1}.jsonl"
        return self.start("apply", "--yes", "--events", str(self.events), *arguments)

    def start(self, *words: str) -> int:
        """Begin a command as a process with a session of its own; return its pid."""

        def work() -> None:
            os.setsid()
            with (self.folder / "apply.log").open("a") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                # Where pytest captures what this process says, these are no files.
                with redirect_stdout(log), redirect_stderr(log):
                    code = main(["-C", str(self.folder), *words])
            os._exit(code)

        pid = in_child(work)
        self.sessions.add(pid)
        return pid

    def said(self) -> str:
        """Return what the runs that were begun have said."""
        return (self.folder / "apply.log").read_text(encoding="utf-8")

    # --- machines

    def switch(self, name: str, action: str) -> str:
        """Switch a machine as a person at it does."""
        mac = self.macs[name]
        return simulate(name, action, folder=self.machines, server=self.url, mac=mac)

    @contextmanager
    def hung(self, name: str) -> Iterator[None]:
        """Have the power of a machine on, and nobody there."""
        with (self.machines / f"{name}.lock").open("r+") as lock:
            kill(int(lock.read()))
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def disk(self, name: str) -> Path:
        """Return the disk of a machine."""
        return self.machines / f"{name}.disk"

    def disks(self) -> dict[str, tuple[bytes, int]]:
        """Return content and time of change of all disks."""
        paths = [self.disk(name) for name in self.names]
        return {it.name: (it.read_bytes(), it.stat().st_mtime_ns) for it in paths if it.exists()}

    def answer(self, name: str) -> str:
        """Return what the system of a machine serves, "" while it serves nothing."""
        return served(self.metal["machines"][name]["address"])

    def history(self, *kinds: str) -> list[tuple[str, str]]:
        """Return machine and event of the lines of the ledger that are of these kinds."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        found = [(each["machine"], each["event"]) for each in map(json.loads, lines)]
        return [each for each in found if not kinds or each[1] in kinds]

    def progress(self) -> int:
        """Return how many lines runs, boot server and machines have written."""
        runs = self.folder.parent.glob("events-*.jsonl")
        paths = (*runs, self.ledger, self.server / "book.jsonl")
        return sum(it.read_bytes().count(b"\n") for it in paths if it.exists())

    # --- processes

    def server_pid(self) -> int:
        """Return the pid of the boot server, 0 where there is none."""
        found = psutil.process_iter(["cmdline"])
        words = {"boot-server", "--folder", str(self.server)}
        return next((it.pid for it in found if words <= set(it.info["cmdline"] or ())), 0)

    def supervisor_pid(self) -> int:
        """Return the pid of what starts the boot server again, 0 where there is none."""
        found = psutil.process_iter(["cmdline"])
        return next((it.pid for it in found if _supervises(it.info["cmdline"], self.folder)), 0)

    def machine_pid(self, name: str) -> int:
        """Return the pid of a machine, 0 while it is off."""
        lock = self.machines / f"{name}.lock"
        return int((lock.read_text() if lock.exists() else "") or 0)

    def processes(self) -> list[int]:
        """Return all that runs of the site: runs, boot server, supervisor, machines."""
        found = psutil.process_iter(["cmdline"])
        base = str(self.folder.parent)
        return [
            it.pid
            for it in found
            if it.pid != os.getpid()
            and (any(base in word for word in it.info["cmdline"] or ()) or self._is_of_run(it.pid))
        ]

    def _is_of_run(self, pid: int) -> bool:
        with suppress(ProcessLookupError):
            return os.getsid(pid) in self.sessions
        return False

    def end(self) -> None:
        """End all that runs of the site, in whatever state that is."""
        for pid in self.sessions:
            with suppress(ChildProcessError):
                kill(pid)
                os.waitpid(pid, 0)
        until(self._end_processes)

    def _end_processes(self) -> bool:
        left = self.processes()
        kill(*left)
        return not left


VICTIMS: dict[str, Callable[[LiveSite, int], list[int]]] = {
    "run": lambda _, run: [run],
    "server": lambda live, _: [live.server_pid()],
    "both": lambda live, run: [run, live.server_pid()],
    "all": lambda live, run: [run, live.supervisor_pid(), live.server_pid()],
    "machine": lambda live, run: [run, live.machine_pid("m01")],
}
"""What dies together with a run, or instead of it."""


def served(address: str) -> str:
    """Return what is served at an address, "" for nothing."""
    with suppress(OSError, HTTPException), urlopen(f"http://{address}:{PORT}/") as answer:
        return str(answer.read().decode())
    return ""


def most_out(history: list[tuple[str, str]]) -> int:
    """Return how many machines were without their system at once."""
    out: set[str] = set()
    most = 0
    for machine, event in history:
        if event == "power-off":
            out.add(machine)
        elif event == "system":
            out.discard(machine)
        most = max(most, len(out))
    return most


def _supervises(words: list[str] | None, folder: Path) -> bool:
    return any(it.endswith("/supervisor.py") and str(folder) in it for it in words or ())


def kill(*pids: int) -> None:
    """Kill processes, of which some may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def ended(pid: int) -> bool:
    """Say whether a child has ended; it stays to be waited for."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, options) is not None


def exit_code(pid: int) -> int:
    """Wait for the end of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
