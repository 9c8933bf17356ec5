"""The warm ansible-playbook process as the coordinator sees it: started, asked for lanes, ended."""

from __future__ import annotations

import time
from itertools import count

from cobweb_plugins.ansible._hub import Connection, Hub
from cobweb_plugins.ansible._processes import Tree, end_ssh_masters
from cobweb_plugins.ansible._runner import RunnerThread
from cobweb_plugins.ansible._workspace import Workspace

STARTS = 5
"""How often in a run the process is started; the first start that fails is the last."""
START_LIMIT_S = 180.0
"""Time for ansible-playbook to load its plugins and the inventory (10,000 hosts: some 20 s)."""

PLAYBOOK = [
    {
        "name": "cobweb",
        "hosts": "localhost",
        "gather_facts": False,
        "strategy": "cobweb_zygote",
        "tasks": [],
    }
]


class Zygote:
    """`requested` are the numbers of lanes asked for and not yet connected.

    `broken` says why no lane can come any more, or nothing.
    """

    def __init__(self, workspace: Workspace, hub: Hub) -> None:
        self._workspace = workspace
        self._hub = hub
        self._connection: Connection | None = None
        self._guard: Connection | None = None
        self._guard_pid = 0
        self._runner: RunnerThread | None = None
        self._starts = 0
        self._numbers = count(1)
        self._wanted = 0
        self.requested: set[int] = set()
        self.broken = ""
        self.start_deadline: float | None = None

    def want(self, lanes: int) -> None:
        """Make sure that `lanes` more lanes are on their way."""
        self._wanted = lanes
        if lanes > 0 and self._connection is None and self._runner is None:
            self._start()
        while self._connection is not None and len(self.requested) < self._wanted:
            number = next(self._numbers)
            self.requested.add(number)
            self._connection.send({"op": "lane", "lane": number})

    def connected(self, connection: Connection) -> None:
        """Take the connection of the process that was started."""
        self._connection = connection
        self.start_deadline = None
        self.want(self._wanted)

    def guarded(self, connection: Connection, pid: int) -> None:
        """Take the connection of the guard above the process; it stays open as long as we live."""
        self._guard = connection
        self._guard_pid = pid

    def serve(self) -> None:
        """Act on what came from the process, or on its end."""
        if self._connection is not None:
            for message in self._connection.take():
                self.requested.discard(message["lane"])
            if self._connection.lost:
                self._hub.remove(self._connection)
                self._connection = None
                self.requested.clear()
        if self._runner is None:
            return
        if self.start_deadline is not None and time.monotonic() >= self.start_deadline:
            self.broken = f"it was not ready after {START_LIMIT_S:g} s"
            self.start_deadline = None
            self._kill()
        if self._runner.ended and self._connection is None:
            self._ended(self._runner)

    def _ended(self, runner: RunnerThread) -> None:
        if self.start_deadline is not None or self._starts >= STARTS:
            self.broken = self.broken or runner.problem()
        self._runner = self.start_deadline = None
        if self._guard is not None:
            self._hub.remove(self._guard)
            self._guard = None

    def _kill(self) -> None:
        """Kill the guard and what it runs, if it has said who it is; else it will find us gone."""
        if self._guard is None:
            return
        tree = Tree(self._guard_pid)
        tree.kill()
        tree.close()

    def _start(self) -> None:
        if self.broken:
            return
        self._starts += 1
        self.start_deadline = time.monotonic() + START_LIMIT_S
        workspace = self._workspace
        playbook = workspace.playbook("zygote.yml", PLAYBOOK)
        command = workspace.command(0, str(playbook), ident=f"zygote-{self._starts}")
        self._runner = RunnerThread(command, on_end=self._hub.ping)

    def close(self, limit_s: float) -> None:
        """End the process, which ends after its lanes, within `limit_s`, and what it leaves."""
        self._hub.deafen()
        if self._connection is not None:
            self._hub.remove(self._connection)
            self._connection = None
        else:
            self._kill()
        if self._runner is not None and not self._runner.join(limit_s):
            self._kill()
            self._runner.join()
        end_ssh_masters(self._workspace.sockets / "cp")
