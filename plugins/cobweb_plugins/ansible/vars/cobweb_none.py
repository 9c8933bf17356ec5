# SPDX-License-Identifier: GPL-3.0-or-later
"""Vars plugin that adds nothing: Cobweb has merged group_vars and host_vars already.

Ansible makes it before any task, in both executors, so it is where tasks are guarded, too. It
imports ansible-core, which is under the GNU General Public License v3 or later, and so stands under
the same licence.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.vars import BaseVarsPlugin

from cobweb_plugins.ansible.strategy.cobweb_commands import guard_commands
from cobweb_plugins.ansible.strategy.cobweb_environment import guard_environment
from cobweb_plugins.ansible.strategy.cobweb_reserved import guard_facts
from cobweb_plugins.ansible.strategy.cobweb_unvaulted import let_templates_be

DOCUMENTATION = """
    name: cobweb_none
    short_description: adds no variables
    description: [Stands where host_group_vars would read group_vars and host_vars a second time.]
    author: Cobweb
"""


class VarsModule(BaseVarsPlugin):  # type: ignore[misc]  # ansible-core has no types
    """Adds nothing."""

    REQUIRES_ENABLED = True
    is_stateless = True  # else Ansible makes one for each path and task

    def __init__(self) -> None:
        super().__init__()
        guard_environment()
        guard_commands()
        guard_facts()
        let_templates_be()

    def get_vars(self, loader: Any, path: str, entities: Any) -> dict[str, Any]:
        """Return no variables."""
        del loader, path, entities
        return {}
