# SPDX-License-Identifier: GPL-3.0-or-later
"""Strategy plugin that runs each task in the process of the strategy, without a fork.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. Everything but the way a task is started is Ansible's own linear strategy:
blocks, includes, roles, handlers, meta tasks. Private parts that it leans on (tested with
ansible-core 2.19): `StrategyBase._queue_task`, `_convert_wire_task_result_to_raw`, `_results`,
`_queued_task_cache`, `_pending_results`, `TaskExecutor`, `_task.TaskContext`,
`TaskExecutor._get_action_handler_with_module_context`.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible._internal import _task
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import _RawTaskResult
from ansible.plugins import loader as plugin_loader
from ansible.plugins.strategy.linear import StrategyModule as LinearStrategy

from cobweb_plugins.ansible._results import SAY_FACTS
from cobweb_plugins.ansible.strategy.cobweb_commands import has_posix_shell
from cobweb_plugins.ansible.strategy.cobweb_warm import stand_apart, warm_up

DOCUMENTATION = """
    name: cobweb_item
    short_description: the linear strategy for one host, tasks run in the strategy's own process
    description: [Used by Cobweb's lanes only.]
    author: Cobweb
"""

SAID_HERE = SAY_FACTS | {
    f"{name}include_vars" for name in ("", "ansible.builtin.", "ansible.legacy.")
}
"""The actions whose facts are the site's own words."""
INTERPRETER = ("discovered_interpreter_", "ansible_discovered_interpreter_")
PYTHON = re.compile(r"/[\w./+-]*/(?:platform-)?(?:python|pypy)[\w.]*", re.ASCII)
MEMORY_BYTES = 256 << 20
"""How much a lane may take for what another host says in one task: its result, many times over."""
LIMITS = resource.getrlimit(resource.RLIMIT_DATA)
"""Soft and hard, as the user has set them."""
KEYWORDS = ("connection", "port", "remote_user")


class StrategyModule(LinearStrategy):  # type: ignore[misc]  # ansible-core has no types
    """Ansible's linear strategy over one host, with tasks run in this process."""

    def _queue_task(
        self, host: Any, task: Any, task_vars: dict[str, Any], play_context: Any
    ) -> None:
        self._queued_task_cache[(host.name, task._uuid)] = {
            "host": host,
            "task": task,
            "task_vars": task_vars,
            "play_context": play_context,
        }
        raw = self._execute(host, task, task_vars, play_context)
        self._pending_results += 1
        with self._results_lock:
            self._results.append(self._convert_wire_task_result_to_raw(raw.as_wire_task_result()))

    def _execute(self, host: Any, task: Any, task_vars: dict[str, Any], play_context: Any) -> Any:
        tqm = self._tqm
        copied, result = run_task(MarkingExecutor, tqm, host, task, task_vars, play_context)
        self._loader.cleanup_all_tmp_files()
        if task.action not in SAID_HERE:
            _keep_to_facts(result, host.vars)
        fields = {**copied.dump_attrs(), "debugger": "never"}  # there is nobody to ask
        return _RawTaskResult(host=host, task=copied, return_data=result, task_fields=fields)


def run_task(  # noqa: PLR0913, PLR0917  # what Ansible's worker is given
    executor: type[MarkingExecutor],
    tqm: Any,
    host: Any,
    task: Any,
    task_vars: dict[str, Any],
    play_context: Any,
) -> tuple[Any, dict[str, Any]]:
    """Run a task as Ansible's worker does; a copy keeps the templates of the original.

    Return the copy and the result.
    """
    copied = task.copy(exclude_parent=True, exclude_tasks=True)
    copied._parent = task._parent
    with _task.TaskContext(copied):
        result = executor(
            tqm,
            host,
            copied,
            task_vars,
            play_context,
            tqm.get_loader(),
            plugin_loader.get_plugin_loader_namespace(),
            tqm._final_q,
            tqm.get_variable_manager(),
        ).run()
    return copied, result


def _keep_to_facts(result: dict[str, Any], site: Mapping[str, Any]) -> None:
    """Take out of the facts that a module said what stands for something else than a fact.

    That is what the `site` says of the host, and an interpreter that is no path of a Python: either
    could get into what a later task runs on the controller.
    """
    items = result.get("results")
    for one in (result, *(items if isinstance(items, list) else ())):
        facts = one.get("ansible_facts") if isinstance(one, dict) else None
        if not isinstance(facts, dict):
            continue
        for name in tuple(facts):
            is_python = str(name).startswith(INTERPRETER)
            if name in site or (is_python and not PYTHON.fullmatch(str(facts[name]))):
                del facts[name]


class MarkingExecutor(TaskExecutor):  # type: ignore[misc]  # ansible-core has no types
    """Ansible's own, that says where a task goes and marks what it starts on a remote host."""

    def __init__(self, tqm: Any, *args: Any) -> None:
        super().__init__(*args)
        self._tqm = tqm
        self.is_warm = False

    def _get_action_handler_with_module_context(self, templar: Any) -> Any:
        """Do so at the one moment when task and connection have their final values."""
        handler, context = super()._get_action_handler_with_module_context(templar)
        if self._tqm.fresh:
            stand_apart(self._connection)
        else:
            self.is_warm = warm_up(self._connection, self._tqm.servers)
        place = None
        is_remote = _is_remote(handler, self._connection)
        bound_memory(MEMORY_BYTES if is_remote else None)
        self._connection.cobweb_mark = self._tqm.mark
        if self._tqm.mark and is_remote:
            place = _place(self._task, self._connection, self._host)
        self._tqm.at(place)
        return handler, context


def bound_memory(most: int | None) -> None:
    """Let this process take at most so many bytes more than it has; None lifts the bound."""
    soft, hard = LIMITS
    if most is not None:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        found = re.search(r"VmData:\s*(\d+) kB", status)
        assert found is not None, "the kernel does not say how much memory we have"
        bound = int(found[1]) * 1024 + most
        soft = bound if soft == resource.RLIM_INFINITY else min(bound, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _is_remote(handler: Any, connection: Any) -> bool:
    """Say whether a task may start processes where only a sweep can end them."""
    local = connection.transport == "local" or getattr(connection, "_remote_is_local", False)
    return (
        has_posix_shell(connection) and not local and getattr(handler, "_requires_connection", True)
    )


def _place(task: Any, connection: Any, host: Any) -> dict[str, Any]:
    """Return where and as whom a task runs."""
    become = connection.become
    variables: dict[str, Any] = {"ansible_become": become is not None}
    if become is not None:
        variables["ansible_become_method"] = become.name
        variables["ansible_become_user"] = become.get_option("become_user")
    keywords = {key: getattr(task, key) for key in KEYWORDS}
    return {
        "host": task.delegate_to or host.name,
        "keywords": {key: value for key, value in keywords.items() if value is not None},
        "vars": {key: value for key, value in variables.items() if value is not None},
    }
