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
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ansible import constants
from ansible.errors import AnsibleError
from ansible.executor.task_queue_manager import AnsibleEndPlay, TaskQueueManager
from ansible.playbook.play import Play
from ansible.plugins.strategy import StrategyBase, StrategySentinel
from ansible.template import trust_as_template
from ansible.utils.vars import transform_to_native_types

from cobweb_plugins.ansible import _broker as broker
from cobweb_plugins.ansible._hidden import Hidden
from cobweb_plugins.ansible._processes import Tree
from cobweb_plugins.ansible._results import (
    EVENTS,
    MARK_TASK,
    MESSAGE_FACT,
    RESULTS_FACT,
    SAY_FACTS,
    SECRET_FACT,
    Collector,
    TaskEnd,
    bounded,
    facts_of,
)
from cobweb_plugins.ansible._sweep import END_VARIABLE, end_tasks
from cobweb_plugins.ansible._warm import Servers
from cobweb_plugins.ansible._wire import SOCKET_VARIABLE, LineBuffer, encode
from cobweb_plugins.ansible.strategy.cobweb_commands import TOO_MUCH
from cobweb_plugins.ansible.strategy.cobweb_item import bound_memory
from cobweb_plugins.ansible.strategy.cobweb_vaulted import Vaulted, revive

DOCUMENTATION = """
    name: cobweb_zygote
    short_description: serve jobs of Cobweb instead of a list of tasks
    description: [Connects to E(COBWEB_ANSIBLE_SOCKET) and forks lanes on demand.]
    author: Cobweb
"""

VAULT_MARK = "__ansible_vault"
RECEIVE_BYTES = 1 << 16
BACKLOG = 512
GRACE_S = 1.0
BROKER_STARTS = 5
JOBS_PER_LANE = 500
"""A lane ends after so many jobs, so that whatever modules leave in its memory goes with it."""
KEPT_FACTS = "discovered_interpreter_"


class StrategyModule(StrategyBase):  # type: ignore[misc]  # ansible-core has no types
    """The zygote: waits for orders, forks lanes, reaps them."""

    def run(self, iterator: Any, play_context: Any) -> int:
        """Serve until the coordinator closes the connection."""
        del iterator, play_context
        self._stop_results_thread()
        path = os.environ.pop(SOCKET_VARIABLE)
        with _connect(path) as connection:
            connection.sendall(encode({"op": "zygote", "pid": os.getpid()}))
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
        self._jobs = _Jobs(tqm, self._send, Servers(broker))

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


class _Jobs:
    """Runs jobs one after another, each as a play of one host that leaves nothing to the next."""

    def __init__(self, tqm: Any, send: Callable[[dict[str, Any]], None], servers: Servers) -> None:
        self._inventory = tqm.get_inventory()
        self._variables = tqm.get_variable_manager()
        self._loader = tqm.get_loader()
        self._tqm = _LaneQueueManager(
            self._inventory, self._variables, self._loader, tqm.passwords, forks=1
        )
        self._tqm.servers = servers
        self._send = send
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, signal.SIG_DFL)
        self._base_variables = dict(self._variables.extra_vars)
        self._met: dict[str, dict[str, Any]] = {}

    @property
    def dirty(self) -> bool:
        """Whether a job changed what later jobs would see (add_host, group_by)."""
        return bool(self._tqm.dirty)

    def close(self) -> None:
        """End the module servers."""
        self._tqm.servers.close()

    def run(self, message: dict[str, Any]) -> dict[str, Any]:
        """Run one job and return the fields of its report."""
        self._tqm.begin(message.get("mark", ""), partial(self._tell_place, message["number"]))
        self._tqm.fresh = message.get("fresh", False)
        servers = self._tqm.servers
        servers.in_doubt = False
        report = self._report(message)
        return {**report, "in_doubt": servers.in_doubt and report["outcome"] == "failed"}

    def _report(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._run(message)
        except AnsibleError as error:
            text = str(error)
        except MemoryError:
            text = TOO_MUCH
        except Exception as error:  # noqa: BLE001  # the border to modules and plugins
            text = f"Ansible broke: {traceback.format_exception_only(error)[-1]}"
        text = bounded(self._tqm.hidden.text(text))
        return self._tqm.collector.report("failed", message=text)

    def _tell_place(self, number: int, place: dict[str, Any] | None) -> None:
        self._send({"op": "at", "number": number, "place": place})

    def _run(self, message: dict[str, Any]) -> dict[str, Any]:
        host = message["host"]
        self._forget()
        pattern = self._pattern(host)
        with self._variables_of(host, message.get("host_vars", {})):
            try:
                return self._run_with(message, host, pattern)
            finally:
                bound_memory(None)

    def _run_with(self, message: dict[str, Any], host: str, pattern: str) -> dict[str, Any]:
        self._loader.set_basedir(message["basedir"])
        cob = {key: revive(value) for key, value in message.get("cob", {}).items()}
        self._variables._extra_vars = {**self._base_variables, "cob": cob}
        self._tqm.hide(host, cob)
        code = self._play(message, pattern)
        ok = code == self._tqm.RUN_OK and host not in self._tqm._unreachable_hosts
        check = message.get("check", False)
        return self._tqm.collector.end(ok=ok, check=check, facts=self._facts())

    @contextlib.contextmanager
    def _variables_of(self, host: str, host_vars: dict[str, Any]) -> Iterator[None]:
        """Let a host have more variables for one job.

        With others than the last time it may be another machine: then what was found out of it is
        forgotten.
        """
        known = self._inventory.get_host(host)
        if self._met.get(host, host_vars) != host_vars:
            self._variables._fact_cache.set(host, {})
        self._met[host] = host_vars
        usual = known.vars
        known.vars = {**usual, **host_vars}
        try:
            yield
        finally:
            known.vars = usual

    def _facts(self) -> dict[str, Any]:
        """Return what tasks said by facts; a result that shows something vaulted is secret."""
        facts: dict[str, Any] = dict(self._tqm.collector.facts)
        hidden = self._tqm.hidden
        if isinstance(words := facts.get(MESSAGE_FACT), str):
            facts[MESSAGE_FACT] = hidden.text(words)
        if isinstance(results := facts.get(RESULTS_FACT), dict):
            shown = {key for key, value in results.items() if hidden.data(value) != value}
            facts[SECRET_FACT] = [*_listed(facts.get(SECRET_FACT)), *shown]
        return facts

    def _pattern(self, host: str) -> str:
        """Return the pattern that matches this host alone; a name may be a group's as well."""
        self._inventory.remove_restriction()
        if [found.name for found in self._inventory.get_hosts([host])] == [host]:
            return host
        known = self._inventory.get_host(host)
        if known is None or known.name != host:
            raise AnsibleError(f"Ansible does not know the host {host}")
        self._inventory.restrict_to_hosts([known])
        return "all"

    def _play(self, message: dict[str, Any], pattern: str) -> int:
        data: dict[str, Any] = {
            "name": "cobweb",
            "hosts": [pattern],
            "gather_facts": False,
            "strategy": "cobweb_item",
        }
        if first := message.get("first"):
            data["pre_tasks"] = [{"name": MARK_TASK, **_shell(first), "changed_when": False}]
        if message["op"] == "sweep":
            data["tasks"] = [_sweep_task(message["script"], message["place"])]
        elif message.get("end"):
            data["vars"] = {END_VARIABLE: message["end"]}
            data["tasks"] = _trusted(end_tasks())
        elif "role" in message:
            data["roles"] = [{"role": message["role"]}]
        elif "tasks" in message:
            data["tasks"] = [{"ansible.builtin.import_tasks": {"file": message["tasks"]}}]
        play = Play.load(data, variable_manager=self._variables, loader=self._loader)
        try:
            return int(self._tqm.run(play))
        except AnsibleEndPlay as end:
            return int(end.result)

    def _forget(self) -> None:
        """Drop what earlier jobs set: which lane serves a host is chance, so nothing may stay."""
        self._variables._nonpersistent_fact_cache.clear()
        self._variables._vars_cache.clear()
        if constants.CACHE_PLUGIN not in ("memory", "ansible.builtin.memory"):
            return
        cache = self._variables._fact_cache
        for name in list(cache.keys()):
            facts = {k: v for k, v in cache.get(name).items() if k.startswith(KEPT_FACTS)}
            cache.set(name, facts)


def _listed(secret: Any) -> Sequence[Any]:
    return secret if isinstance(secret, list | tuple) else () if secret is None else (secret,)


def _sweep_task(script: str, place: dict[str, Any]) -> dict[str, Any]:
    """Return the task that runs a script where, and as whom, another task has run."""
    return {
        "name": "sweep",
        **_shell(script),
        "delegate_to": place["host"],
        "vars": place["vars"],
        **place["keywords"],
    }


def _trusted(value: Any) -> Any:
    """Let the texts of our own tasks be templates."""
    if isinstance(value, dict):
        return {key: _trusted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_trusted(item) for item in value]
    return trust_as_template(value) if isinstance(value, str) else value


def _shell(script: str) -> dict[str, Any]:
    """Return what makes a task run a script as it is, without Python on the host."""
    return {"ansible.builtin.raw": script, "args": {"executable": "/bin/sh"}}


class _SilentQueue:
    """Takes what workers tell their parent; there is no parent to tell."""

    def get(self) -> NoReturn:
        """End the results thread at once."""
        raise EOFError

    def ignore(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    put = send_callback = send_task_result = send_display = send_prompt = close = ignore


class _LaneQueueManager(TaskQueueManager):  # type: ignore[misc]  # ansible-core has no types
    """Ansible's queue manager for one host, with results collected instead of printed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._final_q.close()
        self._final_q: Any = _SilentQueue()
        self.dirty = False
        self.fresh = False
        self.servers: Servers
        self._vaulted = Vaulted()
        self.begin("", lambda _: None)

    def begin(self, mark: str, tell: Callable[[dict[str, Any] | None], None]) -> None:
        """Forget the last job; `mark` marks what the next one starts, `tell` is told where."""
        self._failed_hosts.clear()
        self._unreachable_hosts.clear()
        self.collector = Collector()
        self.hidden = Hidden()
        self._secret: dict[str, tuple[Any, ...]] = {}
        self.mark = mark
        self._tell = tell
        self._place: dict[str, Any] | None = None

    def hide(self, host: str, cob: Mapping[str, Any]) -> None:
        """Hide what is vaulted in `cob` and in the variables of a host from what is collected."""
        if host not in self._secret:
            known = self.get_inventory().get_host(host)
            self._secret[host] = (cob, {} if known is None else known.vars)
            self.hidden = self._vaulted.hidden(*self._secret.values())

    def at(self, place: dict[str, Any] | None) -> None:
        """Tell where the next task runs: on a remote host, or (None) with us."""
        if place != self._place:
            self._place = place
            self._tell(place)

    def load_callbacks(self) -> None:
        """Load none: results go to the coordinator."""

    def send_callback(self, method_name: str, *args: Any, **kwargs: Any) -> None:
        """Collect the results of tasks."""
        event = method_name.removeprefix("v2_runner_on_")
        if event in EVENTS:
            self._collect(event, args[0], ignored=bool(kwargs.get("ignore_errors")))

    def _collect(self, event: str, result: Any, *, ignored: bool) -> None:
        data = result._return_data
        loop = data.get("results")
        items = (
            data,
            *(i for i in (loop if isinstance(loop, list) else ()) if isinstance(i, dict)),
        )
        self.dirty = self.dirty or any("add_host" in i or "add_group" in i for i in items)
        forgiven = ignored or (event == "unreachable" and bool(result.task.ignore_unreachable))
        other = result.task_fields.get("delegate_to")
        if other not in (None, result.host.name):
            self.hide(str(other), {})
        fields = result.task_fields
        foreign = fields.get("delegate_to") is not None and fields.get("delegate_facts")
        self.collector.add(
            TaskEnd(
                event=event,
                name=self.hidden.text(str(result.task_name)),
                result=self.hidden.data(result.as_callback_task_result().result),
                changed=result.is_changed(),
                ignored=forgiven,
                delegated="" if other in (None, result.host.name) else str(other),
                facts={} if foreign else transform_to_native_types(facts_of(data)),
                says=result.task.action in SAY_FACTS,
            )
        )
