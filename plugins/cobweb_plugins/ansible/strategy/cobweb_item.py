# SPDX-License-Identifier: GPL-3.0-or-later
"""Strategy plugin that runs each task in the process of the strategy, without a fork.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. Everything but the way a task is started is Ansible's own linear strategy:
blocks, includes, roles, handlers, meta tasks. Private parts that it leans on (tested with
ansible-core 2.19): `StrategyBase._queue_task`, `_convert_wire_task_result_to_raw`, `_results`,
`_queued_task_cache`, `_pending_results`, `TaskExecutor`, `_task.TaskContext`.
"""

from __future__ import annotations

from typing import Any

from ansible._internal import _task
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import _RawTaskResult
from ansible.plugins import loader as plugin_loader
from ansible.plugins.strategy.linear import StrategyModule as LinearStrategy

DOCUMENTATION = """
    name: cobweb_item
    short_description: the linear strategy for one host, tasks run in the strategy's own process
    description: [Used by Cobweb's lanes only.]
    author: Cobweb
"""


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
        """Run a task as Ansible's worker does; a copy keeps the templates of the original."""
        copied = task.copy(exclude_parent=True, exclude_tasks=True)
        copied._parent = task._parent
        with _task.TaskContext(copied):
            result = TaskExecutor(
                host,
                copied,
                task_vars,
                play_context,
                self._loader,
                plugin_loader.get_plugin_loader_namespace(),
                self._final_q,
                self._variable_manager,
            ).run()
        self._loader.cleanup_all_tmp_files()
        fields = {**copied.dump_attrs(), "debugger": "never"}  # there is nobody to ask
        return _RawTaskResult(host=host, task=copied, return_data=result, task_fields=fields)
