"""A phase of an application on this machine, by the module of its type without Ansible around."""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from tests.support.kills import kill_self_before

__all__ = ["Phase", "killed_at", "killing", "opened_phase", "starts", "wait_for", "wait_starts"]

PATIENCE_S = 90.0
HOSTS = ("h0", "h1", "h2")
MOST_STARTS = 9


@dataclass(slots=True)
class Phase:
    """The phase `ring/compute` of the host h1, with its files below `system`."""

    module: ModuleType
    system: Path
    spec: dict[str, Any] = field(default_factory=dict)
    host: str = "h1"

    @property
    def cob(self) -> dict[str, Any]:
        """Return what its tasks see."""
        return {"id": "h1/compute", "host": self.host, "spec": self.spec, "applied": None}

    @property
    def node(self) -> Path:
        """Return the folder of the application on the node."""
        return self.system / "state" / "applications" / "ring" / self.host

    @property
    def home(self) -> Path:
        """Return the folder of the phase."""
        return self.node / "compute"

    @property
    def status(self) -> dict[str, Any]:
        """Return what its supervisor tells."""
        found: dict[str, Any] = json.loads((self.home / "status.json").read_text())
        return found

    @property
    def output(self) -> str:
        """Return what is kept of what it has printed."""
        files = [self.home / name for name in ("output.1", "output")]
        return "".join(file.read_text() for file in files if file.exists())

    def appoint(
        self, instance: str, hosts: tuple[str, ...] = HOSTS, most: int = MOST_STARTS
    ) -> None:
        """Decide an instance, and send its members; the phase may be started so often at most."""
        self.spec["instance"] = instance
        self.node.mkdir(parents=True, exist_ok=True)
        starts = {it: {"compute": most} for it in hosts}
        told = {"instance": instance, "hosts": hosts, "starts": starts}
        (self.node / "hosts.json").write_text(json.dumps(told))

    def check(self) -> tuple[str, str]:
        """Return state and message."""
        found = self.module.check(self.cob)
        return found["state"], found.get("message", "")

    def start(self) -> bool:
        """Start it; say whether that changed something."""
        return bool(self.module.start(self.cob)["changed"])

    def restart(self) -> bool:
        """Start it again; say whether that changed something."""
        return bool(self.module.restart(self.cob)["changed"])

    def stop(self) -> bool:
        """End it; say whether that changed something."""
        return bool(self.module.stop(self.cob)["changed"])

    def end(self) -> None:
        """Have it taken down that it has ended well."""
        self.module.end(self.cob)

    def run(self, command: str | list[str] | None = None, **spec: Any) -> dict[str, Any]:
        """Start it, wait for its end, and return what its supervisor tells last."""
        if command is not None:
            self.spec["run"] = command
        self.spec |= spec
        self.start()
        return self.wait_ended()

    def wait_ended(self) -> dict[str, Any]:
        """Wait until its supervisor has gone, and return what that told last."""
        with (self.home / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
        return self.status

    def change_supervisor(self, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
        """Have the next starts copy another source of the supervisor to the node."""
        read = inspect.getsource
        assert read(self.module.phase_supervision).count(old) == 1

        def changed(module: ModuleType) -> str:
            return read(module).replace(old, new)

        monkeypatch.setattr(inspect, "getsource", changed)

    def kill_supervisor(self) -> None:
        """Have it lost, once it has told who it is."""
        os.kill(self.status["supervisor"][0], signal.SIGKILL)
        self.wait_ended()

    def processes(self) -> list[int]:
        """Return all processes, supervisors too, that name a folder of this test."""
        found = []
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), *process.environ().values()]
            except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
                continue
            if process.pid != os.getpid() and str(self.system) in " ".join(words):
                found.append(process.pid)
        return found


@contextmanager
def opened_phase(module: ModuleType, system: Path) -> Iterator[Phase]:
    """Give a phase that is decided; in the end nothing of it may be left once it is stopped."""
    spec = {
        "application": "ring",
        "phase": "compute",
        "run": "exec sleep 1000",
        "stop_timeout": 5,
        "state_dir": str(system / "state"),
    }
    phase = Phase(module, system, spec)
    phase.appoint("i1")
    try:
        yield phase
        phase.stop()
        assert phase.processes() == []
    finally:
        for pid in phase.processes():
            os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def starts(phase: Phase) -> int:
    """Return how often the command was started, by its own count."""
    count = phase.system / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


def wait_starts(phase: Phase, count: int) -> None:
    """Wait until the command was started so often."""
    wait_for(lambda: starts(phase) == count)


def killed_at(number: int, phase: Phase, action: Callable[[], object]) -> bool:
    """Carry out an action in a child that kills itself before step `number`; say if it did."""
    with killing(number, phase, action) as codes:
        pass
    assert codes in ([0], [-signal.SIGKILL])
    return codes != [0]


@contextmanager
def killing(number: int, phase: Phase, action: Callable[[], object]) -> Iterator[list[int]]:
    """Carry out an action in a child as long as this is open, and wait; gives how it has ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            kill_self_before(number, _steps(phase))
            action()
            code = 0
        finally:
            os._exit(code)
    codes: list[int] = []
    yield codes
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _steps(phase: Phase) -> list[tuple[Any, str]]:
    """Return what changes something outside of the module."""
    return [
        (Path, "mkdir"),
        (Path, "replace"),
        (os, "kill"),
        (os, "fsync"),
        (os, "fork"),
        (phase.module, "_wait_started"),
        (phase.module.supervision, "terminate"),
    ]
