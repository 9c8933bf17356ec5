# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the way to a host's module server as a task would take it, without running a task there.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. Private parts that it leans on: `TaskExecutor` up to where it has its action
plugin, `ActionBase._low_level_execute_command`.
"""

from __future__ import annotations

from typing import Any

from ansible import constants
from ansible.playbook.play import Play
from ansible.playbook.play_context import PlayContext

from cobweb_plugins.ansible.strategy.cobweb_item import PYTHON, MarkingExecutor, run_task
from cobweb_plugins.ansible.strategy.cobweb_warm import PROBE, ProbedError

__all__ = ["INTERPRETER", "Prober"]

INTERPRETER = "ansible_python_interpreter"
OPEN_FILES = "PYTHON_MODULE_RLIMIT_NOFILE"


class Prober:
    """Asks Ansible for the way to hosts, by a task that goes no further than its command line."""

    def __init__(self, tqm: Any, variables: Any, loader: Any) -> None:
        data = {"name": "cobweb", "hosts": "all", "gather_facts": False}
        data["tasks"] = [{"ansible.builtin.ping": {}}]
        self._play = Play.load(data, variable_manager=variables, loader=loader)
        self._task = self._play.tasks[0].block[0]
        self._tqm, self._variables, self._loader = tqm, variables, loader

    def way(self, host: Any) -> dict[str, Any] | None:
        """Return what leads to the module server; None where a module has to be run to know it."""
        variables = self._variables.get_vars(play=self._play, host=host, task=self._task)
        python = variables.get(INTERPRETER)
        if not isinstance(python, str) or not PYTHON.fullmatch(python):
            return None
        context = PlayContext(self._play, self._tqm.passwords)
        try:
            run_task(_Probe, self._tqm, host, self._task, variables, context)
        except ProbedError as found:
            return found.met
        return None


class _Probe(MarkingExecutor):
    """Ends a task where it would begin."""

    def _get_action_handler_with_module_context(self, templar: Any) -> Any:
        handler, _ = super()._get_action_handler_with_module_context(templar)
        variables = self._job_vars
        few_files = constants.config.get_config_value(OPEN_FILES, variables=variables)
        if self.is_warm and self._connection.is_pipelining_enabled() and not few_files:
            handler._low_level_execute_command(variables[INTERPRETER], in_data=PROBE)
        raise ProbedError(None)
