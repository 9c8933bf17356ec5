# SPDX-License-Identifier: GPL-3.0-or-later
"""Strategy plugin that turns an ansible-playbook process into the zygote of Cobweb's lanes.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence.

Theory of operation: ansible-playbook has loaded its configuration, plugins and the inventory when
it asks this strategy to run a play. Instead of walking the play's (empty) task list, the strategy
connects to the coordinator and forks a lane for each `lane` message. A lane is a session of its own
with its own connection; it gets one job after another and runs each as a play of one host. It does
not fork for a task. A thread of each lane watches the connection: when the coordinator is gone, the
lane ends what it runs, and itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ansible.plugins.strategy import StrategyBase, StrategySentinel

from cobweb_plugins.ansible import _broker as broker
from cobweb_plugins.ansible._processes import Tree
from cobweb_plugins.ansible._warm import Servers
from cobweb_plugins.ansible._wire import SOCKET_VARIABLE, LineBuffer, encode
from cobweb_plugins.ansible.strategy.cobweb_jobs import Jobs, rehearse

DOCUMENTATION = """
    name: cobweb_zygote
    short_description: serve jobs of Cobweb instead of a list of tasks
    description: [Connects to E(COBWEB_ANSIBLE_SOCKET) and forks lanes on demand.]
    author: Cobweb
"""

RECEIVE_BYTES = 1 << 16
BACKLOG = 512
GRACE_S = 1.0
BROKER_STARTS = 5
JOBS_PER_LANE = 500
"""A lane ends after so many jobs, so that whatever modules leave in its memory goes with it."""


class StrategyModule(StrategyBase):  # type: ignore[misc]  # ansible-core has no types
    """The zygote: waits for orders, forks lanes, reaps them."""

    def run(self, iterator: Any, play_context: Any) -> int:
        """Serve until the coordinator closes the connection."""
        del iterator, play_context
        self._stop_results_thread()
        path = os.environ.pop(SOCKET_VARIABLE)
        with _connect(path) as connection:
            connection.sendall(encode({"op": "zygote", "pid": os.getpid()}))
            rehearse(self._tqm)
            gc.collect()
            gc.freeze()
            zygote = _Zygote(self._tqm, connection, path)
            zygote.serve()
            zygote.close()
        return int(self._tqm.RUN_OK)

    def _stop_results_thread(self) -> None:
        """Leave one thread, so that a fork cannot find a lock held by another."""
        self._final_q.put(StrategySentinel())
        self._results_thread.join()


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


class _Zygote:
    def __init__(self, tqm: Any, connection: socket.socket, path: str) -> None:
        self._tqm = tqm
        self._connection = connection
        self._path = path
        self._lanes: dict[int, int] = {}
        self._broker = _Broker(f"{path}-{os.getpid()}")
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Fork a lane for each order, until the coordinator says so or is gone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        buffer = LineBuffer()
        watched: list[socket.socket | int] = [self._connection, self._woken]
        while True:
            ready = select.select(watched, [], [])[0]
            if self._woken in ready:
                self._reap(os.WNOHANG)
            if self._connection not in ready:
                continue
            data = self._connection.recv(RECEIVE_BYTES)
            if not data:
                break
            for message in buffer.feed(data):
                self._fork(message["lane"])

    def close(self) -> None:
        """Wait for the lanes, and then for what serves them."""
        self._reap(0)
        self._broker.end()

    def _fork(self, number: int) -> None:
        if self._broker.starts == 0 and _has_others(self._tqm.get_inventory()):
            self._start_broker()
        pid = os.fork()
        if pid:
            self._lanes[pid] = number
            return
        try:
            self._become_lane(number)
        except BaseException:  # noqa: BLE001  # nothing may climb into the zygote's stack
            os._exit(1)

    def _start_broker(self) -> None:
        self._broker.start([self._connection.fileno()])

    def _become_lane(self, number: int) -> NoReturn:
        _stand_alone()
        self._connection.close()
        connection = _connect(self._path)
        connection.sendall(encode({"op": "lane", "lane": number, "pid": os.getpid()}))
        threading.Thread(target=_watch, args=(connection,), daemon=True).start()
        lane = _Lane(self._tqm, connection, self._broker.path)
        lane.serve()
        lane.close()
        os._exit(0)

    def _reap(self, flags: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, RECEIVE_BYTES)
        for pid in tuple(self._lanes):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, flags)[0] == 0:
                    continue
            number = self._lanes.pop(pid)
            with contextlib.suppress(OSError):
                self._connection.sendall(encode({"op": "gone", "lane": number}))
        if flags and self._broker.has_died():
            self._start_broker()


def _stand_alone() -> None:
    """Make a fork of the zygote a process of its own: session, signals, no input or output."""
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd, inheritable=False)


def _has_others(inventory: Any) -> bool:
    """Say whether a host may be another than this machine."""
    hosts = inventory.get_hosts("all", ignore_limits=True, ignore_restrictions=True)
    return any(host.vars.get("ansible_connection") != "local" for host in hosts)


class _Broker:
    """The process that keeps the module servers of other hosts; `pid` is 0 while there is none.

    It ends when all have closed a pipe: this process, and the lanes that were forked from it since.
    One that dies is started anew, `BROKER_STARTS` times; then modules run as Ansible runs them.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.pid = 0
        self.starts = 0
        self._held = -1

    def has_died(self) -> bool:
        """Say, once, whether it has ended, which it never does by itself, and may start again."""
        with contextlib.suppress(ChildProcessError):
            if self.pid and os.waitpid(self.pid, os.WNOHANG)[0]:
                self.pid = 0
                os.close(self._held)
                return self.starts < BROKER_STARTS
        return False

    def start(self, foreign: Sequence[int]) -> None:
        """Fork it; it closes the `foreign` descriptors."""
        self.starts += 1
        with contextlib.suppress(FileNotFoundError):
            Path(self.path).unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen(BACKLOG)
            ours, self._held = os.pipe()
            self.pid = os.fork()
            if self.pid:
                os.close(ours)
                return
            try:
                for fd in (*foreign, self._held):
                    os.close(fd)
                _stand_alone()
                broker.serve(listener, ours)
            finally:
                os._exit(0)

    def end(self) -> None:
        """Let it end, and wait for that."""
        if self.pid:
            os.close(self._held)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)


def _watch(connection: socket.socket) -> None:
    """End this lane and all that it started once the coordinator is gone."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    poll.poll()
    tree = Tree(os.getpid(), spare=os.getpid())
    tree.terminate()
    tree.gone(GRACE_S)
    tree.kill()
    os.kill(os.getpid(), signal.SIGKILL)


class _Lane:
    def __init__(self, tqm: Any, connection: socket.socket, broker: str) -> None:
        self._connection = connection
        self._jobs = Jobs(tqm, self._send, Servers(broker))
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, signal.SIG_DFL)

    def serve(self) -> None:
        with self._connection.makefile("rb") as lines:
            for count, line in enumerate(lines, 1):
                (message,) = LineBuffer().feed(line)
                if message["op"] == "quit":
                    return
                self._send({"op": "begin", "number": message["number"]})
                report = self._jobs.run(message)
                retire = self._jobs.dirty or count >= JOBS_PER_LANE
                self._send({"op": "end", "number": message["number"], "retire": retire, **report})
                if retire:
                    return

    def close(self) -> None:
        """End what has been kept for further jobs."""
        self._jobs.close()

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(encode(message))
