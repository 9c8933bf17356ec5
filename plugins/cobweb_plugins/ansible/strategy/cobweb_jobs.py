# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the jobs of a lane: as plays of one host, or past Ansible where they are direct.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. Private parts that it leans on: `TaskQueueManager._final_q`,
`_failed_hosts`, `_unreachable_hosts`, `VariableManager._extra_vars`, `_nonpersistent_fact_cache`,
`_vars_cache`, `_fact_cache`, `_options_vars`, `Role._role_name`.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.executor.task_queue_manager import AnsibleEndPlay, TaskQueueManager
from ansible.inventory.host import Host
from ansible.playbook.play import Play
from ansible.plugins.loader import action_loader, connection_loader
from ansible.template import trust_as_template
from ansible.utils.vars import transform_to_native_types

from cobweb_plugins.ansible._direct_run import DirectRun, direct_call
from cobweb_plugins.ansible._facts import GATHERED, RunFacts
from cobweb_plugins.ansible._hidden import Hidden
from cobweb_plugins.ansible._results import (
    EVENTS,
    MARK_TASK,
    MESSAGE_FACT,
    RESULTS_FACT,
    SAY_FACTS,
    SECRET_FACT,
    STATE_FACT,
    TOO_MUCH,
    Collector,
    TaskEnd,
    bounded,
    facts_of,
)
from cobweb_plugins.ansible._sweep import END_VARIABLE, end_tasks
from cobweb_plugins.ansible._warm import MARK_ROOM, Servers
from cobweb_plugins.ansible.strategy.cobweb_item import MEMORY_BYTES, bound_memory
from cobweb_plugins.ansible.strategy.cobweb_probe import INTERPRETER, Prober
from cobweb_plugins.ansible.strategy.cobweb_vaulted import Vaulted, revive

__all__ = ["Jobs", "rehearse"]

VAULT_MARK = "__ansible_vault"
REHEARSAL = Path(__file__).with_name("rehearsal.yml")


def rehearse(tqm: Any) -> None:
    """Have all imported and looked up that a lane needs for its first job, once for all lanes."""
    for loader, name in ((connection_loader, "ssh"), (action_loader, "ansible.builtin.normal")):
        loader.get(name, class_only=True)
    usual = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)}
    Jobs(tqm, lambda _: None, Servers()).rehearse()
    for signum, handler in usual.items():  # which Ansible's queue manager sets
        signal.signal(signum, handler)


class Jobs:
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
        self._base_variables = dict(self._variables.extra_vars)
        self._met: dict[str, dict[str, Any]] = {}
        self._codes: dict[str, bytes] = {}
        self._prober = Prober(self._tqm, self._variables, self._loader)
        self._is_usual = _is_usual()
        self._replaced: dict[str, bool] = {}
        self._facts = RunFacts()
        self._keeps_facts = constants.CACHE_PLUGIN not in ("memory", "ansible.builtin.memory")
        if not self._keeps_facts:
            self._variables._fact_cache = self._facts

    @property
    def dirty(self) -> bool:
        """Whether a job changed what later jobs would see (add_host, group_by)."""
        return bool(self._tqm.dirty)

    def close(self) -> None:
        """End the module servers."""
        self._tqm.servers.close()

    def rehearse(self) -> None:
        """Run a job on nobody, and look for the way to nobody; how that goes does not matter."""
        job = {"op": "run", "number": 0, "host": "localhost", "tasks": str(REHEARSAL)}
        self.run({**job, "check": True, "cob": {"state": "up"}, "basedir": str(REHEARSAL.parent)})
        nobody = Host("rehearsal")
        nobody.vars = {"ansible_connection": "ssh", INTERPRETER: sys.executable}
        with contextlib.suppress(Exception):
            self._prober.way(nobody)

    def run(self, message: dict[str, Any]) -> dict[str, Any]:
        """Run one job and return the fields of its report."""
        self._tqm.begin(message.get("mark", ""), partial(self._tell_place, message["number"]))
        self._tqm.fresh = message.get("fresh", False)
        servers = self._tqm.servers
        servers.in_doubt, servers.direct, servers.met = False, None, None
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
        if code := message.get("code"):
            self._codes[message["direct"]["digest"]] = code.encode()
        self._loader.set_basedir(message["basedir"])
        self._forget()
        with self._variables_of(host, message.get("host_vars", {})):
            try:
                report = self._run_direct(message, host) if "direct" in message else None
                return report or self._run_with(message, host, self._pattern(host))
            finally:
                bound_memory(None)
                self._facts.end()

    def _run_direct(self, message: dict[str, Any], host: str) -> dict[str, Any] | None:
        """Run a direct job and return its report; None where Ansible has to do it."""
        direct, cob, servers = message["direct"], message["cob"], self._tqm.servers
        is_long = len(message["mark"]) > len(MARK_ROOM)
        if not self._is_usual or is_long or self._is_replaced(direct["module"]):
            return None
        if VAULT_MARK in json.dumps(cob):
            return None
        met = message["met"] or self._probe(host)
        call = direct_call(direct, self._codes[direct["digest"]], cob)
        if met is None:
            servers.direct = call
            return None
        self._tqm.hide(host, {})
        self._tqm.at(met["place"])
        bound_memory(MEMORY_BYTES if met["way"] else None)
        run = DirectRun(direct=direct, met=met, mark=message["mark"])
        collector = self._tqm.collector
        good = run.run(call, message["first"], servers, collector, self._tqm.hidden)
        if good is None:
            self._tqm.forget_results()
            return None
        report = collector.end(ok=good, check=message["check"], facts=self._said())
        return report if message["met"] else {**report, "met": met}

    def _is_replaced(self, module: str) -> bool:
        """Say whether an action plugin runs in the place of a module."""
        if module not in self._replaced:
            self._replaced[module] = action_loader.has_plugin(module)
        return self._replaced[module]

    def _probe(self, host: str) -> dict[str, Any] | None:
        """Return the way to the module server of a host, if Ansible can tell without a task."""
        met = self._prober.way(self._inventory.get_host(host))
        return met and {**met, "place": self._tqm.remote_place}

    def _run_with(self, message: dict[str, Any], host: str, pattern: str) -> dict[str, Any]:
        cob = {key: revive(value) for key, value in message.get("cob", {}).items()}
        self._variables._extra_vars = {**self._base_variables, "cob": cob}
        self._tqm.hide(host, cob)
        finds = message.get("finds", ())
        self._variables._options_vars["ansible_check_mode"] = bool(finds)
        code = self._play(message, pattern, gathers=self._gathers(message, host))
        ok = code == self._tqm.RUN_OK and host not in self._tqm._unreachable_hosts
        report = self._tqm.collector.end(
            ok=ok,
            check=message.get("check", False),
            asks=message.get("asks", False),
            facts=self._said(),
            finds=finds,
            recorded=message.get("cob", {}).get("recorded"),
        )
        if ok and "direct" in message:
            met = self._tqm.servers.met
            report["met"] = met and {**met, "place": self._tqm.remote_place}
        return report

    @contextlib.contextmanager
    def _variables_of(self, host: str, host_vars: dict[str, Any]) -> Iterator[None]:
        """Let a host have more variables for one job.

        With others than the last time it may be another machine: then what was found out of it is
        forgotten.
        """
        known = self._inventory.get_host(host)
        if known is None or known.name != host:
            raise AnsibleError(f"Ansible does not know the host {host}")
        if self._met.get(host, host_vars) != host_vars:
            self._variables._fact_cache.set(host, {})
        self._met[host] = host_vars
        usual = known.vars
        known.vars = {**usual, **host_vars}
        try:
            yield
        finally:
            known.vars = usual

    def _said(self) -> dict[str, Any]:
        """Return what tasks said by facts; a result that shows something vaulted is secret."""
        facts: dict[str, Any] = dict(self._tqm.collector.facts)
        hidden = self._tqm.hidden
        for name in (MESSAGE_FACT, STATE_FACT):
            if isinstance(words := facts.get(name), str):
                facts[name] = hidden.text(words)
        if isinstance(results := facts.get(RESULTS_FACT), dict):
            shown = {key for key, value in results.items() if hidden.data(value) != value}
            facts[SECRET_FACT] = [*_listed(facts.get(SECRET_FACT)), *shown]
        return facts

    def _pattern(self, host: str) -> str:
        """Return the pattern that matches this host alone; a name may be a group's as well."""
        self._inventory.remove_restriction()
        if [found.name for found in self._inventory.get_hosts([host])] == [host]:
            return host
        self._inventory.restrict_to_hosts([self._inventory.get_host(host)])
        return "all"

    def _gathers(self, message: dict[str, Any], host: str) -> bool:
        """Say whether a job has to gather facts: it asks for some that nobody has gathered yet."""
        subsets = message.get("facts")
        if not subsets or message.get("end"):
            return False
        if self._keeps_facts:
            with contextlib.suppress(KeyError):
                return not self._variables._fact_cache.get(host).get(GATHERED)
            return True
        folder = Path(message["facts_folder"])
        return self._facts.begin(host, message["host_vars"], subsets, folder)

    def _play(self, message: dict[str, Any], pattern: str, *, gathers: bool) -> int:
        data: dict[str, Any] = {
            "name": "cobweb",
            "hosts": [pattern],
            "gather_facts": gathers,
            "strategy": "cobweb_item",
            "check_mode": bool(message.get("finds")),
        }
        if gathers:
            data["gather_subset"] = message["facts"]
        if first := message.get("first"):
            data["pre_tasks"] = [{"name": MARK_TASK, **_shell(first), "changed_when": False}]
        if message["op"] == "sweep":
            data["tasks"] = [_sweep_task(message["script"], message["place"])]
        elif message.get("end"):
            data["vars"] = {END_VARIABLE: message["end"]}
            data["tasks"] = _trusted(end_tasks())
        elif "role" in message:
            data["roles"] = [{"role": message["role"], "vars": _trusted(message["vars"])}]
        elif "tasks" in message:
            data["tasks"] = [{"ansible.builtin.import_tasks": {"file": message["tasks"]}}]
        play = Play.load(data, variable_manager=self._variables, loader=self._loader)
        for role in play.roles:  # which may be given by its path
            if role._role_name.startswith("/"):
                role._role_name = Path(role._role_name).name
        try:
            return int(self._tqm.run(play))
        except AnsibleEndPlay as end:
            return int(end.result)

    def _forget(self) -> None:
        """Drop what earlier jobs set: which lane serves a host is chance, so nothing may stay."""
        self._variables._nonpersistent_fact_cache.clear()
        self._variables._vars_cache.clear()


def _is_usual() -> bool:
    """Say whether no general setting of Ansible has a word on each task."""
    tags = context.CLIARGS.get("skip_tags") or set(context.CLIARGS.get("tags") or ()) - {"all"}
    return not (constants.DEFAULT_NO_LOG or constants.TASK_TIMEOUT or tags)


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
        self.forget_results()
        self.mark = mark
        self._tell = tell
        self._place: dict[str, Any] | None = None
        self.remote_place: dict[str, Any] | None = None

    def forget_results(self) -> None:
        """Forget what tasks have said, and what of it was to be hidden."""
        self.collector = Collector()
        self.hidden = Hidden()
        self._secret: dict[str, tuple[Any, ...]] = {}

    def hide(self, host: str, cob: Mapping[str, Any]) -> None:
        """Hide what is vaulted in `cob` and in the variables of a host from what is collected."""
        if host not in self._secret:
            known = self.get_inventory().get_host(host)
            self._secret[host] = (cob, {} if known is None else known.vars)
            self.hidden = self._vaulted.hidden(*self._secret.values())

    def at(self, place: dict[str, Any] | None) -> None:
        """Tell where the next task runs: on a remote host, or (None) with us."""
        self.remote_place = place or self.remote_place
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
