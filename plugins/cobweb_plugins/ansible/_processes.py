"""Ending a process with all that it started (Linux: /proc and pidfds).

A process group is not enough: ssh and sudo open sessions of their own. What has been handed over to
init (a daemon that a task started on purpose) is not in the tree and lives on.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections import defaultdict
from pathlib import Path

SSH_EXIT_S = 5
FREEZE_ROUNDS = 8
"""How often the tree is looked at while it is stopped; each round ends one generation of forks."""


def descendants(root: int) -> list[int]:
    """Return the pids below `root`, parents before children."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children[parent].append(int(entry.name))
    found: list[int] = []
    queue = [root]
    while queue:
        queue = [child for pid in queue for child in children[pid]]
        found += queue
    return found


def _parent(entry: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return None


class Tree:
    """A process and its descendants at one moment, held so that no reused pid is ever hit.

    `spare` is left alone (a caller that is in the tree itself).
    """

    def __init__(self, root: int, *, spare: int | None = None) -> None:
        self._spare = spare
        self._held: dict[int, int] = {}
        self._hold(root)
        for _ in range(FREEZE_ROUNDS):
            if not self._freeze(root):
                break

    def _hold(self, pid: int) -> bool:
        if pid in self._held or pid == self._spare:
            return False
        with contextlib.suppress(OSError):
            self._held[pid] = os.pidfd_open(pid)
            _send(self._held[pid], signal.SIGSTOP)
            return True
        return False

    def _freeze(self, root: int) -> bool:
        found = [self._hold(pid) for pid in descendants(root)]
        return any(found)

    @property
    def fds(self) -> tuple[int, ...]:
        """Pidfds of the members; each becomes readable when its process has ended."""
        return tuple(self._held.values())

    def terminate(self) -> None:
        """Ask all members to end (sudo hands this on to what it runs as another user)."""
        for signum in (signal.SIGTERM, signal.SIGCONT):
            self._send_all(signum)

    def kill(self) -> None:
        """End all members."""
        self._send_all(signal.SIGKILL)

    def _send_all(self, signum: signal.Signals) -> None:
        for fd in self._held.values():
            _send(fd, signum)

    def gone(self, timeout_s: float = 0.0) -> bool:
        """Say whether all have ended, waiting for at most `timeout_s` for each."""
        return all(select.select([fd], [], [], timeout_s)[0] for fd in self._held.values())

    def close(self) -> None:
        """Let go of the pidfds."""
        while self._held:
            os.close(self._held.popitem()[1])


def _send(fd: int, signum: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(fd, signum)


def end_ssh_masters(folder: Path) -> None:
    """Ask the ssh connections that are shared by sockets in `folder` to end."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(  # no shell; ssh ignores the host name for -O
                ["ssh", "-S", str(path), "-O", "exit", "cobweb"],  # noqa: S607  # as Ansible does
                check=False,
                capture_output=True,
                timeout=SSH_EXIT_S,
            )
