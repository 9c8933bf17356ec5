"""A scheduler of batch jobs on hosts of a fabric: the host of its master, and its user."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from tests.support.fabric import Fabric, FabricHost

__all__ = ["USER", "Scheduler"]

USER = "batch"
"""Who submits jobs: root may not everywhere."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler whose master is on `master`; `SHOWS` says how all is, where a wait is in vain."""

    fabric: Fabric
    master: FabricHost

    SHOWS: ClassVar[str]
    PATIENCE_S: ClassVar[float]

    def make_users(self) -> None:
        """Make the user on all hosts, if another scheduler has not yet."""
        for host in self.fabric.hosts:
            self.on(host, f"id {USER} 2> /dev/null || useradd -m -u 2000 -s /bin/bash {USER}")

    def say(self, script: str, *, check: bool = True) -> str:
        """Run shell text on the master as root, and return what it printed."""
        return self.on(self.master, script, check=check)

    def say_as_user(self, line: str, *, check: bool = True) -> str:
        """Run shell text on the master as the user, and return what it printed."""
        return self.say(f"su - {USER} -c {shlex.quote(line)}", check=check)

    def on(self, host: FabricHost, script: str, *, check: bool = True) -> str:
        """Run shell text on a host as root, and return what it printed."""
        done = self.fabric.run(host, "bash", "-c", script, check=False, timeout_s=120)
        if check and done.returncode:
            raise AssertionError(f"{script}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def wait_for(
        self, holds: Callable[[], object], what: str, patience_s: float | None = None
    ) -> None:
        """Wait until something holds that nobody tells."""
        deadline = time.monotonic() + (patience_s or self.PATIENCE_S)
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"waited too long: {what}\n{self.say(self.SHOWS, check=False)}"
                )
            time.sleep(0.2)

    def submit(self, command: str, options: str = "") -> str:
        """Submit a job of shell text that may be begun anew; return its number."""
        raise NotImplementedError

    def wait_running(self, job: str) -> None:
        """Wait until a job is at work."""
        raise NotImplementedError

    def let_end(self, job: str) -> None:
        """Take a job away, and wait until it is gone."""
        raise NotImplementedError

    @contextmanager
    def running(self, options: str = "") -> Iterator[str]:
        """Have a job at work until the context ends."""
        job = self.submit("sleep 600", options)
        try:
            self.wait_running(job)
            yield job
        finally:
            self.let_end(job)
