# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints an inventory as `ansible-inventory --list` does, with the order that this leaves out.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. A process of its own: `python -m` with the arguments of ansible-inventory.
"""

from __future__ import annotations

import sys
from typing import Any

from ansible.cli.inventory import InventoryCLI

__all__ = ["ORDER"]

ORDER = "_cobweb_order"
"""The key of the order: `hosts` are all hosts as they were read, `groups` are pairs of a group and
its hosts, those of its children among them, as `groups` has them in a task."""


class OrderedInventoryCLI(InventoryCLI):  # type: ignore[misc]  # ansible-core has no types
    """Ansible's own command with one more key in what it prints."""

    def json_inventory(self, top: Any) -> dict[str, Any]:
        """Return what is printed."""
        inventory = self.inventory
        groups = [(name, _hosts(group)) for name, group in inventory.groups.items()]
        order = {"hosts": [*inventory.hosts], "groups": groups}
        return {**super().json_inventory(top), ORDER: order}


def _hosts(group: Any) -> list[str]:
    """Return the names of the hosts of a group as Ansible has them: its own first, level by level.

    Below the first level of children Ansible's own order is that of hashes, another one each time.
    """
    groups = [group]
    for each in groups:
        groups += [child for child in each.child_groups if child not in groups]
    return [*dict.fromkeys(host.name for each in groups for host in each.hosts)]


if __name__ == "__main__":
    OrderedInventoryCLI.cli_executor(["ansible-inventory", *sys.argv[1:]])
