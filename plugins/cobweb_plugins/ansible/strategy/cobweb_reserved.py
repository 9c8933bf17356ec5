# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps facts from standing in for what Ansible, or the site, says of a host, in any executor.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. A host says its facts, and Ansible puts them above the name and the groups
that the inventory gives it, and above what the site says of it: a task on the controller would
write where the host wants it to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.vars.manager import VariableManager

__all__ = ["guard_facts"]

RESERVED = frozenset(
    [
        *("group_names", "inventory_dir", "inventory_file", "inventory_hostname"),
        *("inventory_hostname_short", "omit", "vars"),
    ]
)
"""What Ansible says of a host and does not put above facts by itself."""


def guard_facts() -> None:
    """Have facts of these names forgotten, in this process and its forks; may be called again."""
    usual = VariableManager.set_host_facts
    if getattr(usual, "guards", False):
        return

    def kept(manager: Any, host: Any, facts: Any) -> Any:
        if isinstance(facts, Mapping):
            known = manager._inventory and manager._inventory.get_host(host)
            # Of the variables of a connection Ansible takes no facts, but for delegated hosts'.
            said = {it for it in (known.vars if known else ()) if not it.startswith("ansible_")}
            facts = {name: it for name, it in facts.items() if name not in RESERVED | said}
        return usual(manager, host, facts)

    kept.guards = True  # type: ignore[attr-defined]  # a mark of our own
    VariableManager.set_host_facts = kept
