# SPDX-License-Identifier: GPL-3.0-or-later
"""Vars plugin that reads group_vars and host_vars, and lets nothing out of vaulted files.

It stands in the place of `host_group_vars` where Cobweb has `ansible-inventory` read an inventory:
that prints what is in a file that is vaulted as a whole. Here each value of such a file is vaulted
for itself. It is made of ansible-core, which is under the GNU General Public License v3 or later,
and so stands under the same licence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.parsing.vault import EncryptedString
from ansible.plugins.vars.host_group_vars import VarsModule as HostGroupVars
from ansible.utils.vars import combine_vars

from cobweb_plugins.ansible.strategy.cobweb_unvaulted import (
    VAULT_MARK,
    UnvaultError,
    is_whole,
    unvaulted,
)

DOCUMENTATION = """
    name: cobweb_group_vars
    short_description: reads group_vars and host_vars, and keeps vaulted what is
    description: [Reads what host_group_vars reads; of vaulted files each value is vaulted.]
    author: Cobweb
"""


class VarsModule(HostGroupVars):  # type: ignore[misc]  # ansible-core has no types
    """Reads files as `host_group_vars` does."""

    def load_found_files(self, loader: Any, data: Any, found_files: Sequence[Any]) -> Any:
        """Return `data` with the variables of files above it."""
        for found in found_files:
            if is_whole(found):
                data = combine_vars(data, _opened(found, tuple(loader._vault.secrets or ())))
            else:
                data = super().load_found_files(loader, data, [found])
        return data


@cache
def _opened(path: Any, secrets: tuple[Any, ...]) -> Any:
    try:
        return _marked(unvaulted(str(path), secrets))
    except UnvaultError as error:
        raise AnsibleParserError(f"{path}: {error.message}") from None


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {VAULT_MARK}:
            return EncryptedString(ciphertext=value[VAULT_MARK])
        return {key: _marked(item) for key, item in value.items()}
    return [_marked(item) for item in value] if isinstance(value, list) else value
